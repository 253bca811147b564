"""How a question's time limit is divided among the searches that answer it together."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """Shares of the time limit, and seconds."""

    #: For the search for what is free besides a solver's own, and what it has where no shorter limit is in force.
    free: float = 0.2
    free_seconds: float = 20.0

    #: For the plain funnel of a guarded one: its proof is quick where it is of use, and the search has the rest.
    floor: float = 0.2
    #: What that search has at least, where the plain funnel took longer.
    search: float = 0.3
    #: For each release for a task that nothing guards: only its posteriors are needed.
    unguarded: float = 0.1
    #: For a release without a search where the search came to none in time.
    late: float = 0.1
    #: For a task's release without regard to its disclosure, where one is asked for besides,
    disregarding: float = 0.5
    #: and that the search which regards it has at least.
    regarding: float = 0.1


PLAN = Plan()
