"""The free disclosure R₀: what a release may tell of X without telling anything of S; and the release of all of it.

A release that is to disclose less than R₀ could be the free one some of the time and nothing otherwise. Nobody is
better off with that: it leaks no less, and the output that says nothing could come from every public symbol, so that on
a wide table it is no list of decoys. What was asked for is the least disclosure, and wide tables release all of R₀.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from privfunnel.algorithms import perfect
from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.perfect.too_large import most_free
from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import Answer, Status
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.equal_symbols import LUMPED_BEYOND, Lumping, lumping_of
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, ROUNDING, Quantity
from privfunnel.reductions.plain_classes import of_members
from privfunnel.solving.plan import PLAN
from privfunnel.solving.solution import Solution

#: The free disclosure counts as proved largest where no channel without leakage discloses more by this, in nats.
FREE_PROVED = 1e-6
#: The names under which a problem remembers what is free, the proof, and how long the search for them may take.
FREE, PROOF, PATIENCE = "_free_disclosure", "_free_certificate", "_free_seconds"


def free_disclosure(problem: Problem) -> float:
    """R₀, the largest disclosure that leaks nothing, in nats: a fact of the problem, whatever solver is used later.

    What the members of a class disclose beyond it is free; the rest is searched on the classes by the ``perfect``
    solver when it is first asked for, seconds of work on a large table, and remembered by the problem. Where the
    search is cut short, after twenty seconds or a fifth of a shorter time limit that the problem was last solved or
    traced with, it is the largest found; :func:`free_disclosure_bounds` says how much larger R₀ may be.
    """
    return min(_found(problem).disclosure + lumping_of(problem).h_within, problem.disclosure_ceiling)


def free_disclosure_bounds(problem: Problem) -> tuple[float, float]:
    """The largest disclosure found that leaks nothing, and what none exceeds, in nats; remembered by the problem.

    The two are equal up to rounding where R₀ is proved largest, by the certificate that :func:`free_certificate` gives.
    The first is never below H(X) − log rank(P), P = p(s|x).
    """
    least, proof = free_disclosure(problem), free_certificate(problem)
    most = most_free(problem) if proof is None else min(proof.most_disclosure(0.0), most_free(problem))
    return least, max(least, min(most, problem.disclosure_ceiling))


def free_certificate(problem: Problem) -> Certificate | None:
    """The verified proof of what no release without leakage exceeds; None where there is none.

    It is made of what the search for :func:`free_disclosure` left, and remembered by the problem.
    """
    found = _found(problem)
    if PROOF not in vars(problem):
        lumping = lumping_of(problem)
        proof = perfect.prove(lumping.lumped, found)
        vars(problem)[PROOF] = proof if proof is None or lumping.trivial else of_members(lumping, proof)
    proved: Certificate | None = vars(problem)[PROOF]
    return proved


def keep_to(problem: Problem, time_limit: float) -> None:
    """Let the search for what is free end within a share of a time limit that is shorter than its own."""
    own = PLAN.free_seconds
    vars(problem)[PATIENCE] = own if time_limit >= own else PLAN.free * time_limit


def _found(problem: Problem) -> perfect.FreeDisclosure:
    """What the search found for the classes, without its channel and what was met on the way.

    A search that was cut short is made again where there is more time for it.
    """
    seconds = vars(problem).get(PATIENCE, PLAN.free_seconds)
    known: tuple[perfect.FreeDisclosure, float] | None = vars(problem).get(FREE)
    if known is None or (not known[0].proved and known[1] < seconds):
        found = perfect.free_disclosure(lumping_of(problem).lumped, seconds=seconds)
        known = replace(found, channel=channels.constant(1), mixtures=()), seconds
        vars(problem)[FREE] = known
        vars(problem).pop(PROOF, None)
    return known[0]


def is_whole(problem: Problem, solver: Solver) -> bool:
    """Whether all that is free is released below R₀: with many public symbols, by solvers that prove."""
    return solver.proves and problem.n_x > LUMPED_BEYOND


def within_classes(lumping: Lumping, wanted: float, solver: Solver, seed: int) -> Answer | None:
    """The free release of the classes where their members alone disclose what is wanted; None where they do not.

    Args:
        lumping: The classes.
        wanted: The disclosure asked of the members, in nats.
        solver: What solves; its time limit is kept.
        seed: Fixes all randomness.
    """
    if not FEASIBILITY < wanted <= lumping.h_within + FEASIBILITY:
        return None
    # A fifth of the time limit, as the global solver has for it, or of twenty seconds where the solver has none.
    seconds = 0.2 * float(getattr(solver, "time_limit", 20.0))
    free = perfect.free_disclosure(lumping.lumped, seed=seed, seconds=seconds, nodes=0)
    return Answer(channel=free.channel, status=Status.OPTIMAL, slope=0.0, message="perfect privacy")


def without_silence(problem: Problem, answer: Answer) -> Answer:
    """An answer that leaks nothing without its outputs that say nothing; any other answer as it is."""
    if answer.status is Status.FAILED or problem.evaluate(answer.channel).leakage > ROUNDING:
        return answer
    return replace(answer, channel=telling(answer.channel))


def telling(channel: Channel) -> Channel:
    """A channel (M, N) without the outputs that every x is released as equally often, the others in proportion.

    The channel itself where there are none, or nothing else.
    """
    table = sparse.csc_array(channel)
    most = table.max(axis=0).toarray().reshape(-1)
    least = table.min(axis=0).toarray().reshape(-1)
    # Entries p(y|x) of an output that are equal to this share of the largest say nothing.
    told = most - least > 1e-12 * most
    if told.all() or not told.any():
        return channel
    kept = table[:, told]
    scaled = sparse.csc_array(sparse.diags_array(1.0 / np.asarray(kept.sum(axis=1))) @ kept)
    return channels.as_held(scaled) if channels.is_sparse(channel) else scaled.toarray()


def open_disclosure(solution: Solution) -> float:
    """What may be free besides a release of all that is known to be, in nats; 0 where something else was asked for."""
    asked = solution.question
    free = asked.guards.plain and asked.goal is Quantity.DISCLOSURE and asked.budget == 0.0
    return solution.gap if free else 0.0


def free_words(solution: Solution) -> str:
    """That more than was asked for is free, or how much may be where that is not proved; empty where neither is so."""
    if open_disclosure(solution) > FREE_PROVED:
        shares = (solution.disclosure, solution.disclosure_upper_bound or 0.0)
        least, most = (100.0 * nats / solution.problem.disclosure_ceiling for nats in shares)
        return f"At least {least:.1f} %, at most {most:.1f} % of H(X) can be released without any leakage."
    if solution.free_extra <= 0.0 or solution.requested is None:
        return ""
    ceiling = solution.problem.disclosure_ceiling
    asked, disclosed = 100.0 * solution.requested / ceiling, 100.0 * solution.disclosure / ceiling
    return (
        f"More than you asked for is free: this release discloses {disclosed:.1f} % of H(X), where {asked:.1f} % was "
        "asked for, and leaks nothing."
    )
