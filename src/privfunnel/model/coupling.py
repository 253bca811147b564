"""From a channel of classes to one of their members: the staircase coupling, sparse and fixed.

Let p(y|t) be a channel of classes t of public symbols, and p(x|t) the distribution of a class's members. The members of
every class lie side by side on [0, 1], in a fixed order and as wide as they are likely. The outputs of the class divide
the same interval among them, in a fixed order too: output y owns a piece of width p(y|t). Within an output the pieces
of its k classes are laid over each other, each stretched to [0, 1], and cut wherever one of them passes from one member
to the next. Every part between two cuts is a released symbol: k candidates, one from each class, with the weights
p(t|y).

So H(X|Y) is H(T|Y_T), and p(s|y) is that of the output of the classes where members of a class have equal p(s|x):
nothing is lost, nothing leaks more (:mod:`privfunnel.model.equal_symbols`). A member's end cuts one output of its class
only, so that there are at most M − C + N_T symbols, with k candidates each, and most public symbols have one or two
symbols that they can be released as.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.measures import Array, Channel

Index = NDArray[np.intp]


class Coupled(NamedTuple):
    """A channel of members.

    Attributes:
        channel: p(y|x), sparse, shape (M, N).
        outputs: The output of the classes that each released symbol belongs to, shape (N,), never falling.
    """

    channel: sparse.csc_array
    outputs: Index


def couple(classes: Index, p_x: Array, channel: Channel, share: float = 1.0) -> Coupled:
    """The channel of the members for a channel of their classes.

    Args:
        classes: Class of each public symbol, shape (M,), numbered from 0.
        p_x: Their probabilities, shape (M,), all above 0.
        channel: p(y|t), shape (C, N_T), dense or sparse, rows sum to 1.
        share: How often a symbol is released; otherwise, with less than 1, an output N_T + 1 that says nothing.
    """
    nothing = np.full((p_x.size, 1), 1.0 - share)
    silent = np.array([channel.shape[1]], dtype=np.intp)
    if share <= 0.0:
        return Coupled(sparse.csc_array(nothing), silent)
    if share < 1.0:
        found, outputs = couple(classes, p_x, channel)
        mixed = sparse.csc_array(sparse.hstack([sparse.csc_array(share * found), sparse.csc_array(nothing)]))
        return Coupled(mixed, np.concatenate([outputs, silent]))
    pieces = pieces_of(channel)
    members = _members(classes, p_x)
    # Cuts closer than this on [0, 1] are one: members of equal width end together, up to rounding.
    found, outputs = _cut(members, pieces, 1e-12)
    # Members narrower than a rounding would fall between two cuts.
    if np.asarray(found.sum(axis=1)).min() <= 0.0:
        found, outputs = _cut(members, pieces, 0.0)
    rows = sparse.diags_array(1.0 / found.sum(axis=1))
    return Coupled(sparse.csc_array(rows @ found), outputs)


class _Members(NamedTuple):
    """Symbols sorted by class (M,), where each class begins (C + 1,), where each member ends on [0, 1], its width."""

    order: Index
    start: Index
    ends: Array
    width: Array
    classes: Index


class Pieces(NamedTuple):
    """Entries of a channel of classes, sorted by class and output: class, output, where a piece begins, its width."""

    t: Index
    y: Index
    begin: Array
    width: Array
    first: Index
    n_outputs: int


def _members(classes: Index, p_x: Array) -> _Members:
    order = np.argsort(classes, kind="stable").astype(np.intp)
    start = np.searchsorted(classes[order], np.arange(int(classes.max()) + 2)).astype(np.intp)
    width = (p_x / np.bincount(classes, p_x)[classes])[order]
    return _Members(order, start, _ends(width, start), width, classes)


def pieces_of(channel: Channel) -> Pieces:
    """How the outputs of a channel p(y|t), (C, N_T), divide the intervals of the classes."""
    rows = sparse.csr_array(channel)
    rows.eliminate_zeros()
    rows.sort_indices()
    first = rows.indptr.astype(np.intp)
    width = rows.data / np.repeat(np.asarray(rows.sum(axis=1)), np.diff(first))
    begin = np.concatenate([[0.0], _ends(width, first)[:-1]])
    begin[first[:-1]] = 0.0
    t = np.repeat(np.arange(rows.shape[0]), np.diff(first))
    return Pieces(t, rows.indices.astype(np.intp), begin, width, first, int(rows.shape[1]))


def _ends(width: Array, start: Index) -> Array:
    """Sums of widths along each group; exactly 1 at a group's end."""
    total = np.cumsum(width)
    before = np.concatenate([[0.0], total])[start[:-1]]
    ends = total - np.repeat(before, np.diff(start))
    ends[start[1:] - 1] = 1.0
    return np.asarray(ends)


