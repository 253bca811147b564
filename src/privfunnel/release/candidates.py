"""What a released symbol says, as candidate records with weights: p(x|y), in the words that are published.

An optimal symbol has at most as many candidates as there are private symbols (:mod:`privfunnel.model.coupling`), the
true record among them. A reader who takes every candidate with its weight computes what the symbols say about the
public columns, without bias (:mod:`privfunnel.release.decoys`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from privfunnel.data.engines.categories import Codes
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import RecordAlphabet

#: Columns beside the public ones: which row a candidate is of, and its weight.
ROW, WEIGHT = "decoy_row", "decoy_weight"
#: Weights are multiples of one part in so many.
PARTS = 1000
#: What a solver's rounding leaves of candidates that an optimum does not have: once in a thousand million rows one is
#: true.
NEGLIGIBLE = 1e-9
#: A symbol with more candidates than this is no list that anyone reads.
MOST_CANDIDATES = 64


class Candidates(NamedTuple):
    """The candidates of every released symbol y.

    Attributes:
        start: Where those of each symbol begin in the lists below, shape (N + 1,).
        record: Records, places in the alphabet of records, rising within a symbol.
        parts: Weights in parts of ``PARTS``, at least 1 each; those of a symbol add up to ``PARTS``.
    """

    start: Codes
    record: Codes
    parts: Codes

    @property
    def most(self) -> int:
        """The largest number of candidates of a symbol."""
        return int(np.diff(self.start).max(initial=0))


def candidates(mechanism: Mechanism, alphabet: RecordAlphabet) -> Candidates:
    """The candidates of a mechanism's symbols.

    Args:
        mechanism: The mechanism.
        alphabet: Its records, as they are written: public symbols that are written alike are one candidate.

    Raises:
        InvalidInputError: A symbol has too many, or is a record itself; or a public column has a name that decoys need.
    """
    taken = [name for name in (ROW, WEIGHT) if name in mechanism.public_names]
    if taken:
        raise InvalidInputError(
            f"the public column {taken[0]!r} has a name that decoys need for themselves: rename it, or release records"
        )
    if mechanism.outputs is not None:
        raise InvalidInputError(
            "the mechanism releases records for records, which have no decoys: release it as records"
        )
    given_y = sparse.csr_array(alphabet.given_y(mechanism))
    given_y.data[given_y.data < NEGLIGIBLE] = 0.0
    given_y.eliminate_zeros()
    given_y.sort_indices()
    start = given_y.indptr.astype(np.int64)
    most = int(np.diff(start).max(initial=0))
    if most > MOST_CANDIDATES:
        raise InvalidInputError(
            f"a released symbol has {most} candidates, too many for decoys: design with 'privfunnel solve', whose "
            "symbols have at most as many as there are private symbols and keep all that is free, or release records"
        )
    return Candidates(start, given_y.indices.astype(np.int64), _parts(given_y.data, start))


def _parts(weights: Array, start: Codes) -> Codes:
    """Weights in whole parts that add up to ``PARTS`` in each group; the largest remainders are rounded up."""
    sizes = np.diff(start)
    group = np.repeat(np.arange(len(sizes)), sizes)
    exact = weights / np.bincount(group, weights, len(sizes))[group] * PARTS
    found = np.maximum(np.floor(exact + 1e-9), 1.0)
    missing = PARTS - np.bincount(group, found, len(sizes))
    order = np.lexsort((found - exact, group))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(start[:-1], sizes)
    found += rank < missing[group]
    # Candidates of less than one part were given one: the heaviest pays for them.
    heaviest = np.lexsort((-found, group))[start[:-1][sizes > 0]]
    found[heaviest] += np.minimum(missing, 0.0)[sizes > 0]
    return found.astype(np.int64)
