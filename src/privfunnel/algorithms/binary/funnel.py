"""The binary funnel at a disclosure: value, release and proved bound for any number of public symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import measures
from privfunnel.algorithms.binary.expansion import class_release, expand
from privfunnel.algorithms.binary.pair_prices import Classes
from privfunnel.algorithms.binary.pairing import PairRelease, join
from privfunnel.algorithms.binary.proof import EPS, prove
from privfunnel.algorithms.binary.staircases import staircase
from privfunnel.algorithms.binary.table import BinaryTable, binary_table, check_table
from privfunnel.algorithms.binary.transport import free_pairs
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.model.problem import Point
from privfunnel.model.question import FEASIBILITY, Quantity

#: A slope below this changes nothing that can be computed.
LEAST_SLOPE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class BinaryAnswer:
    """An optimal release of a binary funnel and its proof.

    Attributes:
        release: The outputs; ``release.channel(M)`` is the sparse channel.
        disclosure: I(X;Y) of the release in nats.
        leakage: I(S;Y) of the release in nats.
        lower_bound: Proved: L(R) is not less, in nats, at the R asked for; rounding included.
        slope: μ of the proved line.
        prices: a of the proved line, shape (M,): F ≥ 0 for all posteriors, so that L(R) ≥ H(S) + a·p − μ(H(X) − R).
        classes: Number of different p(s=1|x).
        slopes_tried: How many slopes were solved.
    """

    release: PairRelease
    disclosure: float
    leakage: float
    lower_bound: float
    slope: float
    prices: Array
    classes: int
    slopes_tried: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """A point of the classes' curve with its tangent: slope, point, release of classes, prices (n,)."""

    slope: float
    point: Point
    release: PairRelease
    prices: Array

    def line(self, disclosure: float) -> float:
        """The tangent at ``disclosure`` nats (of the classes), in nats; proved only once the prices are."""
        return self.point.leakage + self.slope * (disclosure - self.point.disclosure)


class SlopeOracle(Protocol):
    """A convex curve that is known by its tangents."""

    def free(self) -> Support:
        """Slope 0."""

    def told(self) -> Support:
        """Slope 1."""

    def at(self, slope: float, deadline: Deadline = NEVER) -> Support:
        """Slope 0 < μ < 1."""


class ClassOracle:
    """The curve of the classes of a binary table, by slopes."""

    def __init__(self, table: BinaryTable) -> None:
        caps = np.asarray(measures.xlogx(table.pi) + measures.xlogx(table.rho))
        self.table = table
        self.classes = Classes(table.pi, table.rho, table.mass, caps)
        self.p_st = np.stack([table.mass * table.rho, table.mass * table.pi])
        self.h_t = float(measures.entropy(table.mass))

    def free(self) -> Support:
        """Slope 0: the largest disclosure without leakage."""
        found = free_pairs(self.p_st)
        point = Point(found.disclosure, 0.0)
        return Support(slope=0.0, point=point, release=found.release, prices=self.flat_prices())

    def flat_prices(self) -> Array:
        """The prices (n,) of the line L ≥ 0: the tangent of −h at p(s)."""
        log_p_s = measures.safe_log(self.p_st.sum(axis=1))
        return np.asarray(log_p_s[1] * self.table.pi + log_p_s[0] * self.table.rho)

    def told(self) -> Support:
        """Slope 1: every class alone."""
        n = np.arange(self.table.n_classes)
        release = PairRelease(first=n, second=n, mass_first=self.table.mass, mass_second=np.zeros(n.size))
        return Support(slope=1.0, point=release.point(self.p_st), release=release, prices=self.classes.caps)

    def at(self, slope: float, deadline: Deadline = NEVER) -> Support:
        """The tangent of slope 0 < μ < 1; after the deadline, a point of no use."""
        stairs = staircase(self.classes, slope, deadline)
        release = class_release(stairs, self.table.mass)
        return Support(slope=slope, point=release.point(self.p_st), release=release, prices=stairs.prices)


def next_slope(low: Support, high: Support, disclosure: float, *, chord: bool) -> float:
    """A slope between those of two supports: of their chord, or of the cubic through both points and tangents at R.

    The chord finds a straight piece of the curve, to whose ends a tangent may jump; the cubic finds R on a bent one.
    """
    width = high.point.disclosure - low.point.disclosure
    mean = (high.point.leakage - low.point.leakage) / width
    if chord:
        return mean
    x = (disclosure - low.point.disclosure) / width
    ends = low.slope * (1.0 - x) * (1.0 - 3.0 * x) + high.slope * x * (3.0 * x - 2.0)
    return mean * 6.0 * x * (1.0 - x) + ends


class Target(NamedTuple):
    """What is asked of the classes, in nats: a disclosure, or a leakage budget."""

    quantity: Literal[Quantity.DISCLOSURE, Quantity.LEAKAGE]
    amount: float

    def of(self, support: Support) -> float:
        """What a support's point has of it."""
        point = support.point
        return point.disclosure if self.quantity is Quantity.DISCLOSURE else point.leakage

    def below(self, support: Support) -> bool:
        """Whether a support's point is on the near side of what is asked."""
        return self.of(support) <= self.amount

    def share(self, low: Support, high: Support) -> float:
        """How much of ``high`` to time-share with ``low`` to meet it, between 0 and 1."""
        near, far = self.of(low), self.of(high)
        return min(max((self.amount - near) / (far - near), 0.0), 1.0) if far > near else 1.0


