"""Proofs for two private symbols: F is bounded on pairs of public symbols, no tree is needed.

With two rows of P an optimal posterior has at most two symbols. On the pair b, a (π_b < π_a, π = p(s=1|·)), weight w
on b and image t = w π_b + (1−w) π_a, let P_x = π_x log t + (1−π_x) log(1−t) − μ log w_x. F is concave, convex, concave
in w; its tangent at any w of the convex range has the values P_a − a_a and P_b − a_b at the ends of the pair. So

    F ≥ min(−h(π_b) − a_b, −h(π_a) − a_a, P_b − a_b, P_a − a_a)      on the whole pair, for any such w,

and where F grows from an end of the convex range inwards its value there is a bound as well. Up to
:data:`MOST_CLASSES` classes all pairs are looked at, and nothing else is used. A proof may also name *crossings*; then
O(n) pairs are enough (theorem 1 of docs/math-binary.md, which holds for any prices). They are hints: each is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.parts import Part
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays, xlogx

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)
#: All pairs are looked at up to this many classes.
MOST_CLASSES = 3000
#: Newton steps in a bracket; halvings alone would need some fifty.
STEPS = 80
#: Pairs looked at together.
_BLOCK = 200_000
#: Log odds beyond which nothing matters, and the weight that belongs to it.
_FAR, _TINY = 700.0, 1e-304


@dataclass(frozen=True, kw_only=True, eq=False)
class PairsProof(Part):
    """Proof of F ≥ ``claim`` on the simplex of n classes with two private symbols, classes by ascending p(s=1|·).

    Attributes:
        claim: The value proved, in nats.
        outer: For each class a, from which class b on a is to allow b no more than a − 1 does; a − 1 for none, (n,).
        inner: Up to which b it is the other way round; −1 for none, shape (n,). Both are empty to look at all pairs.
    """

    kind: ClassVar[str] = "pairs"

    claim: float
    outer: NDArray[np.int32]
    inner: NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.setflags(write=False)

    def arrays(self) -> Arrays:
        """All that is stored but for the claim, by name."""
        return {"outer": self.outer, "inner": self.inner}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        outer, inner = (archive.integers(f"{place}.{name}") for name in ("outer", "inner"))
        return cls(claim=claim, outer=outer, inner=inner)

    def check_alone(self, columns: Array, prices: Array, slope: float, spread: float) -> None:
        """Raise CertificateError unless it proves its claim: see :func:`check_pairs`."""
        check_pairs(columns, prices, slope, self, spread)

    @property
    def n_nodes(self) -> int:
        """Number of boxes: none."""
        return 0


class _Classes(NamedTuple):
    """Classes by ascending π: π, 1 − π and prices, each (n,)."""

    pi: Array
    rho: Array
    prices: Array


class _Pairs(NamedTuple):
    """Pairs of classes, below and above, with their prices; each (pairs,)."""

    pi_b: Array
    rho_b: Array
    price_b: Array
    pi_a: Array
    rho_a: Array
    price_a: Array

    def of(self, which: Mask | Index) -> _Pairs:
        """Some of the pairs."""
        return _Pairs(*(part[which] for part in self))


def _pairs(classes: _Classes, b: Index, a: Index, price_b: Array | None = None) -> _Pairs:
    paid = classes.prices[b] if price_b is None else price_b
    return _Pairs(classes.pi[b], classes.rho[b], paid, classes.pi[a], classes.rho[a], classes.prices[a])


def _lower_end(pi_b: Array, rho_b: Array, pi_a: Array, rho_a: Array, slope: float) -> Array:
    """The smaller root w of w(1−w)(π_a−π_b)² = μ t(1−t); 2 where F is concave throughout."""
    delta = np.where(pi_a < 0.5, pi_a - pi_b, rho_b - rho_a)
    square = (1.0 - slope) * delta * delta
    linear = delta * delta + slope * delta * (rho_a - pi_a)
    constant = slope * pi_a * rho_a
    under = linear * linear - 4.0 * square * constant
    bent = (under > 0.0) & (linear > 0.0)
    return np.where(bent, 2.0 * constant / np.where(bent, linear + np.sqrt(np.maximum(under, 0.0)), 1.0), 2.0)


def _convex_range(pairs: _Pairs, slope: float) -> tuple[Array, Array, Mask]:
    """Log odds of b between which F is convex, and where there is such a range."""
    low = _lower_end(pairs.pi_b, pairs.rho_b, pairs.pi_a, pairs.rho_a, slope)
    high = _lower_end(pairs.rho_a, pairs.pi_a, pairs.rho_b, pairs.pi_b, slope)  # of 1 − w
    some = (low < 1.0) & (high < 1.0)
    low, high = np.where(some, low, 0.5), np.where(some, high, 0.5)
    least = np.where(low > _TINY, np.log(np.maximum(low, _TINY) / (1.0 - low)), -_FAR)
    most = np.where(high > _TINY, np.log((1.0 - high) / np.maximum(high, _TINY)), _FAR)
    return least, most, some & (least < most)


class _Tangent(NamedTuple):
    """P_b − a_b and P_a − a_a, more than rounding can have added to either, and the weights of b and a; (pairs,)."""

    over_b: Array
    over_a: Array
    rounding: Array
    w: Array
    y: Array

    @property
    def bound(self) -> Array:
        """What the tangent proves."""
        return np.minimum(self.over_b, self.over_a) - self.rounding


def _log(part: Array, rest: Array) -> Array:
    """log(part), part + rest = 1, accurate also where ``rest`` is tiny."""
    return np.where(part > 0.5, np.log1p(-np.minimum(rest, 0.75)), np.log(part))


def _tangent(pairs: _Pairs, odds: Array, slope: float) -> _Tangent:
    w, y = 1.0 / (1.0 + np.exp(-odds)), 1.0 / (1.0 + np.exp(odds))
    t, s = w * pairs.pi_b + y * pairs.pi_a, w * pairs.rho_b + y * pairs.rho_a
    log_t, log_s = _log(t, s), _log(s, t)
    over_b = pairs.pi_b * log_t + pairs.rho_b * log_s - slope * _log(w, y) - pairs.price_b
    over_a = pairs.pi_a * log_t + pairs.rho_a * log_s - slope * _log(y, w) - pairs.price_a
    # π |log t| ≤ 1 + |odds| because t ≥ w π_b and t ≥ (1−w) π_a, and likewise for the other terms.
    prices = np.maximum(np.abs(pairs.price_b), np.abs(pairs.price_a))
    rounding = 8.0 * _EPS * (1.0 + (2.0 + slope) * (1.0 + np.abs(odds)) + prices)
    return _Tangent(over_b, over_a, rounding, w, y)


def _nonnegative(pairs: _Pairs, slope: float) -> Mask:
    """Proved: F ≥ 0 on the convex range of the pair."""
    low, high, bent = _convex_range(pairs, slope)
    proved = ~bent
    open_ = np.flatnonzero(bent)
    pairs, low, high = pairs.of(open_), low[open_], high[open_]
    done = np.zeros(open_.size, dtype=bool)
    for end, sign in ((low, 1.0), (high, -1.0)):
        at = _tangent(pairs, end, slope)
        grows = sign * (at.over_b - at.over_a) > 2.0 * at.rounding  # from this end into the range
        done |= grows & (at.w * at.over_b + at.y * at.over_a - at.rounding >= 0.0)
    odds = 0.5 * (low + high)
    for _ in range(STEPS):
        proved[open_[done]] = True
        rest = ~done
        open_, pairs, low, high, odds = open_[rest], pairs.of(rest), low[rest], high[rest], odds[rest]
        if open_.size == 0:
            break
        at = _tangent(pairs, odds, slope)
        done = at.bound >= 0.0
        rise = at.over_b - at.over_a
        low, high = np.where(rise > 0.0, low, odds), np.where(rise > 0.0, odds, high)
        odds = _newton(pairs, at, odds, rise, (low, high), slope)
    return proved


def _newton(
    pairs: _Pairs, at: _Tangent, odds: Array, rise: Array, ends: tuple[Array, Array], slope: float
) -> Array:
    """The next log odds on the way to rise = 0: Newton's, or the middle of the bracket."""
    low, high = ends
    t, s = at.w * pairs.pi_b + at.y * pairs.pi_a, at.w * pairs.rho_b + at.y * pairs.rho_a
    delta = np.where(pairs.pi_a < 0.5, pairs.pi_a - pairs.pi_b, pairs.rho_b - pairs.rho_a)
    bend = at.w * at.y * delta * delta / (t * s) - slope
    new = odds - rise / np.where(bend > 0.0, bend, 1.0)
    return np.where((bend > 0.0) & (low < new) & (new < high), new, 0.5 * (low + high))


