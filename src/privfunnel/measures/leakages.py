r"""The measures of leakage: what each is called, its number of a table, and what a search and a proof make of it.

A measure is a class; adding one is adding a subclass of :class:`Measure` here, which the command line, the page,
reports and files then know by its name.

Let w be the posterior of an output, t = Pw restricted to the public symbols that have one value a of what an attacker
knows, and π = p(s|a). Every measure of leakage is a constant, plus Σ_y p(y) φ(t_y) summed over the values a, up to a
monotone transform; φ is convex and homogeneous, φ(ct) = c φ(t), so that it is the largest of its linear *cuts*:
φ(t) ≥ z·t. Whatever multipliers z stand in a file, :meth:`Measure.safe` makes a cut of them:

    mutual information   φ = Σ_s t_s log(t_s/Σt)     Σ exp z ≤ 1 (Gibbs)
    guessing             φ = max_s t_s               z ≥ 0, Σ z ≤ 1
    maximal leakage      the same of t_s/p(s, a)     the same; the leakage is the logarithm of the average
    χ²                   φ = Σ_s t_s²/(π_s Σt)       z = v + 1 − ¼ Σ π v² with Σ π v = 0
    total variation      φ = ½ Σ_s |t_s − π_s Σt|    z = v − Σ π v with |v| ≤ ½

The third follows from Σ u²/π − v·u ≥ 1 − ¼ Σ π v² for all u with Σ u = 1, which is the minimum over u.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.measures import information
from privfunnel.measures.information import TINY, Array

_EPS = float(np.finfo(np.float64).eps)
#: Entries of t are raised to this share before the logarithm gives a cut.
LEAST_IMAGE = 1e-12
#: What rounding may add to a bound that one measure gives for another: a share, or nats.
ROUNDED = 1e-12

Index = NDArray[np.intp]


#: The measures by name: the one of each subclass of :class:`Measure` that has one.
MEASURES: dict[str, Measure] = {}


class Measure(ABC):
    """One measure of leakage: what B tells about A as a number that is 0 where they are independent, and its φ.

    Attributes:
        name: What it is called in files, in Python and on the command line.
        title: What it is called in sentences.
        about: What a number of it says, to follow its title.
        kind: What the blocks of a stack are called that have its φ.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    kind: ClassVar[str]
    #: Whether it is mutual information itself, which disclosure and closed forms are about.
    is_information: ClassVar[bool] = False
    #: Whether leakage is an amount of information, in nats; other measures are probabilities or numbers.
    in_nats: ClassVar[bool] = False
    #: Whether no leakage means that S and Y are independent.
    faithful: ClassVar[bool] = True
    #: Whether it is flat at no leakage, where it grows as a square: a little of it buys much disclosure.
    smooth: ClassVar[bool] = False
    #: Whether an attacker's leakage is the largest over what they know instead of the mean, and t_s is t_s/p(s, a).
    worst_value: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Enter the one measure of this class by its name."""
        if "name" in cls.__dict__:
            MEASURES[cls.name] = cls()

    def __str__(self) -> str:
        """Its name."""
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and what is unpickled are the one measure of this name."""
        return measure_of, (self.name,)

    @abstractmethod
    def told(self, p_ab: ArrayLike) -> Array:
        """What B tells about A, of a joint table ``(..., a, b)``."""

    def information_at_most(self, leakage: ArrayLike, p_a: Array) -> Array:
        """What ``I(A; B)`` is at most, in nats, where B tells no more than ``leakage`` about A, of any shape.

        Args:
            leakage: What B tells about A.
            p_a: p(a), all above 0, shape (K,).
        """
        told = self._information(np.maximum(np.asarray(leakage, dtype=np.float64), 0.0), p_a)
        return np.asarray(np.minimum(told, information.entropy(p_a)))

    def leakage_at_least(self, nats: ArrayLike, p_a: Array) -> Array:
        """What B tells about A at least, where ``I(A; B)`` is at least ``nats``: see :meth:`information_at_most`."""
        told = self._leakage(np.maximum(np.asarray(nats, dtype=np.float64), 0.0), p_a)
        return np.asarray(np.maximum(told, 0.0))

    def _information(self, told: Array, p_a: Array) -> Array:
        """What I(A;B) is at most without regard to H(A): the same, of a measure that is never below it."""
        return told

    def _leakage(self, nats: Array, p_a: Array) -> Array:
        """The inverse of :meth:`_information`."""
        return nats

    @abstractmethod
    def value(self, images: Array, starts: Index, priors: Array) -> Array:
        """φ of blocks of images t, (n, J), that begin at ``starts``, with priors π (J,); shape (n, blocks)."""

    @abstractmethod
    def cut(self, image: Array, prior: Array) -> Array:
        """The multipliers z, (K,), of the cut that touches φ at an image (K,)."""

    @abstractmethod
    def safe(self, z: Array, prior: Array) -> Array:
        """Multipliers (n, K) with z·t ≤ φ(t) for all t ≥ 0, rounding allowed for, near those given."""

    def idle(self, size: int) -> Array:
        """Multipliers (K,) of a block without weight."""
        return np.zeros(size)

    def constant(self, p_sa: Array) -> float:
        """What is added to the average, of p(s, a), (K, A)."""
        return 0.0

    def leakage(self, average: float) -> float:
        """The leakage that belongs to an average."""
        return average

    def average(self, leakage: float) -> float:
        """The average that belongs to a leakage."""
        return leakage


