"""The solvers: one algorithm a file, each a frozen keyword-only dataclass. :mod:`.registry` has their names."""

from __future__ import annotations

from privfunnel.problem import Problem


def _free_disclosure(problem: Problem) -> float:
    """R0 of a problem, for ``Problem.free_disclosure``: the room below cannot import this one."""
    from privfunnel.solvers.perfect import free_disclosure  # loads HiGHS: only when it is asked for

    return free_disclosure(problem).disclosure


Problem._free_disclosure_hook = _free_disclosure