def _allowed(pairs: _Pairs, slope: float) -> tuple[Array, Array, Mask]:
    """Price of b that the pair allows at a's price, log odds of the tight posterior, and where there is one.

    A guess for what is checked afterwards: P_a falls over the convex range, and the root is bisected.
    """
    low, high, bent = _convex_range(pairs, slope)
    bent &= _tangent(pairs, high, slope).over_a <= 0.0
    for _ in range(STEPS):
        odds = 0.5 * (low + high)
        above = _tangent(pairs, odds, slope).over_a > 0.0
        low, high = np.where(above, odds, low), np.where(above, high, odds)
    return _tangent(pairs, high, slope).over_b + pairs.price_b, high, bent


def _binds_no_less(classes: _Classes, b: Index, tight: Index, loose: Index, slope: float) -> Mask:
    """Proved: class ``tight`` above b allows b no higher price than ``loose`` does, strictly where it is the inner one.

    A price is shown at which F of the first pair is negative somewhere and that of the second nowhere.
    """
    caps = xlogx(classes.pi[b]) + xlogx(classes.rho[b])
    most, _, some = _allowed(_pairs(classes, b, loose), slope)
    most = np.where(some, np.minimum(most, caps), caps)
    whole = (tight > loose) & (most >= caps) & _nonnegative(_pairs(classes, b, loose, caps), slope)
    least, odds, inside = _allowed(_pairs(classes, b, tight), slope)
    price = 0.5 * (least + most)
    at = _tangent(_pairs(classes, b, tight, price), odds, slope)
    negative = inside & (at.w * at.over_b + at.y * at.over_a < -at.rounding)
    return whole | (negative & _nonnegative(_pairs(classes, b, loose, price), slope))