def gibbs(q: Array) -> Array:
    """Multipliers (n, K) with Σ exp q ≤ 1 in every row, rounding allowed for: what Gibbs' inequality asks for."""
    # The largest entry becomes 0, so that the sum of exponentials is in [1, K] and its logarithm accurate. Rows are
    # many and short, and NumPy adds along a short last axis at a tenth of its speed.
    across = np.ascontiguousarray(q.T)
    across = across - across.max(axis=0)
    allowance = 8.0 * len(across) * _EPS * (1.0 - across.min(axis=0))
    normalised: Array = across - np.log(np.exp(across).sum(axis=0)) - allowance
    return np.ascontiguousarray(normalised.T)


class MutualInformation(Measure):
    """Mutual information: −H(S|A)_w, to which H(S|A) is added."""

    name = "mutual-information"
    title = "mutual information"
    about = "the average surprise about the private values"
    kind = "entropy"
    is_information = True
    in_nats = True
    smooth = True

    def told(self, p_ab: ArrayLike) -> Array:
        """I(A;B) in nats."""
        return information.mutual_information(p_ab)

    def value(self, images: Array, starts: Index, priors: Array) -> Array:
        """Σ t log(t/Σt)."""
        sums = np.add.reduceat(images, starts, axis=-1)
        return np.asarray(
            np.add.reduceat(information.xlogx(images), starts, axis=-1) - information.xlogx(sums)
        )

    def cut(self, image: Array, prior: Array) -> Array:
        """Log t/Σt."""
        t = np.maximum(image, LEAST_IMAGE * max(float(image.sum()), TINY))
        return np.asarray(np.log(t / t.sum()))

    def safe(self, z: Array, prior: Array) -> Array:
        """Σ exp z ≤ 1."""
        return gibbs(z)

    def idle(self, size: int) -> Array:
        """−log K."""
        return np.full(size, -math.log(size))

    def constant(self, p_sa: Array) -> float:
        """H(S|A) in nats."""
        return float(information.conditional_entropy(p_sa))


