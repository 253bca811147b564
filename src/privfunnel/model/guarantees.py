"""Guarantees for every output: what each single released symbol may say, as constraints on its posterior w = p(x|y).

With t = Pw = p(s|y) and p = p(s), nats, every guarantee is a convex set W of posteriors, and almost all are given by
linear rows: ``rows @ w ≤ 0`` for w ≥ 0, Σ w = 1. A mixture of posteriors of W has its total in W, so that a guarantee
can be met exactly when p(x) itself, the posterior of an output that says nothing, meets it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from privfunnel import measures
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import is_sparse
from privfunnel.model.problem import Problem

#: Posteriors that miss a row by no more than this share of its terms meet it: far above rounding, far below any effect.
MET = 1e-9
#: Facets of one guarantee at most.
MOST_ROWS = 20_000


#: The guarantees by name: each subclass of :class:`Guarantee` that has one.
GUARANTEES: dict[str, type[Guarantee]] = {}


class Rows(NamedTuple):
    """Linear constraints ``values @ w ≤ 0``, (J, M), and the absolute values that each entry is a sum of, (J, M)."""

    values: Array
    sizes: Array

    @classmethod
    def difference(cls, one: Array, other: Array) -> Rows:
        """``one ≤ other`` of two non-negative forms."""
        return cls(one - other, one + other)

    @classmethod
    def stacked(cls, rows: Iterable[Rows], n_x: int) -> Rows:
        """Several, one below the other."""
        listed = [*rows, cls(np.zeros((0, n_x)), np.zeros((0, n_x)))]
        return cls(*(np.concatenate([getattr(each, part) for each in listed]) for part in cls._fields))


class Ball(NamedTuple):
    """The constraint ``‖values @ w‖₁ ≤ radius``; shapes (J, M), with sizes as in :class:`Rows`."""

    values: Array
    sizes: Array
    radius: float


@dataclass(frozen=True)
class Guarantee(ABC):
    """What holds for every output.

    Attributes:
        value: How much is allowed; smaller is stricter, but for k and l.
    """

    value: float

    #: How it is written, ``name=value``, a value to begin with, and what it is called where one is chosen.
    name: ClassVar[str] = ""
    example: ClassVar[str] = "0.5"
    title: ClassVar[str] = ""
    #: The least and the largest value that make sense.
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = math.inf
    #: Whether a larger value asks for more, as of k and l.
    more_is_stricter: ClassVar[bool] = False
    #: Whether it is an amount of information; others have no unit.
    in_nats: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (is_number(self.value) and self.least <= self.value < self.most):
            until = "" if math.isinf(self.most) else f" and below {self.most:g}"
            raise InvalidInputError(
                f"{self} is no guarantee: give a number of at least {self.least:g}{until}"
            )

    def __init_subclass__(cls) -> None:
        """Enter it by its name."""
        if "name" in cls.__dict__:
            GUARANTEES[cls.name] = cls

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Guarantee | None:
        """The guarantee of the numbers that were written; None where they are none of its own."""
        return cls(numbers[0]) if len(numbers) == 1 else None

    def __str__(self) -> str:
        """As it is written: ``lip=0.2``."""
        return f"{self.name}={_written(self.value)}"

    def rows(self, problem: Problem) -> Rows:
        """The linear constraints on posteriors."""
        return Rows.stacked((), problem.n_x)

    def balls(self, problem: Problem) -> tuple[Ball, ...]:
        """The constraints on sums of absolute values."""
        return ()

    def caps(self, problem: Problem) -> Array | None:
        """Largest entries of a posterior, shape (M,); None where there is no cap."""
        return None

    @property
    def least_entropy(self) -> float | None:
        """H(t) ≥ this, in nats; None where the entropy is free."""
        return None

    @abstractmethod
    def reached(self, problem: Problem, channel: Channel) -> float:
        """The value that a channel p(y|x), (M, N), has, to be compared with :attr:`value`."""

    def excess(self, problem: Problem, posterior: Any) -> float:
        """By what share of its terms a posterior misses the tightest constraint; negative where it meets all.

        Args:
            problem: The problem.
            posterior: p(x|y), shape (M,); or those of several outputs, sparse, shape (M, N), of which the worst counts.
        """
        rows = self.rows(problem)
        missed = [_share(rows.values @ posterior, rows.sizes @ posterior)]
        for ball in self.balls(problem):
            farthest = float(np.max(np.abs(ball.values @ posterior).sum(axis=0)))
            missed.append((farthest - ball.radius) / max(ball.radius, 1.0))
        caps = self.caps(problem)
        if caps is not None and is_sparse(posterior):
            stored = sparse.coo_array(posterior)  # no other entry is above a cap
            missed.append(float(np.max(stored.data - caps[stored.row], initial=-1.0)))
        elif caps is not None:
            missed.append(float(np.max(posterior - caps)))
        if self.least_entropy is not None:
            entropies = measures.entropy(problem.p_s_given_x @ posterior, axis=0)
            missed.append(self.least_entropy - float(np.min(entropies)))
        return max(missed)

    def check_feasible(self, problem: Problem) -> None:
        """Raise InfeasibleError where not even an output that says nothing meets it."""
        if self.excess(problem, problem.p_x) > MET:
            raise InfeasibleError(
                f"the guarantee {self} cannot hold: {self.why_not(problem)}; even a release that says nothing fails it"
            )

    def why_not(self, problem: Problem) -> str:
        """Why an output that says nothing may fail it."""
        return "the table itself is beyond it"


def _written(value: float) -> str:
    """A number with all its digits, so that it can be read back exactly."""
    return repr(value).removesuffix(".0")


def _share(values: Array, sizes: Array) -> float:
    return float(np.max(values / np.maximum(sizes, measures.TINY), initial=-1.0))


def _lift(problem: Problem, channel: Channel) -> Array:
    """Lifts p(s|y)/p(s) of the outputs that occur, (K, N)."""
    p_sy = np.asarray(problem.p_sx @ problem.check_channel(channel))
    return measures.lift(p_sy[:, p_sy.sum(axis=0) > 0.0])


@dataclass(frozen=True)
class Lift(Guarantee):
    """Largest log-lift: t_s ≤ e^ε p(s): no output makes a private value more than e^ε times as likely, ε in nats."""

    name: ClassVar[str] = "lift"
    example: ClassVar[str] = "0.5"
    title: ClassVar[str] = "beliefs grow by at most e^ε (lift)"
    in_nats: ClassVar[bool] = True

    def rows(self, problem: Problem) -> Rows:
        """K rows."""
        bound = np.exp(self._log_lift) * problem.p_s[:, None] * np.ones(problem.n_x)
        return Rows.difference(problem.p_s_given_x, bound)

    @property
    def _log_lift(self) -> float:
        return self.value

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest log-lift in nats."""
        return float(np.log(_lift(problem, channel).max()))


