"""How the global solver divides its time, and what its steps take: what runs out when, and what is not begun at all."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """Shares of the time limit, or of what is left of it where that is said, and seconds for a unit of work.

    Seconds are orders of magnitude: what would take longer than there is time for is left out.
    """

    # Before the search.

    #: Of a point's time, for perfect privacy where its vertices are too many to list; no more, as all points need it.
    free: float = 0.2
    #: Of a point's time, for what is free where nothing else is asked for: the rest is for the proof.
    free_alone: float = 0.6
    #: Of a point's time for each that is asked for, but no more than one point's, for filling the pool before them.
    warm: float = 0.2

    # A point.

    #: Of a point's time, set aside at most for building and judging its channel: some is left for finding one.
    channel: float = 0.8
    #: So many times the time limit a point of a curve may take of what those before it left, where supports are looked
    #: at: the hard points come last.
    borrowed: float = 10.0
    #: Of a point's time, for the search of a table so large that its own proof is out of reach: the rest is for coarser
    #: ones.
    large: float = 0.75
    #: Of a search's time, after which it ends: the rest is for what can still be proved.
    searched: float = 0.8
    #: Of the time that the search has left, for finding rivals: a proof without them is still possible.
    rivals: float = 0.4
    #: Seconds after which it is foreseen whether that is enough: before, there is nothing to judge by.
    rivals_foreseen: float = 0.1
    #: Of the time left, and of the boxes, for one attempt by cliques: as much remains for an easier one.
    attempt: float = 0.5
    #: Of the time left, for one coarse proof once limits came first: the next is to have as much.
    coarser: float = 0.5
    #: Of a search's time, for a bound by thinning where it has left less: that takes a moment.
    thinning: float = 0.05
    #: Of a search's time, for tables of fewer private symbols where it has left less.
    coarse: float = 0.1

    # Runs of AEM that a large table begins with, and what follows them.

    #: Of the time left, for the one run where prices from the interior do not go on from it.
    seed: float = 0.2
    #: Of the time left, for all short runs and a long one, where they do.
    runs: float = 0.6
    #: Of the time left, for the best run to go on where nothing may have to leak: prices have nothing to begin with.
    last_run: float = 0.8
    #: Of the time left, for the only run where there is time for no more: nothing but its channel comes of the point.
    only_run: float = 0.9
    #: Of the time left after the runs, for prices from the interior where there will be no proof,
    prices: float = 0.75
    #: and where so much leaks that one may be in reach, which needs the more.
    prices_before_proof: float = 0.35

    # Tables too large for a search.

    #: Of the time of all points, for what is free: channels are made of it alone.
    hurried_free: float = 0.7
    #: Of a point's time, for a bound by thinning: the only one there is.
    hurried_thinning: float = 0.2

    # Seconds.

    #: A point in plain Python, for each pair of public symbols: says whether compiling pays.
    plain_pair_seconds: float = 6e-3
    #: A box in plain Python, for each entry of the columns.
    plain_entry_seconds: float = 2.5e-5
    #: Building and judging a channel, for each of its entries,
    entry_seconds: float = 2e-7
    #: and for each of their products with p(s|x).
    product_seconds: float = 1.5e-9
    #: A step of AEM, for each entry of its channel.
    aem_entry_seconds: float = 1.2e-8


PLAN = Plan()