class Guessing(Measure):
    """Guessing: how often the best guess is right, from which that of who does not see the release is taken."""

    name = "guessing"
    title = "gain in guessing"
    about = "by how much oftener the best guess of the private values is right, as a probability"
    kind = "largest"
    faithful = False

    def told(self, p_ab: ArrayLike) -> Array:
        """How much oftener the best guess of A is right."""
        return information.guessing_gain(p_ab)

    def _information(self, told: Array, p_a: Array) -> Array:
        """H(A|B) is at least log k where guesses fail 1 − 1/k of the time, and straight between whole k."""
        wrong, least = _guesses(p_a.size)
        return np.asarray(
            information.entropy(p_a) - np.interp(1.0 - p_a.max() - told, wrong, least) + ROUNDED
        )

    def _leakage(self, nats: Array, p_a: Array) -> Array:
        wrong, least = _guesses(p_a.size)
        return np.asarray(
            1.0 - p_a.max() - np.interp(information.entropy(p_a) - nats, least, wrong) - ROUNDED
        )

    def value(self, images: Array, starts: Index, priors: Array) -> Array:
        """Max t."""
        return np.asarray(np.maximum.reduceat(images, starts, axis=-1))

    def cut(self, image: Array, prior: Array) -> Array:
        """1 at the largest entry."""
        return np.asarray(np.arange(image.size) == int(np.argmax(image)), dtype=np.float64)

    def safe(self, z: Array, prior: Array) -> Array:
        """Z ≥ 0, Σ z ≤ 1."""
        z = np.maximum(z, 0.0)
        sums = z.sum(axis=1, keepdims=True)
        even = np.full_like(z, 1.0 / z.shape[1])
        share = np.where(sums > TINY, z / np.where(sums > TINY, sums, 1.0), even)
        return np.asarray(share * (1.0 - 4.0 * z.shape[1] * _EPS))

    def constant(self, p_sa: Array) -> float:
        """Minus how often the best guess is right without the release."""
        return -float(information.guessing_accuracy(p_sa))


class MaximalLeakage(Guessing):
    """Maximal leakage: the logarithm of E max_s p(s|y, a)/p(s|a), of the worst value a of what is known.

    It is no less than I(S;Y).
    """

    name = "maximal-leakage"
    title = "maximal leakage"
    about = "the logarithm of the factor by which any question about the private values becomes easier to guess at most"
    in_nats = True
    faithful = True
    worst_value = True

    def told(self, p_ab: ArrayLike) -> Array:
        """Log Σ_b max_a p(b|a)."""
        return information.maximal_leakage(p_ab)

    def _information(self, told: Array, p_a: Array) -> Array:
        return told

    def _leakage(self, nats: Array, p_a: Array) -> Array:
        return nats

    def constant(self, p_sa: Array) -> float:
        """Nothing: the average is Σ_y max_s p(y|s)."""
        return 0.0

    def leakage(self, average: float) -> float:
        """The logarithm in nats; −∞ below 0."""
        return math.log(average) if average > 0.0 else -math.inf

    def average(self, leakage: float) -> float:
        """The exponential; a budget beyond all bounds is none."""
        return math.exp(min(leakage, 700.0))


class ChiSquared(Measure):
    """χ²: Σ t²/(π Σt), less 1. I(A;B) is at most log(1 + χ²), by Jensen's inequality."""

    name = "chi-squared"
    title = "χ²"
    about = "the mean squared relative change of beliefs about the private values"
    kind = "quadratic"
    smooth = True

    def told(self, p_ab: ArrayLike) -> Array:
        """χ²(A;B)."""
        return information.chi_squared(p_ab)

    def _information(self, told: Array, p_a: Array) -> Array:
        return np.asarray(np.log1p(told) * (1.0 + ROUNDED))

    def _leakage(self, nats: Array, p_a: Array) -> Array:
        return np.asarray(np.expm1(nats) * (1.0 - ROUNDED))

    def value(self, images: Array, starts: Index, priors: Array) -> Array:
        """Σ t²/(π Σt)."""
        squares = np.add.reduceat(images**2 / priors, starts, axis=-1)
        sums = np.add.reduceat(images, starts, axis=-1)
        return np.asarray(squares / np.where(sums > 0.0, sums, 1.0))

    def cut(self, image: Array, prior: Array) -> Array:
        """2u/π − Σ u²/π with u = t/Σt; 1 where t is 0."""
        total = float(image.sum())
        u = image / total if total > TINY else prior
        return np.asarray(2.0 * u / prior - float((u**2 / prior).sum()))

    def safe(self, z: Array, prior: Array) -> Array:
        """The mean under π becomes 1 less a quarter of the variance."""
        v = z - z @ prior[:, None]
        variance = (v**2) @ prior[:, None]
        size = 1.0 + np.abs(z).max(axis=1, keepdims=True) * (1.0 + np.abs(v).max(axis=1, keepdims=True))
        return np.asarray(v + 1.0 - 0.25 * variance - 16.0 * (z.shape[1] + 4) * _EPS * size)

    def idle(self, size: int) -> Array:
        """1, which touches φ at the prior."""
        return np.ones(size)

    def constant(self, p_sa: Array) -> float:
        """Minus 1."""
        return -float(p_sa.sum())