class Bracket(NamedTuple):
    """Supports on both sides of a target, the share of the far one, the support whose tangent is best, slopes tried."""

    low: Support
    high: Support
    share: float
    best: Support
    tried: int


def bracket(
    curve: SlopeOracle,
    target: Target,
    gap: float,
    known: list[Support] | None = None,
    deadline: Deadline = NEVER,
) -> Bracket:
    """Supports on both sides of ``target``, chord within ``gap`` of the best tangent, or as close as time allows.

    Args:
        curve: The curve, such as that of the classes.
        target: What is asked.
        gap: In nats.
        known: Supports found before; those found now are added.
        deadline: When to stop.
    """
    known = [] if known is None else known
    if not known:
        known += [curve.free(), curve.told()]
    low = max(filter(target.below, known), key=lambda support: support.slope, default=known[0])
    far = [support for support in known if not target.below(support)]
    high = min(far, key=lambda support: support.slope, default=known[1])
    tried = 0
    while True:
        share = target.share(low, high)
        width = high.point.disclosure - low.point.disclosure
        at = low.point.disclosure + share * width
        value = (1.0 - share) * low.point.leakage + share * high.point.leakage
        best = max(known, key=lambda support, at=at: support.line(at))  # type: ignore[misc]
        # Slopes tried at most; some ten are needed.
        if tried == 80 or width <= 0.0 or high.slope - low.slope <= LEAST_SLOPE * EPS:
            break
        if value - best.line(at) <= gap:
            break
        slope = next_slope(low, high, at, chord=tried % 2 == 0)
        if not low.slope < slope < high.slope:
            slope = 0.5 * (low.slope + high.slope)
        if slope in (low.slope, high.slope) or slope < LEAST_SLOPE:
            break
        found = curve.at(slope, deadline)
        if deadline.passed():
            break
        known.append(found)
        tried += 1
        if target.below(found):
            low = found
        else:
            high = found
    return Bracket(low, high, share, best, tried)


def proved_line(curve: ClassOracle, support: Support, disclosure: float) -> tuple[float, Array]:
    """The support's line at ``disclosure`` nats of the classes, as far as it is proved, and the proved prices (n,)."""
    prices = None if support.slope <= 0.0 else prove(curve.classes, support.prices, support.slope)
    if prices is None:
        return 0.0, curve.flat_prices()
    h_s = float(measures.entropy(curve.p_st.sum(axis=1)))
    terms = prices * curve.table.mass
    room = support.slope * (curve.h_t - disclosure)
    rounding = 8.0 * EPS * (float(np.sum(np.abs(terms))) + h_s + 8.0 * support.slope * curve.h_t)
    return h_s + math.fsum(terms) - room - rounding, prices


def mixed(table: BinaryTable, found: Bracket) -> PairRelease:
    """The release of symbols that time-shares both ends of a bracket."""
    ends = ((1.0 - found.share, found.low), (found.share, found.high))
    return join([(share, expand(table, support.release)) for share, support in ends if share > 0.0])


def solve_binary(p_sx: ArrayLike, disclosure: float, *, gap: float = 1e-12) -> BinaryAnswer:
    """The least leakage at ``disclosure`` nats for p(s, x) of shape (2, M) that sums to 1, with a proved bound.

    Symbols of equal p(s|x) are one class; every slope is one staircase (O(n log 1/ε)), and slopes are tried until
    chord and tangent meet at the disclosure asked for, and the two releases are time-shared so that it is met exactly.
    Up to the largest disclosure without leakage the answer is the release of all of it.

    Args:
        p_sx: p(s, x).
        disclosure: R in nats, at most H(X).
        gap: How far, in nats, the search lets value and bound be apart; rounding and proof add some 1e-12.

    Raises:
        InvalidInputError: The table is not binary, or no release discloses so much.
    """
    p_sx = check_table(p_sx)
    table = binary_table(p_sx)
    curve = ClassOracle(table)
    h_x = float(measures.entropy(table.p_x))
    if not disclosure <= h_x + FEASIBILITY:
        raise InvalidInputError(
            f"disclosure = {disclosure!r} nats is more than H(X) = {h_x:.9g}: ask for at most that"
        )
    within = max(h_x - curve.h_t, 0.0)  # H(X|class) costs nothing
    target = min(disclosure - within, curve.h_t)
    found = bracket(curve, Target(Quantity.DISCLOSURE, target), gap)
    release = mixed(table, found)
    line, prices = proved_line(curve, found.best, target)
    point = release.point(p_sx)
    return BinaryAnswer(
        release=release,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=max(line, 0.0),
        slope=found.best.slope if line > 0.0 else 0.0,
        prices=prices[table.class_of],
        classes=table.n_classes,
        slopes_tried=found.tried,
    )