@dataclass(frozen=True)
class BetaLikeness(Lift):
    """β-likeness: (t_s − p(s))/p(s) ≤ β, which is a largest log-lift of log(1 + β)."""

    name: ClassVar[str] = "beta-likeness"
    title: ClassVar[str] = "β-likeness"
    in_nats: ClassVar[bool] = False

    @property
    def _log_lift(self) -> float:
        return math.log1p(self.value)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest relative increase of a private value's chance."""
        return float(_lift(problem, channel).max()) - 1.0


@dataclass(frozen=True)
class LocalInformationPrivacy(Guarantee):
    """Local information privacy: e^−ε p(s) ≤ t_s ≤ e^ε p(s), ε in nats."""

    name: ClassVar[str] = "lip"
    example: ClassVar[str] = "0.2"
    title: ClassVar[str] = "beliefs change by at most e^ε, up or down (lip)"
    in_nats: ClassVar[bool] = True

    def rows(self, problem: Problem) -> Rows:
        """2K rows."""
        p, ones = problem.p_s[:, None], np.ones(problem.n_x)
        high, low = math.exp(self.value) * p * ones, math.exp(-self.value) * p * ones
        both = (Rows.difference(problem.p_s_given_x, high), Rows.difference(low, problem.p_s_given_x))
        return Rows.stacked(both, problem.n_x)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest absolute log-lift in nats; infinite where an output rules a private value out."""
        lift = _lift(problem, channel)
        return math.inf if lift.min() <= 0.0 else float(np.abs(np.log(lift)).max())


@dataclass(frozen=True)
class DeltaDisclosure(LocalInformationPrivacy):
    """δ-disclosure privacy: |log t_s/p(s)| ≤ δ, the same as local information privacy with ε = δ."""

    name: ClassVar[str] = "delta-disclosure"
    title: ClassVar[str] = "δ-disclosure"


@dataclass(frozen=True)
class LocalDifferentialPrivacy(Guarantee):
    """Local differential privacy of S → Y: p(y|s) ≤ e^ε p(y|s'), that is t_s/p(s) ≤ e^ε t_s'/p(s'), ε in nats."""

    name: ClassVar[str] = "ldp"
    example: ClassVar[str] = "1"
    title: ClassVar[str] = "local differential privacy of what is private (ldp)"
    in_nats: ClassVar[bool] = True

    def rows(self, problem: Problem) -> Rows:
        """K(K − 1) rows."""
        likely = problem.p_s_given_x / problem.p_s[:, None]
        n_s = problem.n_s
        pairs = [(k, j) for k in range(n_s) for j in range(n_s) if k != j]
        listed = [Rows.difference(likely[[k]], math.exp(self.value) * likely[[j]]) for k, j in pairs]
        return Rows.stacked(listed, problem.n_x)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest log p(y|s)/p(y|s') in nats; infinite where an output rules a private value out."""
        lift = _lift(problem, channel)
        return math.inf if lift.min() <= 0.0 else float(np.log(lift.max(axis=0) / lift.min(axis=0)).max())


@dataclass(frozen=True)
class TCloseness(Guarantee):
    """t-closeness by total variation: ½ Σ_s |t_s − p(s)| ≤ t."""

    name: ClassVar[str] = "t-closeness"
    example: ClassVar[str] = "0.1"
    title: ClassVar[str] = "t-closeness"
    most: ClassVar[float] = 1.0

    def balls(self, problem: Problem) -> tuple[Ball, ...]:
        """One ball of radius 2t."""
        p = problem.p_s[:, None]
        return (Ball(problem.p_s_given_x - p, problem.p_s_given_x + p, 2.0 * self.value),)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest total variation of p(s|y) from p(s)."""
        t = _lift(problem, channel) * problem.p_s[:, None]
        return float(0.5 * np.abs(t - problem.p_s[:, None]).sum(axis=0).max())


@dataclass(frozen=True)
class OrderedTCloseness(Guarantee):
    """t-closeness by the ordered distance: Σ_k |Σ_{s ≤ k} (t_s − p(s))| / (K − 1) ≤ t, symbols in the table's order."""

    name: ClassVar[str] = "ordered-t-closeness"
    example: ClassVar[str] = "0.1"
    title: ClassVar[str] = "t-closeness, ordered values"
    most: ClassVar[float] = 1.0

    def balls(self, problem: Problem) -> tuple[Ball, ...]:
        """One ball of radius t(K − 1)."""
        up, p = np.cumsum(problem.p_s_given_x, axis=0)[:-1], np.cumsum(problem.p_s)[:-1, None]
        return (Ball(up - p, up + p, self.value * max(problem.n_s - 1, 1)),)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest ordered distance of p(s|y) from p(s)."""
        t = _lift(problem, channel) * problem.p_s[:, None]
        moved = np.abs(np.cumsum(t - problem.p_s[:, None], axis=0)[:-1]).sum(axis=0)
        return float(moved.max() / max(problem.n_s - 1, 1))


@dataclass(frozen=True)
class EntropyDiversity(Guarantee):
    """Entropy l-diversity: H(t) ≥ log l: an output leaves private values as undecided as l equally likely ones."""

    name: ClassVar[str] = "l-diversity"
    example: ClassVar[str] = "2"
    title: ClassVar[str] = "l-diversity (entropy)"
    least: ClassVar[float] = 1.0
    more_is_stricter: ClassVar[bool] = True

    @property
    def least_entropy(self) -> float | None:
        """The entropy of l equally likely values, log l."""
        return math.log(self.value)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The least exp H(S|Y=y)."""
        t = _lift(problem, channel) * problem.p_s[:, None]
        return float(np.exp(measures.entropy(t, axis=0).min()))

    def why_not(self, problem: Problem) -> str:
        """The table's own diversity."""
        return f"the private column as it is has exp H(S) = {math.exp(problem.h_s):.4g}"


@dataclass(frozen=True)
class RecursiveDiversity(Guarantee):
    """Recursive (c,l)-diversity: t_(1) ≤ c (t_(l) + … + t_(K)), t sorted downwards; written ``c,l``.

    Attributes:
        value: c.
        rank: l.
    """

    rank: int = 2

    name: ClassVar[str] = "recursive-l-diversity"
    example: ClassVar[str] = "3,2"
    title: ClassVar[str] = "recursive (c,l)-diversity"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise InvalidInputError(f"{self} is no guarantee: give c,l with l of at least 1, such as 3,2")

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Guarantee | None:
        """Of c and l."""
        whole = len(numbers) == 2 and numbers[1] == int(numbers[1])
        return cls(numbers[0], int(numbers[1])) if whole else None

    def __str__(self) -> str:
        """``recursive-l-diversity=3,2``."""
        return f"{self.name}={_written(self.value)},{self.rank}"

    def rows(self, problem: Problem) -> Rows:
        """One row for each largest value and each set of K − l + 1 values that may be the smallest."""
        n_s = problem.n_s
        size = n_s - self.rank + 1
        if size <= 0:
            raise InfeasibleError(f"the guarantee {self} cannot hold: S has only {n_s} values")
        if n_s * math.comb(n_s, size) > MOST_ROWS:
            raise InvalidInputError(
                f"the guarantee {self} has too many facets for {n_s} private values: lower l"
            )
        p = problem.p_s_given_x
        listed = [
            Rows.difference(p[[k]], self.value * p[list(rest)].sum(axis=0, keepdims=True))
            for rest in combinations(range(n_s), size)
            for k in range(n_s)
        ]
        return Rows.stacked(listed, problem.n_x)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """The largest t_(1) / (t_(l) + … + t_(K))."""
        t = np.sort(_lift(problem, channel) * problem.p_s[:, None], axis=0)
        rest = t[: problem.n_s - self.rank + 1].sum(axis=0)
        return math.inf if rest.min() <= 0.0 else float((t[-1] / rest).max())


@dataclass(frozen=True)
class Crowd(Guarantee):
    """Prosecutor risk 1/k: no row is likelier than 1/k to be behind an output: p(x|y) ≤ n_x/k where n_x rows have x."""

    name: ClassVar[str] = "k"
    example: ClassVar[str] = "5"
    title: ClassVar[str] = "no row is likelier than 1/k (k)"
    least: ClassVar[float] = 1.0
    more_is_stricter: ClassVar[bool] = True

    def caps(self, problem: Problem) -> Array:
        """n_x/k, at most 1."""
        return np.minimum(self._rows_of(problem) / self.value, 1.0)

    def _rows_of(self, problem: Problem) -> Array:
        if problem.n is None:
            raise InvalidInputError(f"the guarantee {self} counts rows: give a table of counts, or n=")
        return np.asarray(problem.p_x * problem.n)

    def reached(self, problem: Problem, channel: Channel) -> float:
        """1 over the largest chance of any row."""
        p_xy = problem.check_channel(channel)
        p_xy = (p_xy if isinstance(p_xy, np.ndarray) else p_xy.toarray()) * problem.p_x[:, None]
        posteriors = p_xy[:, p_xy.sum(axis=0) > 0.0]
        posteriors = posteriors / posteriors.sum(axis=0)
        return float(1.0 / (posteriors / self._rows_of(problem)[:, None]).max())

    def why_not(self, problem: Problem) -> str:
        """There are too few rows."""
        return f"the table has {problem.n:g} rows"


def parse(text: str | Guarantee) -> Guarantee:
    """A guarantee as it is written, ``lip=0.2``, or an object that is one already.

    Raises:
        InvalidInputError: There is no such guarantee, or its value is no number.
    """
    if isinstance(text, Guarantee):
        return text
    if not isinstance(text, str):
        raise InvalidInputError(f"{text!r} is no guarantee: give a text such as 'lip=0.2'")
    name, sign, value = (part.strip() for part in text.partition("="))
    if name not in GUARANTEES:
        close = get_close_matches(name, GUARANTEES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(GUARANTEES)}"
        raise InvalidInputError(f"there is no guarantee {name!r}: {hint}")
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    kind = GUARANTEES[name]
    made = kind.of(numbers) if sign else None
    if made is None:
        raise InvalidInputError(
            f"the guarantee {text!r} has no usable value: write e.g. {name}={kind.example}"
        )
    return made
