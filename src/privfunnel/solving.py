"""The front door: run a solver, recompute every number from its channel, verify its proof, and say what is wrong."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privfunnel import channels
from privfunnel.amounts import check_budget, check_budgets, check_disclosure
from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.certificate import Certificate
from privfunnel.checks import check_seed
from privfunnel.ends import end_of_curve
from privfunnel.errors import ConvergenceWarning, InfeasibleError, InvalidInputError, SolverError
from privfunnel.free import is_whole, open_disclosure, within_classes, without_silence
from privfunnel.guarded_classes import guarded_lumping
from privfunnel.guarding import guarded_solver, solve_guarded
from privfunnel.judging import judge
from privfunnel.lumping import ClassChannel, Lumping, chosen_lumping
from privfunnel.problem import Problem
from privfunnel.solution import FAILURES, FEASIBILITY, UNFINISHED, Answer, Solution, Status, failed
from privfunnel.solvers import registry
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
            with more than 64 public symbols, and wherever a release is guarded.
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
            own, guarded = problem_of(problem), guarded_solver(chosen, options)
            classes = guarded_lumping(own, threat, lump)
            solution = solve_guarded(own, threat, guarded, (disclosure, leakage), seed, listener, throw=throw,
                                     lumping=classes)  # fmt: skip
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
    whole = disclosure is not None and is_whole(problem, chosen)
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
        free = None if wanted is None or not whole else within_classes(lumping, wanted, chosen, seed)
        answer = free or _answer(classes, target, budget, chosen, seed, progress)
    except FAILURES as error:
        if throw:
            raise
        message = str(error) or type(error).__name__
        answer = Answer(channel=channels.constant(classes.n_x), status=Status.FAILED, message=message)
    try:  # what is wrong from here on is wrong with the answer, not with what was asked
        if not chosen.free_only and answer.status is not Status.FAILED:
            answer = repaired(classes, answer, target, budget)
            answer = without_silence(classes, answer) if whole else answer
        seconds = time.perf_counter() - started
        inner = judge(classes, answer, chosen.name, seed, gap=chosen.target_gap, requested=target, budget=budget,
                      seconds=seconds)  # fmt: skip
        return lifted(lumping, inner, requested=wanted, whole=whole)
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


def lifted(lumping: Lumping, inner: Solution, *, requested: float | None, whole: bool = False) -> Solution:
    """A solution for the classes as one for their members: H(X|T) more disclosure at the same leakage.

    Args:
        lumping: The classes.
        inner: A solution of ``lumping.lumped``.
        requested: The disclosure asked of the members in nats, or None.
        whole: Whether members are released always, also where less was asked for than they disclose, unless nothing.
    """
    if lumping.trivial:
        return inner
    # Below H(X|T) the members alone disclose more than was asked for: release them only some of the time.
    most = min(FEASIBILITY, lumping.h_within) if whole else lumping.h_within
    below = requested is not None and requested < most
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
        free = open_disclosure(solution)
        what = " nats of disclosure" if solution.seeks_disclosure or free > 0.0 else solution.unit
        warnings.warn(
            f"solver {solution.solver!r}: {solution.advice} (gap {free or solution.gap:.3g}{what})",
            ConvergenceWarning,
            stacklevel=3,
        )
