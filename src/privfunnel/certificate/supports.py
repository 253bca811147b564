"""Proofs that look at supports: for a few private symbols and hundreds of classes, where trees of boxes do not end.

A least posterior has at most K symbols, and which ones is nearly decided by its image t = Pw, see :mod:`.image_boxes`:
boxes in the K − 1 dimensions of t and in v, each with a short list of symbols, and then the few supports within the
lists, see :mod:`.support_lists` and :mod:`.support_boxes`. Nothing is stored but the claim: the checker does the
search.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.exclusion import rivalry, rivals
from privfunnel.certificate.image_boxes import Box, Bracket, Index, Mask, empty_box, narrow
from privfunnel.certificate.parts import Part
from privfunnel.certificate.support_boxes import Found, none_found
from privfunnel.certificate.support_lists import Lists, empty_lists, look
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError, need
from privfunnel.infra.jit import compiled, compiled_inner
from privfunnel.measures import Array, Arrays, xlogx

_EPS = float(np.finfo(np.float64).eps)
#: Private symbols from and up to which supports are looked at: fewer have proofs by pairs, more have too many boxes.
FEWEST, MOST = 3, 5
#: Posteriors below the cutoff after which a search ends: with a few, the next search meets the same boxes again.
ENOUGH = 256
#: Symbols nearest to x that may take its mass.
NEAR = 48
#: A box is looked at for supports where its list is not longer than ``SHORT``, and where the square of the list's
#: length times the width of the box, in nats, is below ``WORTH``: else that takes too long, as a rule.
SHORT, WORTH = 256, 400.0
#: So many steps are taken at first; a box that needs more is split. Boxes narrower than ``NARROW``, in nats, get more,
#: in inverse proportion to the square of their width, up to ``MOST_STEPS``.
STEPS, NARROW, MOST_STEPS = 1000, 0.1, 3_000_000
#: Room for open boxes.
OPEN = 1000
#: Steps between two questions whether to stop, some hundredths of a second compiled and a second in plain Python.
SLICE, PLAIN_SLICE = 300_000, 10_000
#: Slices after which the checker gives a claim up, less than an hour: proofs of 600 classes take about a thousand.
MOST_SLICES = 200_000
#: A box this narrow, in nats, is not split any further: the proof fails.
_LEAST_WIDTH = 1e-9
#: Images with t_s below this share of the least entry of P are left to the face t_s = 0, see :func:`search`.
_LEAST_IMAGE = 1e-20
#: Numbers for which the arithmetic is exact enough: the least logarithm, the largest price, in nats.
_LEAST_LOG, _MOST_PRICE = -650.0, 1e4


class _Settled(NamedTuple):
    """A search that proved F ≥ ``cutoff``: its table Pᵀ (M, K), prices (M,), slope and a digest of its mates."""

    columns: Array
    prices: Array
    slope: float
    cutoff: float
    mates: bytes

    def settles(self, columns: Array, prices: Array, slope: float, cutoff: float) -> bool:
        """Whether it proves F ≥ ``cutoff`` of a table that differs by rounding, with the rivals that its own has."""
        same = columns.shape == self.columns.shape and slope == self.slope
        if not same or not np.array_equal(prices, self.prices):
            return False
        share = np.abs(columns - self.columns) / np.where(self.columns > 0.0, self.columns, _EPS**2)
        if not _moved(float(share.max()), columns.shape[1]) <= self.cutoff - cutoff:
            return False
        return self.mates == _digest(rivals(rivalry(self.columns), slope) == 0)


#: The last searches of this process that proved something: the checker does not do again what a solver has done.
_SETTLED: deque[_Settled] = deque(maxlen=64)


@dataclass(frozen=True, kw_only=True, eq=False)
class SupportsProof(Part):
    """Proof of F ≥ ``claim`` on the simplex of n classes: what :func:`search` finds nothing below, in nats."""

    kind: ClassVar[str] = "supports"

    claim: float

    @property
    def n_nodes(self) -> int:
        """Number of boxes stored: none."""
        return 0

    def arrays(self) -> Arrays:
        """All that is stored but for the claim: nothing."""
        return {}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """A proof that says what it claims, and nothing else."""
        return cls(claim=claim)

    def check_alone(self, columns: Array, prices: Array, slope: float, spread: float) -> None:
        """Raise CertificateError unless it proves its claim: see :func:`check_supports`."""
        check_supports(columns, prices, slope, self, spread)


class Below(NamedTuple):
    """What a search has found below its cutoff: posteriors (n, M) and F (n,); ``whole`` where nothing was left out.

    Nothing found and whole: F ≥ cutoff on the simplex. ``found`` may be empty where rounding kept a box open.
    """

    found: Array
    values: Array
    whole: bool

    @property
    def proved(self) -> bool:
        """F ≥ cutoff everywhere."""
        return self.whole and len(self.values) == 0


class Stack(NamedTuple):
    """Open boxes: ends of log t (n, K) and of v (n, 2), lists (n, M) and their lengths (n,); ``height[0]`` are open."""

    low: Array
    high: Array
    value: Array
    symbols: Index
    lengths: Index
    height: Index


def nearest(columns: Array) -> Index:
    """The other symbols nearest to each in Hellinger distance, (M, n), n ≤ 48."""
    n_x = len(columns)
    root = np.sqrt(columns)
    likeness = root @ root.T
    np.fill_diagonal(likeness, -1.0)
    order = np.argsort(-likeness, axis=1, kind="stable")
    return np.ascontiguousarray(order[:, : min(NEAR, n_x - 1)])


@compiled_inner
def _widest(bracket: Bracket, box: Box) -> tuple[int, float]:
    """Where the box leaves exponents of weights most open, t_s or (K) v, and how far, in nats."""
    at, widest = box.low.size, box.value[1] - box.value[0]
    for s in range(box.low.size):
        largest = 0.0
        for c in range(box.length[0]):
            largest = max(largest, bracket.columns[box.symbols[c], s])
        width = largest * (box.high[s] - box.low[s])
        if width > widest:
            at, widest = s, width
    return at, widest


@compiled_inner
def _split(stack: Stack, box: Box, at: int) -> None:
    """Push both halves of the box, split at ``at``, the lower t_s or the higher v first."""
    first, n = stack.height[0], box.length[0]
    for h in range(first, first + 2):
        stack.lengths[h] = n
        for c in range(n):
            stack.symbols[h, c] = box.symbols[c]
        for s in range(box.low.size):
            stack.low[h, s], stack.high[h, s] = box.low[s], box.high[s]
        stack.value[h, 0], stack.value[h, 1] = box.value[0], box.value[1]
    if at == box.low.size:
        stack.value[first, 1] = stack.value[first + 1, 0] = 0.5 * (box.value[0] + box.value[1])
    else:
        stack.low[first, at] = stack.high[first + 1, at] = 0.5 * (box.low[at] + box.high[at])
    stack.height[0] += 2


@compiled_inner
def _take(stack: Stack, box: Box) -> None:
    """Pop a box."""
    stack.height[0] -= 1
    h = stack.height[0]
    box.length[0] = stack.lengths[h]
    for c in range(stack.lengths[h]):
        box.symbols[c] = stack.symbols[h, c]
    for s in range(box.low.size):
        box.low[s], box.high[s] = stack.low[h, s], stack.high[h, s]
    box.value[0], box.value[1] = stack.value[h, 0], stack.value[h, 1]


@compiled
def explore(bracket: Bracket, stack: Stack, box: Box, lists: Lists, found: Found, most_steps: int) -> bool:
    """Work on open boxes for some steps or until enough is found; False where one can be neither settled nor split."""
    steps = 0
    while stack.height[0] > 0 and steps < most_steps and found.total[0] < found.sizes.size:
        _take(stack, box)
        steps += 8 * box.length[0]
        if not narrow(bracket, box):
            continue
        at, width = _widest(bracket, box)
        n = box.length[0]
        if n <= lists.together.shape[0] and n * n * width < WORTH:
            worth = STEPS * max(1.0, (NARROW / max(width, _LEAST_WIDTH)) ** 2)
            looked = look(bracket, box, lists, found, int(min(worth, MOST_STEPS)))
            steps += abs(looked)
            if looked >= 0:
                continue
        if width < _LEAST_WIDTH or stack.height[0] + 2 > stack.lengths.size:
            return False
        _split(stack, box, at)
    return True


def _usable(columns: Array) -> Iterator[tuple[Index, Index]]:
    """Faces of t: sets of private symbols, and the public ones that have no others; where there are two of each."""
    positive = columns > 0.0
    n_s = columns.shape[1]
    for code in range(2**n_s - 1, 0, -1):
        used = np.array([(code >> s) & 1 for s in range(n_s)], dtype=bool)
        names = np.flatnonzero(~positive[:, ~used].any(axis=1))
        if used.sum() >= 2 and names.size >= 2 and positive[names][:, used].any(axis=0).all():
            yield np.flatnonzero(used), names


def _least_log(columns: Array) -> float:
    """The logarithm of the least t_s that is looked at."""
    return float(np.log(_LEAST_IMAGE) + np.log(columns[columns > 0.0].min()))


def _open(bracket: Bracket, cutoff: float) -> Stack:
    """All images t_s > 0 and all values below the cutoff as one box."""
    n_x, n_s = bracket.columns.shape
    alone = (bracket.columns * bracket.logs).sum(axis=1) - bracket.prices
    # F(w) = Σ w_x F(e_x) + μ H(w) − I(w), and I(w) is at most H(w) and log K.
    floor = float(alone.min()) - (1.0 - bracket.slope) * np.log(n_s) - 1e-9
    least = _least_log(bracket.columns)
    lists = np.tile(np.arange(n_x), (OPEN, 1))
    ends = np.full((OPEN, n_s), least), np.zeros((OPEN, n_s)), np.tile([floor, cutoff], (OPEN, 1))
    return Stack(*ends, lists, np.full(OPEN, n_x), np.ones(1, dtype=np.intp))


def _moved(share: float, n_s: int) -> float:
    """What F may change by, in nats, where entries of P differ by a share δ: that moves t log t by δ(h + 1) at most."""
    return 4.0 * share * float(np.log(n_s + 1.0))


def _digest(mates: Mask) -> bytes:
    """What tells tables of mates apart."""
    return hashlib.sha256(np.packbits(mates).tobytes()).digest()


def search(
    columns: Array,
    prices: Array,
    slope: float,
    cutoff: float,
    mates: Mask,
    stop: Callable[[], bool] = lambda: False,
) -> Below:
    """Look for posteriors with F below ``cutoff`` nats, or prove that there are none, which is remembered.

    Each face of images, t_s = 0 for some s, is a search of its own over the symbols that lie on it, with t_s > ε for
    the other s. That is all: if the least F is below the cutoff at a w with t_s ≤ ε, w has mass δ ≤ K ε / min p on
    symbols outside t_s = 0, and without them F changes by at most δ (log K + log M + 2 max|a|) + 2 h(δ), which is
    next to nothing.

    Args:
        columns: Pᵀ, shape (M, K).
        prices: Shape (M,).
        slope: μ, 0 < μ < 1.
        cutoff: In nats.
        mates: Symbols that may be used together, shape (M, M): no rivals.
        stop: Asked now and then; True ends the search, which then proves nothing.
    """
    n_x = len(columns)
    alone = xlogx(columns).sum(axis=1) - prices - 16.0 * _EPS * (1.0 + np.abs(prices))
    low = np.flatnonzero(alone < cutoff)[:ENOUGH]
    if _least_log(columns) < _LEAST_LOG or np.abs(prices).max() > _MOST_PRICE:
        return Below(np.zeros((0, n_x)), np.zeros(0), whole=False)
    if low.size:
        return Below(np.eye(n_x)[low], alone[low], whole=True)
    posteriors: list[Array] = []
    values: list[float] = []
    whole = True
    for private, names in _usable(columns):
        if not whole or len(values) >= ENOUGH:
            return Below(np.array(posteriors).reshape(-1, n_x), np.array(values), whole=False)
        face = np.ascontiguousarray(columns[np.ix_(names, private)])
        logs = np.log(np.where(face > 0.0, face, 1.0))
        together = np.ascontiguousarray(mates[np.ix_(names, names)], dtype=np.bool_)
        bracket = Bracket(face, logs, prices[names], slope, together, nearest(face))
        # What F may change by where they are moved there, in nats, and what is left for rounding.
        found, whole = _search_face(bracket, cutoff + 1e-13 * (1.0 + float(np.abs(prices).max())), stop)
        for row in range(found.total[0]):
            size = found.sizes[row]
            posteriors.append(np.zeros(n_x))
            posteriors[-1][names[found.symbols[row, :size]]] = found.weights[row, :size]
            values.append(float(found.values[row]))
    below = Below(np.array(posteriors).reshape(-1, n_x), np.array(values), whole)
    if below.proved:
        _SETTLED.append(_Settled(columns.copy(), prices.copy(), slope, cutoff, _digest(mates)))
    return below


def _search_face(bracket: Bracket, cutoff: float, stop: Callable[[], bool]) -> tuple[Found, bool]:
    """What is below the cutoff at t_s > ε for all s, and whether that is all."""
    n_x, n_s = bracket.columns.shape
    stack, found = _open(bracket, cutoff), none_found(cutoff, ENOUGH, n_s)
    box, lists = empty_box(n_x, n_s), empty_lists(min(n_x, SHORT), n_s)
    steps = SLICE if hasattr(explore, "py_func") else PLAIN_SLICE
    while stack.height[0] > 0:
        if stop() or found.total[0] >= ENOUGH or not explore(bracket, stack, box, lists, found, steps):
            return found, False
    return found, True


def check_supports(columns: Array, prices: Array, slope: float, proof: SupportsProof, spread: float) -> None:
    """Raise CertificateError unless F ≥ ``proof.claim`` on the simplex of these classes.

    With more than 100 classes this asks for numba: the same functions in plain Python take hours. A claim that takes a
    hundred times what proofs of hundreds of classes take is refused: whoever made it up does not choose how long the
    checker works. What this process has searched before, as who finds a proof does, is not searched again: it was by
    the function that the checker has, and with the rivals that the checker finds.

    Args:
        columns: p(s|class), shape (K, n), to the share ``spread`` those of all members.
        prices: Shape (n,).
        slope: μ.
        proof: The claim.
        spread: By what share entries differ within a class.
    """
    if not (0.0 < slope < 1.0 and abs(proof.claim) < LARGEST and columns.shape[1] > 1):
        raise CertificateError("a proof by supports needs a slope between 0 and 1 and a claim: it is damaged")
    if not FEWEST <= len(columns) <= MOST:
        raise CertificateError(
            f"a proof by supports is for {FEWEST} to {MOST} private symbols, not {len(columns)}: it is damaged"
        )
    # Classes up to which a proof is checked in plain Python; more take hours.
    if columns.shape[1] > 100:
        need("numba", "fast")
    table = np.ascontiguousarray((columns / columns.sum(axis=0)).T)
    cutoff = proof.claim + _moved(2.0 * spread + 8.0 * _EPS, len(columns))
    if any(each.settles(table, prices, slope, cutoff) for each in tuple(_SETTLED)):  # others may append to it
        return
    questions = itertools.count()
    below = search(
        table,
        prices,
        slope,
        cutoff,
        rivals(rivalry(table), slope) == 0,
        lambda: next(questions) >= MOST_SLICES,
    )
    if next(questions) > MOST_SLICES:
        raise CertificateError("the proof by supports takes too long to check: make one with a larger gap")
    if not below.proved:
        least = f": F is {below.values.min():.3g} somewhere" if len(below.values) else ""
        raise CertificateError(f"the certificate does not prove its claim{least}")