def _open_pairs(classes: _Classes, proof: PairsProof, slope: float) -> tuple[Index, Index] | None:
    """The pairs that checked crossings leave to be looked at; None where a crossing does not hold."""
    n = classes.pi.size
    a = np.arange(n)
    outer, inner = proof.outer.astype(np.intp), proof.inner.astype(np.intp)
    for b, one, other in ((outer, a, a - 1), (inner, a - 1, a)):
        named = np.flatnonzero((a >= 2) & (b >= 0) & (b <= a - 2))
        if not np.all(_binds_no_less(classes, b[named], one[named], other[named], slope)):
            return None
    outer = np.where(outer <= a - 2, outer, a - 1)
    last, first = a + 1, np.full(n, n - 1)
    later = a[(a >= 2) & (inner + 1 < n)]
    np.maximum.at(last, inner[later] + 1, later)
    earlier = a[(a >= 2) & (outer >= 1)]
    np.minimum.at(first, outer[earlier] - 1, earlier - 1)
    last = np.maximum.accumulate(last)
    first = np.maximum(np.minimum.accumulate(first[::-1])[::-1], a + 1)
    begin, end = np.minimum(first, last), np.minimum(np.maximum(first, last), n - 1)
    counts = np.maximum(end - begin + 1, 0)[:-1]
    # Pairs that crossings may leave open for each class, on average.
    if counts.sum() > 200 * n:
        return None
    below = np.repeat(a[:-1], counts)
    above = (
        np.arange(counts.sum())
        - np.repeat(np.cumsum(counts) - counts, counts)
        + np.repeat(begin[:-1], counts)
    )
    return below, above


def _all_pairs_hold(classes: _Classes, slope: float) -> bool:
    """F ≥ 0 on every pair, block by block."""
    n = classes.pi.size
    rows = max(_BLOCK // max(n, 1), 1)
    for start in range(0, n, rows):
        b, a = np.triu_indices(min(rows, n - start), 1, n - start)
        if not np.all(_nonnegative(_pairs(classes, b + start, a + start), slope)):
            return False
    return True


def check_pairs(columns: Array, prices: Array, slope: float, proof: PairsProof, spread: float) -> None:
    """Raise CertificateError unless F ≥ ``proof.claim`` on the simplex of these classes.

    Args:
        columns: p(s|class), shape (2, n), to the share ``spread`` those of all members.
        prices: Shape (n,).
        slope: μ > 0.
        proof: The claim, and crossings.
        spread: By what share entries differ within a class.
    """
    n = prices.size
    for array in (proof.outer, proof.inner):
        if (
            array.dtype != np.int32
            or array.shape not in ((0,), (n,))
            or proof.outer.shape != proof.inner.shape
        ):
            raise CertificateError(f"the certificate's crossings are not those of {n} classes: it is damaged")
    if columns.shape[0] != 2 or not slope > 0.0 or not abs(proof.claim) < LARGEST:
        raise CertificateError(
            "a proof by pairs needs two private symbols, a slope above 0 and a claim: it is damaged"
        )
    pi = columns[1] / columns.sum(axis=0)
    order = np.argsort(pi, kind="stable")
    rho = columns[0] / columns.sum(axis=0)
    # Entries that differ by a share δ move t log t by no more than δ(h + 1): all of F by less than 4δ.
    shifted = prices[order] + proof.claim + 4.0 * (2.0 * spread + 8.0 * _EPS)
    classes = _Classes(pi[order], rho[order], shifted)
    alone = xlogx(classes.pi) + xlogx(classes.rho) - shifted - 16.0 * _EPS * (1.0 + np.abs(shifted))
    if not np.all(alone >= 0.0):
        raise CertificateError(
            f"the certificate does not prove its claim: a symbol is {float(-alone.min()):.3g} nats short of it"
        )
    if slope >= 1.0 or n < 2:
        return  # F is concave on every pair
    if proof.outer.size:
        pairs = _open_pairs(classes, proof, slope)
        if pairs is not None and np.all(_nonnegative(_pairs(classes, *pairs), slope)):
            return
    if n > MOST_CLASSES or not _all_pairs_hold(classes, slope):
        raise CertificateError("the certificate does not prove its claim: a pair of symbols may lie below it")
