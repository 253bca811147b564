"""What perfect privacy takes."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """Seconds; the caller says how much time there is for all components."""

    #: That each component has at least, however long those before it took: all of them make the channel.
    least_seconds: float = 0.1
    #: That a list of all vertices takes, about, for each support that may have one,
    support_seconds: float = 2e-6
    #: and for each vertex, which goes into a program as well.
    vertex_seconds: float = 5e-5


PLAN = Plan()
