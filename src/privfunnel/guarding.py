"""The front door of guarded funnels: attackers who know something, published columns, guarantees for every output."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Any, NamedTuple

from privfunnel import channels
from privfunnel.amounts import check_budget, check_disclosure
from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.certificate import Certificate, GuardedCertificate, TaskCertificate
from privfunnel.ends import Dominated, closed_form
from privfunnel.errors import InvalidInputError, SolverError
from privfunnel.floors import Floor
from privfunnel.guarantees import MET
from privfunnel.guarded_answers import Request, answered
from privfunnel.guarded_classes import guarded_lumping, threat_to
from privfunnel.judging import meet
from privfunnel.lumping import Lumping
from privfunnel.measures import Array
from privfunnel.problem import Channel, Point, Problem
from privfunnel.solution import (
    FAILURES,
    FEASIBILITY,
    ROUNDING,
    ProvedAnswer,
    Solution,
    failed,
    final_status,
)
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solvers.guarded import Guarded, GuardedAnswer
from privfunnel.solvers.options import taken_over
from privfunnel.threats import Threat

#: Channels that tell nothing, or keep guarantees or budgets, do so up to rounding: they may disclose so many nats more.
INEXACT = 1e-6


def guarded_solver(chosen: Solver, named: Collection[str] = ()) -> Guarded:
    """The guarded solver with the options of ``chosen``: see :func:`~privfunnel.solvers.options.taken_over`."""
    where = "attackers know something, columns are published or guarantees are asked for"
    return taken_over(Guarded, chosen, named, where)


def solve_guarded(
    problem: Problem,
    threat: Threat,
    solver: Guarded,
    asked: tuple[float | str | None, float | str | None],
    seed: int,
    progress: Listener | None,
    *,
    throw: bool = True,
    pool: Array | None = None,
    lumping: Lumping | None = None,
) -> Solution:
    """One point of a guarded funnel, judged: numbers recomputed from the channel, the certificate verified.

    Args:
        problem: The problem.
        threat: Attackers, published columns and guarantees.
        solver: The solver.
        asked: Least disclosure, and what may leak to any attacker; None for what was not asked for, both for the most
            disclosure that the guarantees, or the attributes' own budgets, allow.
        seed: Fixes all randomness.
        progress: Called with news.
        throw: If False, what cannot be had and what goes wrong is a status.
        pool: Allowed posteriors of the classes to begin with, (n, C): those of other points of the same curve.
        lumping: The classes that are solved; those of :func:`~privfunnel.guarded_classes.guarded_lumping` by default.

    Raises:
        InvalidInputError: What was asked for makes no sense.
        InfeasibleError: The guarantees do not allow that much disclosure.
        CertificateError: The certificate does not prove its bound.
    """
    if None not in asked:
        raise InvalidInputError("give at most one of disclosure= (nats to keep) and leakage= (nats to spend)")
    if threat.attributes and asked != (None, None):
        raise InvalidInputError(
            "attributes with budgets of their own are for the most disclosure: leave disclosure= out"
        )
    if asked == (None, None) and not threat.guarantees and not threat.attributes:
        raise InvalidInputError(
            "give disclosure= (nats to keep) or leakage= (nats to spend); with guarantees= neither is needed"
        )
    channel, disclosure, leakage = threat.nothing(problem), None, None
    try:
        disclosure = None if asked[0] is None else check_disclosure(problem, asked[0])
        leakage = None if asked[1] is None else check_budget(problem, asked[1], threat.measure)
        wanted = (disclosure, leakage)
        classes = guarded_lumping(problem, threat) if lumping is None else lumping
        inner = (None if disclosure is None else classes.inner(disclosure), leakage)
        seen = threat_to(classes, threat)
        request = Request(classes.lumped, seen, solver, inner, seed, progress, pool)
        answer, floor = answered(request)
        answer, floor = _on_members(classes, threat, answer, floor)
        channel = answer.channel
        return judge_guarded(problem, threat, answer, solver.gap, wanted, seed, floor)
    except FAILURES as error:
        if throw:
            raise
        if asked[0] is not None and disclosure is None:
            disclosure = problem.disclosure_ceiling  # more was asked for than there is
        return failed(problem, channel, error, Guarded.name, seed, requested=disclosure, budget=leakage,
                      threat=threat)  # fmt: skip


def _on_members(
    lumping: Lumping, threat: Threat, answer: GuardedAnswer, floor: Floor | None
) -> tuple[GuardedAnswer, Floor | None]:
    """What was found for classes as what it is for their members: H(X|T) more disclosure, and the same leakages."""
    if lumping.trivial:
        return answer, floor
    problem, cells, proof = lumping.problem, lumping.cells, answer.certificate
    if proof is not None:  # of probabilities, which are equal within rounding only, there is none
        proof = None if problem.counts is None else proof.on_members(problem, threat, cells)
    if floor is not None and floor.certificate is not None:
        line = floor.certificate.on_members(problem, cells)
        line.verify(problem)
        floor = floor._replace(certificate=line)
    channel = channels.as_held(lumping.lift(answer.channel))
    return dataclasses.replace(answer, channel=channel, certificate=proof), floor


def judge_guarded(
    problem: Problem,
    threat: Threat,
    answer: GuardedAnswer,
    gap: float,
    asked: tuple[float | None, float | None],
    seed: int,
    floor: Floor | None = None,
) -> Solution:
    """Make a solution of an answer: evaluate its channel, verify its certificate, and correct its status.

    Args:
        problem: The problem.
        threat: What it is guarded against.
        answer: What the solver found.
        gap: The gap in nats at which an answer is proved optimal.
        asked: The disclosure and the leakage that were asked for, in nats; None for what was not.
        seed: Seed of the run.
        floor: What the plain funnel says of it, verified, where it was asked.
    """
    requested, budget = asked
    channel = problem.check_channel(answer.channel)
    leakages = threat.leakages(problem, channel)
    point = problem.evaluate(channel)._replace(leakage=max(leakages.values()))
    certificate: GuardedCertificate | Certificate | None = answer.certificate
    lower, source, upper = _closed(problem, threat, asked)
    if answer.certificate is not None:
        certificate = answer.certificate
        certificate.verify(problem)
        _check_against(certificate, point)
        upper = min(upper, certificate.most_disclosure(0.0 if budget is None else budget))
        bound = certificate.lower_bound(point.disclosure if requested is None else requested)
        lower, source = (bound, "certificate") if bound > lower else (lower, source)
    if floor is not None and floor.certificate is not None:
        most = floor.most_disclosure(0.0 if budget is None else budget)
        bound = floor.lower_bound(point.disclosure if requested is None else requested)
        if (bound > lower) if requested is not None else (most < upper):
            lower, source, certificate = max(bound, lower), floor.told.source, floor.certificate
        upper = min(upper, most)
        if requested is not None:
            meet(bound, point.leakage, "certificate")
    if requested is not None and requested >= problem.disclosure_ceiling - ROUNDING:
        lower, source = point.leakage, "closed form"
    has, proved = (
        Has(channel, point.disclosure, leakages, point.disclosure),
        Proved(lower, source, upper, certificate),
    )
    made = concluded(problem, threat, answer, has, proved, asked, gap, seed)
    ceiling = max(upper, point.disclosure) if requested is None else None
    return dataclasses.replace(made, requested=requested, disclosure_upper_bound=ceiling)


class Has(NamedTuple):
    """What a release has, in nats.

    Attributes:
        channel: p(y|x), shape (M, N), checked.
        disclosure: I(X;Y).
        leakages: What it tells each attacker.
        kept: What it has of what a request is about: its disclosure, or its utility.
        enough: Whether it has what was asked for besides.
    """

    channel: Channel
    disclosure: float
    leakages: dict[str, float]
    kept: float
    enough: bool = True


class Proved(NamedTuple):
    """What is proved of all releases that may be made, in nats.

    Attributes:
        lower: They leak at least this, to the attacker who learns most.
        source: What proves it.
        upper: They keep at most this.
        certificate: The proof, where it is one.
    """

    lower: float
    source: str
    upper: float
    certificate: GuardedCertificate | Certificate | TaskCertificate | None


def concluded(
    problem: Problem,
    threat: Threat,
    answer: ProvedAnswer[Any],
    has: Has,
    proved: Proved,
    asked: tuple[float | None, float | None],
    gap: float,
    seed: int,
) -> Solution:
    """The solution that follows from what a release has and what is proved of all: whether it is met, and optimal.

    Args:
        problem: The problem.
        threat: What it is guarded against.
        answer: What the solver found.
        has: What its release has.
        proved: What is proved, verified before.
        asked: What was to be kept, and what may leak, in nats; None for what was not asked for.
        gap: The gap in nats at which an answer is proved optimal.
        seed: Seed of the run.
    """
    (requested, budget), leakage = asked, max(has.leakages.values())
    met = has.enough and (not threat.guarantees or threat.excess(problem, has.channel) <= MET)
    if requested is None:
        met = met and threat.overspent(has.leakages, budget) <= FEASIBILITY
        missing = proved.upper - has.kept
    else:
        met = met and has.kept >= requested - FEASIBILITY
        missing = leakage - proved.lower
    return Solution(
        problem=problem,
        mapping=has.channel,
        disclosure=has.disclosure,
        leakage=leakage,
        lower_bound=min(proved.lower, leakage),
        bound_source=proved.source,
        slope=slope_of(threat, answer.slope, leakage),
        status=final_status(answer.status, met=met, proved=missing <= gap + ROUNDING),
        certificate=proved.certificate,
        budget=budget,
        solver=Guarded.name,
        seed=seed,
        steps=answer.steps,
        seconds=answer.seconds,
        message=answer.message,
        threat=threat,
    )


def slope_of(threat: Threat, slope: float | None, leakage: float) -> float | None:
    """Leakage per disclosure, of the slope of the averages: of maximal leakage, their logarithm, it is a share.

    Per utility likewise.
    """
    if slope is None or not math.isfinite(slope):
        return None
    return slope / threat.convex.average(leakage) if threat.convex.worst_value else slope


def _closed(
    problem: Problem, threat: Threat, asked: tuple[float | None, float | None]
) -> tuple[float, str, float]:
    """What holds without a search: a lower bound on the leakage, what proves it, and an upper one on the disclosure."""
    requested, budget = asked
    lower, source, upper = 0.0, "zero", problem.disclosure_ceiling
    told = Dominated.of(problem, threat)
    if told is None:
        return lower, source, upper
    if requested is not None:
        closed = float(closed_form(problem, threat, requested))
        lower, source = (closed, "closed form") if closed > 0.0 else (lower, source)
    if budget is not None:
        # I(X;Y) ≤ H(X|S) + I(S;Y)
        upper = min(upper, problem.h_x_given_s + float(told.information(budget)) + problem.rounding)
    return lower, source, upper


def _check_against(certificate: GuardedCertificate, point: Point) -> None:
    """Raise SolverError where a channel's own disclosure and leakage are beyond what was proved of all channels."""
    threat = certificate.threat
    exact = not (certificate.zero or threat.guarantees or threat.attributes)
    slack = FEASIBILITY if exact else INEXACT
    most = certificate.most_disclosure(point.leakage)
    if exact:
        meet(certificate.lower_bound(point.disclosure), point.leakage, "certificate")
    if certificate.bounds_disclosure and point.disclosure > most + slack:
        raise SolverError(
            f"the disclosure {point.disclosure!r} of a real channel exceeds the bound {most!r} (certificate): please "
            "report this"
        )


