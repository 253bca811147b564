"""The front door: run a solver, recompute every number from its channel, verify its proof, and say what is wrong."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from privfunnel import channels
from privfunnel.amounts import check_budget, check_budgets, check_disclosure
from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.certificate import Certificate
from privfunnel.checks import check_seed
from privfunnel.errors import (
    ConvergenceWarning,
    InfeasibleError,
    InvalidInputError,
    SolverError,
)
from privfunnel.guarding import guarded_solver, solve_guarded
from privfunnel.lumping import ClassChannel, Lumping, chosen_lumping, lumping_of
from privfunnel.problem import Problem
from privfunnel.solution import (
    DEFAULT_GAP,
    FAILURES,
    FEASIBILITY,
    ROUNDING,
    UNFINISHED,
    Answer,
    Solution,
    Status,
    failed,
    final_status,
    stationarity,
)
from privfunnel.solvers import perfect, registry
from privfunnel.solvers.base import Listener, Solver
from privfunnel.tables import Counts
from privfunnel.task_guarding import guarded_task_solver, solve_guarded_task
from privfunnel.task_solution import TaskSolution
from privfunnel.tasking import solve_task, task_solver
from privfunnel.threats import Threat
from privfunnel.watching import watching

#: An answer that misses what was asked for by less than this, in nats, is repaired.
REPAIRABLE = 1e-4

#: Options that say what a release is guarded against.
GUARDS = ("known", "published", "guarantees", "measure")

#: The free disclosure counts as proved largest where no channel without leakage discloses more by this, in nats.
FREE_PROVED = 1e-6
#: Public symbols up to which the free disclosure is searched for the bound of a release that leaks nothing.
SMALL = 64


def solve(
    problem: Problem | Counts,
    *,
    disclosure: float | str | None = None,
    leakage: float | str | Mapping[str, float | str] | None = None,
    utility: float | str | None = None,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | bool | None = None,
    lump: bool | None = None,
    **options: Any,
) -> Solution:
    """Solve one point of the funnel.

    Among the options, ``known``, ``published``, ``guarantees`` and ``measure`` say what the release is guarded against
    beyond an attacker who knows nothing; see :meth:`privfunnel.threats.Threat.of`. With ``known=[["age"], ["sex",
    "town"]]`` leakage is the largest I(S;Y|A) of attackers who know these public columns or nothing; with
    ``published=["sex"]`` the column is released as it is, everyone knows it, and leakage is I(S;Y|A); with
    ``measure="maximal-leakage"`` leakage is measured otherwise, see :data:`privfunnel.measures.LEAKAGES`; with
    ``guarantees=["lip=0.2"]`` every output has to meet them, and with neither ``disclosure`` nor ``leakage`` the most
    disclosure that they allow is found.

    Where the problem has a task, ``utility`` asks for the least leakage among releases that keep so much of it, and
    ``leakage`` for the most utility; what comes back is a :class:`~privfunnel.task_solution.TaskSolution`. What it is
    guarded against may be said as well, and with guarantees alone the most utility that they allow is found.

    On tables with many public symbols those with the same p(s|x) are solved as one class, which loses nothing: see
    :mod:`privfunnel.lumping`.

    Args:
        problem: The problem, or counts that make one.
        disclosure: Least disclosure R, 0 ≤ R ≤ H(X): minimise the leakage. A number in nats, or a text such as
            ``"60%"`` (of H(X)) or ``"0.5 bits"``.
        leakage: Leakage budget, ≥ 0: maximise the disclosure. A number in nats, or a text such as ``"5%"`` (of I(S;X))
            or ``"0.01 bits"``; or one for each of several private columns, ``{"sex": 0.01, "income": "5%"}``. Give
            exactly one of the two, or neither with guarantees.
        utility: Least utility, 0 ≤ utility ≤ I(U;X), for problems with a task: minimise the leakage. A number in nats,
            or a text such as ``"90%"`` (of I(U;X)). A ``disclosure`` may be asked for besides.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: If True, an infeasible or failed solve raises and an unconverged one warns; if False the status says so,
            and the message what is wrong. Where that is the proof, no bound is claimed.
        progress: Called with news of a long run; True to show them.
        lump: True or False to solve classes of symbols with the same p(s|x) or every symbol; None for classes on tables
            with more than 64 public symbols.
        **options: Options of the solver, e.g. ``restarts=10``, and what the release is guarded against.

    Returns:
        The solution, each of its numbers recomputed from its channel.

    Raises:
        InvalidInputError: An argument cannot be used.
        InfeasibleError: ``disclosure`` exceeds H(X), or a guarantee cannot hold.
        SolverError: The solver ended without a channel that meets the request, or its bound exceeds a real channel.
        CertificateError: The solver's certificate does not prove its bound.
    """
    guards = {name: options.pop(name) for name in GUARDS if name in options}
    chosen = registry.get(solver, **options)
    check_seed(seed)
    if isinstance(leakage, Mapping):
        measure = guards.get("measure", DEFAULT_MEASURE)
        guards["budgets"], leakage = check_budgets(problem_of(problem), leakage, measure), None
    threat = Threat.of(problem_of(problem), **guards) if guards else None
    for_task = utility is not None or (problem_of(problem).tasks is not None and disclosure is None)
    if for_task:
        with watching(progress) as listener:
            asked, own = (utility, leakage, disclosure), problem_of(problem)
            if threat is None or threat.plain:
                found = solve_task(own, task_solver(chosen, options), asked, seed, listener, throw=throw)
            else:
                by = guarded_task_solver(chosen, options)
                found = solve_guarded_task(own, threat, by, asked, seed, listener, throw=throw)
        if throw:
            _raise_or_warn(found)
        return found
    if threat is not None and not threat.plain:
        with watching(progress) as listener:
            guarded = guarded_solver(chosen, options)
            solution = solve_guarded(
                problem_of(problem),
                threat,
                guarded,
                (disclosure, leakage),
                seed,
                listener,
                throw=throw,
            )
        if throw:
            _raise_or_warn(solution)
        return solution
    if (disclosure is None) == (leakage is None):
        raise InvalidInputError("give exactly one of disclosure= (nats to keep) and leakage= (nats to spend)")
    with watching(progress) as listener:
        solution = _solve(problem_of(problem), disclosure, leakage, chosen, seed, throw, listener, lump)
    if throw:
        _raise_or_warn(solution)
    return solution


def problem_of(given: Problem | Counts) -> Problem:
    """The problem, or the problem of counts.

    Raises:
        InvalidInputError: It is neither.
    """
    if isinstance(given, Problem):
        return given
    if isinstance(given, Counts):
        return given.problem()
    raise InvalidInputError(
        f"a {type(given).__name__} is no problem: give pf.Problem(table), or the counts of pf.tables.count"
    )


def _solve(
    problem: Problem,
    disclosure: float | str | None,
    leakage: float | str | None,
    chosen: Solver,
    seed: int,
    throw: bool,
    progress: Listener | None,
    lump: bool | None,
) -> Solution:
    """Run the solver at one point and judge its answer."""
    started = time.perf_counter()
    lumping = chosen_lumping(problem, False if chosen.by_columns else lump)
    classes = lumping.lumped
    wanted = target = budget = None
    if disclosure is not None:
        try:
            wanted = check_disclosure(problem, disclosure)
        except InfeasibleError as error:
            if throw:
                raise
            whole = channels.identity(classes.n_x)
            answer = Answer(channel=whole, status=Status.INFEASIBLE, message=str(error))
            inner = judge(classes, answer, chosen.name, seed, requested=classes.disclosure_ceiling)
            return lifted(lumping, inner, requested=problem.disclosure_ceiling)
        target = lumping.inner(wanted)
    else:
        budget = check_budget(problem, leakage)
    try:
        answer = _answer(classes, target, budget, chosen, seed, progress)
    except FAILURES as error:
        if throw:
            raise
        message = str(error) or type(error).__name__
        answer = Answer(channel=channels.constant(classes.n_x), status=Status.FAILED, message=message)
    try:  # what is wrong from here on is wrong with the answer, not with what was asked
        if not chosen.free_only and answer.status is not Status.FAILED:
            answer = repaired(classes, answer, target, budget)
        seconds = time.perf_counter() - started
        inner = judge(classes, answer, chosen.name, seed, gap=chosen.target_gap, requested=target, budget=budget,
                      seconds=seconds)  # fmt: skip
        return lifted(lumping, inner, requested=wanted)
    except (*FAILURES, InvalidInputError) as error:
        if throw:
            raise
        seconds = time.perf_counter() - started
        inner = failed(classes, answer.channel, error, chosen.name, seed, requested=target, budget=budget,
                       seconds=seconds)  # fmt: skip
        return lifted(lumping, inner, requested=wanted)


def _answer(
    problem: Problem,
    target: float | None,
    budget: float | None,
    chosen: Solver,
    seed: int,
    progress: Listener | None,
) -> Answer:
    """What the solver says to a disclosure, or to a budget, in nats."""
    if target is not None:
        return end_of_curve(problem, target) or chosen.solve(problem, target, seed=seed, progress=progress)
    if budget is not None and budget < problem.leakage_ceiling:
        return chosen.solve_leakage(problem, budget, seed=seed, progress=progress)
    return Answer(channel=channels.identity(problem.n_x), status=Status.OPTIMAL)


def repaired(problem: Problem, answer: Answer, target: float | None, budget: float | None) -> Answer:
    """The answer, time-shared with X itself where it discloses too little, or with nothing where it leaks too much.

    What can be asked for can be had: that rounding kept a solver from it is no reason to refuse it. A channel that
    misses it by more than rounding can explain is left as it is, and judged.

    Args:
        problem: The problem.
        answer: What a solver found.
        target: The least disclosure in nats, or None.
        budget: The most leakage in nats, or None.
    """
    point = problem.evaluate(answer.channel)
    if target is not None and FEASIBILITY < target - point.disclosure < REPAIRABLE:
        more = (target - point.disclosure) / (problem.disclosure_ceiling - point.disclosure)
        other = channels.identity(problem.n_x)
    elif budget is not None and FEASIBILITY < point.leakage - budget < REPAIRABLE:
        more, other = 1.0 - budget / point.leakage, channels.constant(problem.n_x)
    else:
        return answer
    more = min(more, 1.0)
    return replace(answer, channel=channels.time_share([answer.channel, other], [1.0 - more, more]))


def lifted(lumping: Lumping, inner: Solution, *, requested: float | None) -> Solution:
    """A solution for the classes as one for their members: H(X|T) more disclosure at the same leakage.

    Args:
        lumping: The classes.
        inner: A solution of ``lumping.lumped``.
        requested: The disclosure asked of the members in nats, or None.
    """
    if lumping.trivial:
        return inner
    # Below H(X|T) the members alone disclose more than was asked for: release them only some of the time.
    below = requested is not None and requested < lumping.h_within
    share = float(requested or 0.0) / lumping.h_within if below else 1.0
    mapping = ClassChannel(lumping, inner.mapping, share)
    point, upper = mapping.evaluate(), inner.disclosure_upper_bound
    proof = inner.certificate
    if isinstance(proof, Certificate):
        proof = proof.on_members(lumping.problem, lumping.cells)
        proof.verify(lumping.problem)
    return replace(
        inner,
        problem=lumping.problem,
        mapping=mapping,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=min(inner.lower_bound, point.leakage),
        certificate=proof,
        requested=requested,
        disclosure_upper_bound=None if upper is None else upper + lumping.h_within,
    )


def lowered(solution: Solution) -> Solution:
    """The solution for the classes that :func:`lifted` made this one of, without its certificate."""
    if not isinstance(solution.mapping, ClassChannel):
        return solution
    lumping, channel = solution.mapping.lumping, solution.mapping.channel
    point, requested = lumping.lumped.evaluate(channel), solution.requested
    return replace(
        solution,
        problem=lumping.lumped,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=point.leakage,
        certificate=None,
        requested=None if requested is None else lumping.inner(requested),
    )


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


def end_of_curve(problem: Problem, disclosure: float) -> Answer | None:
    """The answer at the two ends of every curve, nothing and X itself; None between them, where a solver is needed.

    A disclosure is at an end when it misses it by no more than any request may be missed.
    """
    if disclosure <= FEASIBILITY:
        return Answer(channel=channels.constant(problem.n_x), status=Status.OPTIMAL, slope=0.0)
    if disclosure >= problem.disclosure_ceiling - FEASIBILITY:
        return Answer(channel=channels.identity(problem.n_x), status=Status.OPTIMAL)
    return None


class Line(NamedTuple):
    """A certificate that has been verified, a line below the whole curve, and what to call it."""

    certificate: Certificate
    source: str


def judge(
    problem: Problem,
    answer: Answer,
    solver: str,
    seed: int,
    *,
    gap: float = DEFAULT_GAP,
    requested: float | None = None,
    budget: float | None = None,
    seconds: float | None = None,
    lines: Iterable[Line] = (),
) -> Solution:
    """Make a solution of an answer: evaluate its channel, verify its certificate, and correct its status.

    ``Status.OPTIMAL`` survives only where a proof stands behind it: a closed form that meets the leakage, or a
    certificate that verifies, within ``gap`` nats.

    Args:
        problem: The problem.
        answer: What the solver found.
        solver: Name of the solver.
        seed: Seed of the run.
        gap: The gap in nats at which an answer is proved optimal.
        requested: The asked disclosure in nats, or None.
        budget: The asked leakage budget in nats, or None.
        seconds: Time spent, where it is not the answer's.
        lines: Further proofs of the same problem, verified before: those of a curve hold at each of its points.
    """
    channel = problem.check_channel(answer.channel)
    point = problem.evaluate(channel)
    target = point.disclosure if requested is None else requested
    certificate = answer.certificate
    if certificate is not None:
        certificate.verify(problem)
        lines = [*lines, Line(certificate, answer.bound_source)]
    lower, source, proof = _lower_bound(problem, target, lines)
    met = point.disclosure >= target - FEASIBILITY
    if met:  # a channel that falls short may well leak less than the bound
        lower = meet(lower, point.leakage, source)
    upper, missing = None, point.leakage - lower
    if budget is not None:
        met = point.leakage <= budget + FEASIBILITY
        upper = _most_disclosure(problem, budget, certificate, point.disclosure)
        # A proved line of slope μ turns missing disclosure into leakage: whatever discloses as much as this channel
        # leaks at least budget − μ (upper − disclosure). Only a verified slope counts; no curve is steeper than 1.
        missing = (upper - point.disclosure) * (1.0 if certificate is None else min(certificate.slope, 1.0))
    status = final_status(answer.status, met=met, proved=missing <= gap + ROUNDING)
    slope = answer.slope
    if slope is None and status is not Status.FAILED:
        slope = min(stationarity(problem, channel)[1], 1.0)
    return Solution(
        problem=problem,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=lower,
        bound_source=source,
        slope=slope,
        status=status,
        certificate=proof if certificate is None else certificate,
        requested=requested,
        budget=budget,
        disclosure_upper_bound=upper,
        solver=solver,
        seed=seed,
        steps=answer.steps,
        seconds=answer.seconds if seconds is None else seconds,
        message=answer.message,
        record=answer.record,
    )


def _lower_bound(
    problem: Problem, disclosure: float, lines: Iterable[Line]
) -> tuple[float, str, Certificate | None]:
    """The best proved bound on L(R), what proves it, and the certificate where it is one."""
    # X itself is the only release that keeps H(X), up to names: its leakage is its bound, without any rounding.
    at_the_top = disclosure >= problem.disclosure_ceiling
    closed = problem.leakage_ceiling if at_the_top else float(problem.lower_bound(disclosure))
    bound, source, proof = max(closed, 0.0), "closed form" if closed > 0.0 else "zero", None
    for line in lines:
        proved = line.certificate.lower_bound(disclosure)
        if proved > bound:
            bound, source, proof = proved, line.source, line.certificate
    return bound, source, proof


def meet(lower: float, leakage: float, source: str) -> float:
    """The bound, no higher than the value by rounding: both carry a few ulps. More than that is a wrong proof."""
    if lower > leakage + FEASIBILITY:
        raise SolverError(
            f"the bound {lower!r} ({source}) exceeds the leakage {leakage!r} of a real channel: please report this"
        )
    return min(lower, leakage)


def _most_disclosure(
    problem: Problem, budget: float, certificate: Certificate | None, disclosure: float
) -> float:
    """No channel that leaks at most ``budget`` discloses more than this, in nats; rounded up; found: ``disclosure``."""
    upper = min(problem.disclosure_ceiling, problem.h_x_given_s + budget + problem.rounding)
    if certificate is not None and certificate.slope > 0.0:
        # L(R) ≥ c + μ R and L(R) ≤ budget give R ≤ (budget − c)/μ.
        bought = (budget - certificate.lower_bound(0.0)) / certificate.slope
        upper = min(upper, bought * (1.0 + problem.rounding) + problem.rounding)
    if budget == 0.0 and (problem.n_x <= SMALL or "_free_disclosure_bounds" in vars(problem)):
        # Near R₀ lines have next to no slope; but a channel that leaks as little as rounding may disclose more than R₀.
        free = free_disclosure_bounds(problem)[1]
        upper = free if disclosure <= free < upper else upper
    return float(upper)


def _raise_or_warn(solution: Solution) -> None:
    if solution.status in (Status.FAILED, Status.INFEASIBLE):
        asked = (
            f"leakage ≤ {solution.budget:.6g}{solution.unit}"
            if solution.budget is not None
            else f"disclosure {solution.requested:.6g} nats"
            if solution.requested is not None
            else f"utility {solution.requested_utility:.6g} nats"
            if isinstance(solution, TaskSolution) and solution.requested_utility is not None
            else "what is guaranteed"
        )
        detail = f" ({solution.message})" if solution.message else ""
        raise SolverError(
            f"solver {solution.solver!r} did not reach {asked}, its channel has disclosure "
            f"{solution.disclosure:.6g} and leakage {solution.leakage:.6g}{detail}: {solution.status.advice}"
        )
    if solution.status in UNFINISHED:
        what = " nats of disclosure" if solution.seeks_disclosure else solution.unit
        warnings.warn(
            f"solver {solution.solver!r}: {solution.advice} (gap {solution.gap:.3g}{what})",
            ConvergenceWarning,
            stacklevel=3,
        )
