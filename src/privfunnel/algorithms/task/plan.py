"""How the task funnel divides its time."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """Shares of the time limit."""

    #: So many times the time that is left for each point of a curve one may take: a hard one leaves time for the rest.
    fair: float = 3.0
    #: Of a point's time, after which the prices of every program are proved, with patience: before, of those that look
    #: good enough.
    placed: float = 0.4


PLAN = Plan()