def guarded_promise(solution: Solution) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a mechanism of a guarded solution was designed for, and what its promise says instead of the solution's.

    The promise is about who knows nothing, and can be recomputed from the mechanism's file; what else was designed for
    needs the table. Both are empty where nothing was guarded.
    """
    threat = solution.threat
    if threat is None:
        return {}, {}
    designed: dict[str, Any] = {
        "guarded": threat.words,
        "conditions": threat.conditions,
        "leakages": solution.leakages,
        "guaranteed": solution.guaranteed,
        "lower_bound": solution.lower_bound,
        **({} if threat.published is None else {"published": threat.published.name}),
    }
    plain = solution.problem.evaluate(solution.channel).leakage
    promised: dict[str, Any] = {"leakage": plain, "lower_bound": 0.0, "bound_source": "zero"}
    if threat.measure != DEFAULT_MEASURE or threat.attributes:
        # What is promised and audited is I(S;Y|A); what the design was about stands beside it.
        informed = dataclasses.replace(threat, measure=DEFAULT_MEASURE, attributes=())
        designed |= {
            "measured": solution.leakages,
            "leakages": informed.leakages(solution.problem, solution.channel),
            "lower_bound": 0.0,
        }
        promised |= {"budget": None}
    if threat.measure != DEFAULT_MEASURE:
        whole = threat.leakages(solution.problem, channels.identity(solution.problem.n_x))
        numbers = {"ceiling": max(whole.values()), "lower_bound": solution.lower_bound}
        designed["measure"] = {"name": threat.measure, **numbers}
    if threat.attributes:
        designed["budgets"] = {one.name: one.budget for one in threat.attributes}
    return designed, promised
