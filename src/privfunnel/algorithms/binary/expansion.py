"""From a release of classes to one of public symbols, at most as many new outputs as there are symbols."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.binary.pairing import PairRelease
from privfunnel.algorithms.binary.staircases import Staircase
from privfunnel.algorithms.binary.table import BinaryTable, Index
from privfunnel.measures import Array


class Pieces(NamedTuple):
    """Two partitions of the same interval, refined: length of each piece and which part of either it belongs to."""

    length: Array
    one: Index
    other: Index


def refine(one: Array, other: Array) -> Pieces:
    """Cut an interval by two lists of consecutive lengths with equal sums (but for rounding)."""
    cuts_one, cuts_other = np.cumsum(one), np.cumsum(other)
    cuts_other *= cuts_one[-1] / cuts_other[-1]
    cuts = np.concatenate([cuts_one[:-1], cuts_other[:-1]])
    order = np.argsort(cuts, kind="stable")
    is_one = order < one.size - 1
    ends = np.concatenate([[0.0], cuts[order], cuts_one[-1:]])
    length = np.maximum(np.diff(ends), 0.0)
    kept = length > 0.0
    return Pieces(
        length[kept],
        np.concatenate([[0], np.cumsum(is_one)])[kept],
        np.concatenate([[0], np.cumsum(~is_one)])[kept],
    )


def class_release(stairs: Staircase, mass: Array) -> PairRelease:
    """The outputs of a staircase, with classes as symbols: its edges, and the classes alone."""
    alone = stairs.alone.copy()
    used = np.zeros(mass.size, dtype=bool)
    pairs = (stairs.mass_b > 0.0) & (stairs.mass_a > 0.0)
    for side, masses in ((stairs.b, stairs.mass_b), (stairs.a, stairs.mass_a)):
        used[side[pairs]] = True
        np.add.at(alone, side[~pairs], masses[~pairs])
    # What rounding left over of a class that a staircase uses up, as a share of its mass.
    alone[used & (alone <= 1e-12 * mass)] = 0.0
    told = np.flatnonzero(alone > 0.0)
    return PairRelease(
        first=np.concatenate([stairs.b[pairs], told]).astype(np.intp),
        second=np.concatenate([stairs.a[pairs], told]).astype(np.intp),
        mass_first=np.concatenate([stairs.mass_b[pairs], alone[told]]),
        mass_second=np.concatenate([stairs.mass_a[pairs], np.zeros(told.size)]),
    )


class Parts(NamedTuple):
    """Which symbols make up the ends of outputs: end, symbol, and the symbol's share of the end's mass."""

    end: Index
    symbol: Index
    share: Array


def _pick(parts: Parts, which: NDArray[np.bool_]) -> Parts:
    """Some of the parts."""
    return Parts(parts.end[which], parts.symbol[which], parts.share[which])


def _parts(table: BinaryTable, release: PairRelease) -> Parts:
    """Lay each class's outputs along its members.

    Ends 0 … N−1 are the outputs' first classes, N … 2N−1 the second ones; only those with a mass have parts.
    """
    classes = np.concatenate([release.first, release.second])
    masses = np.concatenate([release.mass_first, release.mass_second])
    ends = np.flatnonzero(masses > 0.0)
    ends = ends[np.argsort(classes[ends], kind="stable")]
    pieces = refine(table.p_x[table.order], masses[ends])
    end, symbol, length = ends[pieces.other], table.order[pieces.one], pieces.length
    # Rounding moves cuts: pieces across the border of two classes are none, and ends too small for a piece get one.
    own = table.class_of[symbol] == classes[end]
    end, symbol, length = end[own], symbol[own], length[own]
    small = ends[np.bincount(end, minlength=classes.size)[ends] == 0]
    end = np.concatenate([end, small])
    symbol = np.concatenate([symbol, table.order[table.begins[classes[small]]]])
    length = np.concatenate([length, np.ones(small.size)])
    total = np.bincount(end, weights=length, minlength=classes.size)
    order = np.argsort(end, kind="stable")
    return Parts(end[order], symbol[order], (length / total[end])[order])


def _couple(first: Parts, second: Parts) -> tuple[Index, Index, Index, Array]:
    """Output, its two symbols and share, where the parts of both ends are coupled from their first corner on.

    Both must have parts of the same outputs.
    """
    several = np.bincount(first.end) + np.bincount(second.end) > 2
    one = ~several[first.end]
    simple = (first.end[one], first.symbol[one], second.symbol[~several[second.end]], np.ones(int(one.sum())))
    if one.all():
        return simple
    left, right = _pick(first, ~one), _pick(second, several[second.end])
    cut = refine(left.share, right.share)
    output = left.end[cut.one]
    same = output == right.end[cut.other]  # rounding again: a sliver between two outputs is none
    output, share = output[same], cut.length[same]
    share = share / np.bincount(output, weights=share)[output]
    coupled = (output, left.symbol[cut.one][same], right.symbol[cut.other][same], share)
    joined = [np.concatenate(columns) for columns in zip(simple, coupled, strict=True)]
    return joined[0], joined[1], joined[2], joined[3]


def expand(table: BinaryTable, release: PairRelease) -> PairRelease:
    """Replace classes by their members: same leakage, H(X|class) more disclosure; vectorised, O((M + N) log(M + N)).

    The members of a class share its outputs in a fixed order, and where an output pairs two classes the parts of both
    are coupled, so that every output still names one symbol or two. Masses are scaled to p(x) exactly.
    """
    parts = _parts(table, release)
    n_y = release.n_y
    paired = release.mass_second[parts.end % n_y] > 0.0
    told, mass = parts.symbol[~paired], (parts.share * release.mass_first[parts.end % n_y])[~paired]
    first, second = paired & (parts.end < n_y), paired & (parts.end >= n_y)
    above = _pick(parts, second)
    above = above._replace(end=above.end - n_y)
    output, b, a, share = _couple(_pick(parts, first), above)
    columns = [
        (b, a, share * release.mass_first[output], share * release.mass_second[output]),
        (told, told, mass, np.zeros(told.size)),
    ]
    one, other, mass_one, mass_other = (np.concatenate(column) for column in zip(*columns, strict=True))
    have = np.bincount(one, mass_one, table.p_x.size) + np.bincount(other, mass_other, table.p_x.size)
    lost = np.flatnonzero(have <= 0.0)  # a symbol too rare for the arithmetic is told
    factor = table.p_x / np.where(have > 0.0, have, 1.0)
    return PairRelease(
        first=np.concatenate([one, lost]),
        second=np.concatenate([other, lost]),
        mass_first=np.concatenate([mass_one * factor[one], table.p_x[lost]]),
        mass_second=np.concatenate([mass_other * factor[other], np.zeros(lost.size)]),
    )
