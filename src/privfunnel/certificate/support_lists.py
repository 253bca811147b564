"""The supports that a box of images allows, one after the other, and whether all of them are settled.

The symbols of the box's list are taken by falling weight. A partial support is given up where its least weights or
their image are too large, or where the largest weights that could still be added are too small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.image_boxes import SUM_ROOM, Box, Bracket, Index
from privfunnel.certificate.support_boxes import Found, Nest, apart, empty_nest, settle
from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array


class Lists(NamedTuple):
    """What goes through the supports of a box.

    ``together`` (n, n) are the pairs of the list that may be used together, ``tops`` (n + 1, K) the most that one
    symbol can have of each t_s from a place of the list on. ``chosen`` (K,) are the places of the support in hand;
    ``sums`` (K + 1, 2) and ``images`` (K + 1, 2, K) the sums of the least and the most weights and their images.
    """

    together: NDArray[np.bool_]
    tops: Array
    chosen: Index
    sums: Array
    images: Array
    nest: Nest


def empty_lists(n: int, n_s: int) -> Lists:
    """Room for lists of up to ``n`` symbols."""
    pairs, sums = np.zeros((n, n), dtype=np.bool_), np.zeros((n_s + 1, 2))
    tops, images = np.zeros((n + 1, n_s)), np.zeros((n_s + 1, 2, n_s))
    return Lists(pairs, tops, np.zeros(n_s, dtype=np.intp), sums, images, empty_nest(n_s))


@compiled_inner
def _prepare(bracket: Bracket, box: Box, lists: Lists) -> None:
    """Sort the list by falling weight, and fill in ``tops`` and ``together``."""
    n = box.length[0]
    for c in range(1, n):
        x, least, most, b = box.symbols[c], box.least[c], box.most[c], c
        while b > 0 and box.most[b - 1] < most:
            box.symbols[b], box.least[b], box.most[b] = box.symbols[b - 1], box.least[b - 1], box.most[b - 1]
            b -= 1
        box.symbols[b], box.least[b], box.most[b] = x, least, most
    for c in range(n - 1, -1, -1):
        x = box.symbols[c]
        for s in range(box.low.size):
            after = lists.tops[c + 1, s] if c + 1 < n else 0.0
            lists.tops[c, s] = max(after, box.most[c] * bracket.columns[x, s])
        for b in range(c + 1, n):
            reach = bracket.slope * (1.0 / box.most[c] + 1.0 / box.most[b])
            fits = bracket.mates[x, box.symbols[b]] and box.least[c] + box.least[b] <= 1.0 + SUM_ROOM
            lists.together[c, b] = fits and apart(bracket, x, box.symbols[b], box.lower, reach)


@compiled_inner
def _hopeless(box: Box, lists: Lists, size: int, place: int) -> bool:
    """Whether no symbols from ``place`` on can complete the first ``size`` chosen to a support."""
    left = lists.chosen.size - size
    if lists.sums[size, 1] + left * box.most[place] < 1.0 - SUM_ROOM:
        return True
    for s in range(box.low.size):
        if lists.images[size, 1, s] + left * lists.tops[place, s] < box.lower[s] - SUM_ROOM:
            return True
    return False


@compiled_inner
def _add(bracket: Bracket, box: Box, lists: Lists, size: int) -> bool:
    """Add the symbol at place ``chosen[size]``; False where it does not go with those before it."""
    place = lists.chosen[size]
    x, least, most = box.symbols[place], box.least[place], box.most[place]
    lists.sums[size + 1, 0] = lists.sums[size, 0] + least
    lists.sums[size + 1, 1] = lists.sums[size, 1] + most
    if lists.sums[size + 1, 0] > 1.0 + SUM_ROOM:
        return False
    for k in range(size):
        if not lists.together[lists.chosen[k], place]:
            return False
    for s in range(box.low.size):
        p = bracket.columns[x, s]
        lists.images[size + 1, 0, s] = lists.images[size, 0, s] + least * p
        lists.images[size + 1, 1, s] = lists.images[size, 1, s] + most * p
        if lists.images[size + 1, 0, s] > box.upper[s] + SUM_ROOM:
            return False
    return True


@compiled_inner
def _complete(box: Box, lists: Lists, size: int, found: Found) -> bool:
    """Put the support into the nest where its most weights and their image are large enough, and it is not known."""
    if size < 2 or lists.sums[size, 1] < 1.0 - SUM_ROOM:
        return False
    for s in range(box.low.size):
        if lists.images[size, 1, s] < box.lower[s] - SUM_ROOM:
            return False
    nest = lists.nest
    for k in range(size):
        c = lists.chosen[k]
        nest.symbols[k], nest.least[0, k], nest.most[0, k] = box.symbols[c], box.least[c], box.most[c]
    for s in range(box.low.size):
        nest.lower[0, s], nest.upper[0, s] = box.lower[s], box.upper[s]
    nest.value[0, 0], nest.value[0, 1] = box.value[0], box.value[1]
    for n in range(found.total[0]):
        known = found.sizes[n] == size
        for k in range(size):
            known = known and found.symbols[n, k] == nest.symbols[k]
        if known:
            return False
    return True


@compiled_inner
def look(bracket: Bracket, box: Box, lists: Lists, found: Found, most_steps: int) -> int:
    """Settle all supports of the box; how many steps that took, negative where ``most_steps`` are not enough."""
    n, n_s = box.length[0], box.low.size
    _prepare(bracket, box, lists)
    chosen, size, steps = lists.chosen, min(n, 0), 0  # no literal 0, as in :func:`.settle`
    chosen[0] = -1
    heads = 0  # places at which a support can begin
    while heads < n and not _hopeless(box, lists, 0, heads):
        heads += 1
    while size >= 0:
        chosen[size] += 1
        # A box is given up early where all of its list, at the pace of the part that was looked at, takes so many
        # times the steps that it may take; the rest goes faster, since less is left to be added.
        if size == 0 and steps * heads > 3 * most_steps * max(chosen[0], 1):
            return -steps
        if chosen[size] >= n or _hopeless(box, lists, size, chosen[size]):
            size -= 1
            continue
        steps += 1
        if not _add(bracket, box, lists, size):
            continue
        if _complete(box, lists, size + 1, found):
            looked = settle(bracket, lists.nest, size + 1, found)
            steps += 8 * abs(looked)
            if looked < 0:
                return -steps
        if steps > most_steps:
            return -steps
        if size + 1 < n_s:
            chosen[size + 1] = chosen[size]
            size += 1
    return steps