def _cut(members: _Members, pieces: Pieces, same: float) -> Coupled:
    """The parts between cuts; the rows of the channel sum to 1 up to rounding."""
    y, place = _cuts(members, pieces)
    real = place > same  # a member that ends where a piece begins cuts nothing
    y, place = y[real], place[real]
    order = np.lexsort((place, y))
    y, place = y[order], place[order]
    # The last of several cuts at one place stays: it may be the end of the output, which has to.
    kept = np.append((y[1:] != y[:-1]) | (place[1:] - place[:-1] > same), True)
    y, place = y[kept], place[kept]
    low = np.where(np.concatenate([[True], y[1:] != y[:-1]]), 0.0, np.concatenate([[0.0], place[:-1]]))
    first = np.searchsorted(y, np.arange(pieces.n_outputs + 1))
    n_parts = np.diff(first)[pieces.y]
    piece = np.repeat(np.arange(pieces.t.size), n_parts)
    within = np.arange(piece.size) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    part = first[pieces.y[piece]] + within
    middle = pieces.begin[piece] + 0.5 * (low[part] + place[part]) * pieces.width[piece]
    member = _member_at(members, pieces.t[piece], middle)
    value = (place[part] - low[part]) * pieces.width[piece] / members.width[member]
    shape = (members.order.size, y.size)
    return Coupled(sparse.csc_array((value, (members.order[member], part)), shape=shape), y)


def _cuts(members: _Members, pieces: Pieces) -> tuple[Index, Array]:
    """Output and place on [0, 1] of every cut, the ends of the outputs among them."""
    inner = np.ones(members.order.size, dtype=bool)
    inner[members.start[1:] - 1] = False
    t = members.classes[members.order][inner]
    ends = members.ends[inner]
    piece = np.zeros(ends.size, dtype=np.intp)
    bounds = np.searchsorted(t, np.arange(members.start.size))
    for c in np.flatnonzero(np.diff(bounds)).tolist():
        own = slice(bounds[c], bounds[c + 1])
        found = np.searchsorted(pieces.begin[pieces.first[c] : pieces.first[c + 1]], ends[own], side="right")
        piece[own] = pieces.first[c] + found - 1
    place = np.clip((ends - pieces.begin[piece]) / pieces.width[piece], 0.0, 1.0)
    used = np.unique(pieces.y)
    return np.concatenate([pieces.y[piece], used]), np.concatenate([place, np.ones(used.size)])


def _member_at(members: _Members, t: Index, place: Array) -> Index:
    """Place in the sorted list of the member that owns a place of its class; ``t`` never falls."""
    found = members.start[t]
    bounds = np.searchsorted(t, np.arange(members.start.size))
    many = np.flatnonzero(np.diff(members.start) > 1)
    for c in many.tolist():
        own = slice(bounds[c], bounds[c + 1])
        ends = members.ends[members.start[c] : members.start[c + 1]]
        found[own] = members.start[c] + np.minimum(np.searchsorted(ends, place[own]), ends.size - 1)
    return np.asarray(found)