class TotalVariation(Measure):
    """Total variation: ½ Σ |t − π Σt|.

    With m the least p(a), KL(p‖p_a) ≤ TV log(1/m)/(1 − m): KL is convex where the signs of p − p_a are given, hence
    KL/TV largest where the mass of all others is moved to the rarest symbol.
    """

    name = "total-variation"
    title = "total variation"
    about = "how far beliefs about the private values move on average"
    kind = "variation"

    def told(self, p_ab: ArrayLike) -> Array:
        """The mean distance of p(a|b) from p(a)."""
        return information.total_variation(p_ab)

    def _information(self, told: Array, p_a: Array) -> Array:
        return np.asarray(told * _per_variation(p_a) * (1.0 + ROUNDED))

    def _leakage(self, nats: Array, p_a: Array) -> Array:
        return np.asarray(nats / _per_variation(p_a) * (1.0 - ROUNDED))

    def value(self, images: Array, starts: Index, priors: Array) -> Array:
        """½ Σ |t − π Σt|."""
        sums = np.add.reduceat(images, starts, axis=-1)
        sizes = np.diff(np.append(starts, images.shape[-1]))
        away = np.abs(images - priors * np.repeat(sums, sizes, axis=-1))
        return np.asarray(0.5 * np.add.reduceat(away, starts, axis=-1))

    def cut(self, image: Array, prior: Array) -> Array:
        """Half the signs of t − π Σt, less their mean under π."""
        v = 0.5 * np.sign(image - prior * image.sum())
        return np.asarray(v - float(prior @ v))

    def safe(self, z: Array, prior: Array) -> Array:
        """Put around 0, clipped to ½, less the mean under π: a number added to z changes nothing."""
        v = z - 0.5 * (z.max(axis=1, keepdims=True) + z.min(axis=1, keepdims=True))
        v = np.clip(v, -0.5, 0.5)
        return np.asarray(v - v @ prior[:, None] - 8.0 * (z.shape[1] + 4) * _EPS)


def _per_variation(p_a: Array) -> float:
    """KL(p‖p_a) is at most this times the total variation of p and p_a, in nats."""
    least = float(p_a.min())
    return -math.log(least) / (1.0 - least) if least < 1.0 else 1.0


def _guesses(size: int) -> tuple[Array, Array]:
    """1 − 1/k and log k for k up to ``size``: how often the best guess is wrong, and the least entropy it goes with."""
    among = np.arange(1.0, size + 1.0)
    return 1.0 - 1.0 / among, np.log(among)


#: Mutual information, the measure where none is named.
INFORMATION = MEASURES[MutualInformation.name]
#: The same by the kind of block; what makes multipliers safe is that of guessing and of maximal leakage alike.
KINDS: dict[str, Measure] = {each.kind: each for each in reversed(MEASURES.values())}


def measure_of(given: Measure | str) -> Measure:
    """A measure by its name, or as it is.

    Raises:
        InvalidInputError: There is no such measure.
    """
    if isinstance(given, Measure):
        return given
    if given not in MEASURES:
        raise InvalidInputError(f"there is no measure {given!r}: choose one of {', '.join(MEASURES)}")
    return MEASURES[given]


def leakage(p_ab: Any, measure: Measure | str = INFORMATION) -> Array:
    """What B tells about A by a measure, of a joint table ``(..., a, b)`` or a sparse one.

    Raises:
        InvalidInputError: There is no such measure.
    """
    by = measure_of(measure)
    return by.told(p_ab.toarray() if hasattr(p_ab, "toarray") and not by.is_information else p_ab)
