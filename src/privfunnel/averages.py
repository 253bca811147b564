r"""The measures of leakage as averages over the outputs: what a search minimises, and what a proof may say of it.

Let w be the posterior of an output, t = Pw restricted to the public symbols that have one value a of what an attacker
knows, and π = p(s|a). Every measure of leakage is a constant, plus Σ_y p(y) φ(t_y) summed over the values a, up to a
monotone transform; φ is convex and homogeneous, φ(ct) = c φ(t), so that it is the largest of its linear *cuts*:
φ(t) ≥ z·t. Whatever multipliers z stand in a file, :meth:`Convex.safe` makes a cut of them:

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
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.measures import TINY, Array

_EPS = float(np.finfo(np.float64).eps)
#: Entries of t are raised to this share before the logarithm gives a cut.
LEAST_IMAGE = 1e-12

Index = NDArray[np.intp]


class Convex(ABC):
    """φ of one measure of leakage."""

    #: What the blocks of a stack are called that have this φ.
    kind: ClassVar[str]
    #: Whether leakage is an amount of information, in nats; other measures are probabilities or numbers.
    in_nats: ClassVar[bool] = False
    #: Whether no leakage means that S and Y are independent.
    faithful: ClassVar[bool] = True
    #: Whether it is flat at no leakage, where it grows as a square: a little of it buys much disclosure.
    smooth: ClassVar[bool] = False
    #: Whether an attacker's leakage is the largest over what they know instead of the mean, and t_s is t_s/p(s, a).
    worst_value: ClassVar[bool] = False

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


class Negentropy(Convex):
    """Mutual information: −H(S|A)_w, to which H(S|A) is added."""

    kind = "entropy"
    in_nats = True
    smooth = True

    def value(self, images: Array, starts: Index, priors: Array) -> Array:
        """Σ t log(t/Σt)."""
        sums = np.add.reduceat(images, starts, axis=-1)
        return np.asarray(np.add.reduceat(measures.xlogx(images), starts, axis=-1) - measures.xlogx(sums))

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
        return float(measures.conditional_entropy(p_sa))


class Largest(Convex):
    """Guessing: how often the best guess is right, from which that of who does not see the release is taken."""

    kind = "largest"
    faithful = False

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
        return -float(measures.guessing_accuracy(p_sa))


class LargestLift(Largest):
    """Maximal leakage: the logarithm of E max_s p(s|y, a)/p(s|a), of the worst value a of what is known."""

    in_nats = True
    faithful = True
    worst_value = True

    def constant(self, p_sa: Array) -> float:
        """Nothing: the average is Σ_y max_s p(y|s)."""
        return 0.0

    def leakage(self, average: float) -> float:
        """The logarithm in nats; −∞ below 0."""
        return math.log(average) if average > 0.0 else -math.inf

    def average(self, leakage: float) -> float:
        """The exponential; a budget beyond all bounds is none."""
        return math.exp(min(leakage, 700.0))


class Quadratic(Convex):
    """χ²: Σ t²/(π Σt), less 1."""

    kind = "quadratic"
    smooth = True

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


class Variation(Convex):
    """Total variation: ½ Σ |t − π Σt|."""

    kind = "variation"

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


#: φ of each measure of leakage, by its name in :data:`privfunnel.measures.LEAKAGES`.
CONVEX: dict[str, Convex] = {
    "mutual-information": Negentropy(),
    "maximal-leakage": LargestLift(),
    "guessing": Largest(),
    "chi-squared": Quadratic(),
    "total-variation": Variation(),
}
#: The same by the kind of block; what makes multipliers safe is that of guessing and of maximal leakage alike.
KINDS: dict[str, Convex] = {each.kind: each for each in CONVEX.values()}
#: The measures in the words of people: what each is called, and what a number of it says.
WORDS: dict[str, tuple[str, str]] = {
    "mutual-information": ("mutual information", "the average surprise about the private values"),
    "maximal-leakage": (
        "maximal leakage",
        "the logarithm of the factor by which any question about the private values becomes easier to guess at most",
    ),
    "guessing": (
        "gain in guessing",
        "by how much oftener the best guess of the private values is right, as a probability",
    ),
    "chi-squared": ("χ²", "the mean squared relative change of beliefs about the private values"),
    "total-variation": ("total variation", "how far beliefs about the private values move on average"),
}
