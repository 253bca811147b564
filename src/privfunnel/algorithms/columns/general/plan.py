"""How the search for guarded releases divides its time, and what its steps take."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """Shares of the time limit, and seconds: some steps have a least time, as nothing comes of a point without them."""

    #: Of the time limit, for what is free, with which small budgets begin: the rest is for the budget itself.
    free: float = 0.2
    #: Of the time limit, for the first posteriors, or so many seconds: they are what there is at least.
    start: float = 0.25
    start_seconds: float = 0.8
    #: Of the time limit, for the first solution of the program, or so many seconds, however late it is: there is no
    #: channel before.
    first: float = 0.1
    first_seconds: float = 1.0
    #: What it takes for each M³, M public symbols: where that is more, the search is not begun.
    first_unit_seconds: float = 3e-9
    #: Of the time limit, in which posteriors are looked for everywhere: the rest is for the proof.
    everywhere: float = 0.15
    #: Of the time limit, for what a few boxes prove when the limits came first, or so many seconds.
    last: float = 0.1
    last_seconds: float = 0.5
    #: Of the boxes that were opened, so many are visited to say how many are left: little against the search itself.
    ways: float = 0.05
    #: Seconds that a box of M symbols takes, about, over M³: its Newton steps decompose matrices of M².
    box_seconds: float = 1.5e-9


PLAN = Plan()
