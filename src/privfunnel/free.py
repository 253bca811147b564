"""The free disclosure R₀: what a release may tell of X without telling anything of S."""

from __future__ import annotations

from privfunnel.lumping import lumping_of
from privfunnel.problem import Problem
from privfunnel.solvers import perfect

#: The free disclosure counts as proved largest where no channel without leakage discloses more by this, in nats.
FREE_PROVED = 1e-6


def free_disclosure(problem: Problem) -> float:
    """R₀, the largest disclosure that leaks nothing, in nats: a fact of the problem, whatever solver is used later.

    What the members of a class disclose beyond it is free; the rest is searched on the classes by the ``perfect``
    solver when it is first asked for, seconds of work on a large table, and remembered by the problem. Where the
    search is cut short by its time limit it is the largest found; :func:`free_disclosure_bounds` says how much larger
    R₀ may be.
    """
    return problem.free_disclosure


def free_disclosure_bounds(problem: Problem) -> tuple[float, float]:
    """The largest disclosure found that leaks nothing, and what none exceeds, in nats; remembered by the problem.

    The two are equal up to rounding where R₀ is proved largest: always for two private symbols, elsewhere where the
    search could be finished. The first is never below H(X) − log rank(P), P = p(s|x).
    """
    known: tuple[float, float] | None = vars(problem).get("_free_disclosure_bounds")
    if known is None:
        lumping = lumping_of(problem)
        found, ceiling = perfect.free_disclosure(lumping.lumped), problem.disclosure_ceiling
        least = min(found.disclosure + lumping.h_within, ceiling)
        known = least, max(least, min(found.upper + lumping.h_within, ceiling))
        vars(problem)["_free_disclosure_bounds"] = known
    return known


def search_free_disclosure(problem: Problem) -> float:
    """:func:`free_disclosure`, searched now, in nats."""
    return free_disclosure_bounds(problem)[0]
