"""The front door: a request is posed to a problem, one algorithm answers it, and one judge makes a solution of that."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver
from privfunnel.certificate.answer import FAILURES, UNFINISHED, USELESS
from privfunnel.data.tables import Counts, problem_of
from privfunnel.errors import ConvergenceWarning, InfeasibleError, InvalidInputError, SolverError
from privfunnel.infra.checks import check_seed
from privfunnel.infra.watching import Listener, watching
from privfunnel.measures import Measure
from privfunnel.model import channels
from privfunnel.model.amounts import in_asked
from privfunnel.model.guarantees import Guarantee
from privfunnel.model.problem import Problem
from privfunnel.model.question import Quantity, Question
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.dispatch import way_of
from privfunnel.solving.judging import Run, failed, judge
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution


def solve(
    problem: Problem | Counts,
    *,
    disclosure: float | str | None = None,
    leakage: float | str | Mapping[str, float | str] | None = None,
    utility: float | str | None = None,
    distortion: float | None = None,
    costs: object = None,
    invariant: bool = False,
    known: object = None,
    published: str | Sequence[str] | None = None,
    guarantees: str | Guarantee | Iterable[str | Guarantee] | None = None,
    measure: Measure | str | None = None,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | bool | None = None,
    lump: bool | None = None,
    **options: Any,
) -> Solution:
    """Solve one point of the funnel.

    What is asked is a :class:`~privfunnel.solving.request.Request` in the entries up to ``measure``: the same for any
    funnel. ``known``, ``published``, ``guarantees`` and ``measure`` say what the release is guarded against beyond an
    attacker who knows nothing; see :meth:`privfunnel.model.threat.Threat.of`. With ``known=[["age"], ["sex",
    "town"]]`` leakage is the largest I(S;Y|A) of attackers who know these public columns or nothing; with
    ``published=["sex"]`` the column is released as it is, everyone knows it, and leakage is I(S;Y|A); with
    ``measure="maximal-leakage"`` leakage is measured otherwise, see :data:`privfunnel.measures.MEASURES`; with
    ``guarantees=["lip=0.2"]`` every output has to meet them, and with neither ``disclosure`` nor ``leakage`` the most
    disclosure that they allow is found.

    Where the problem has a task, ``utility`` asks for the least leakage among releases that keep so much of it, and
    ``leakage`` for the most utility. What it is guarded against may be said as well, and with guarantees alone the most
    utility that they allow is found. With ``distortion`` or ``costs`` records are released for records: see
    :mod:`privfunnel.release.distortion`.

    On tables with many public symbols those with the same p(s|x) are solved as one class, which loses nothing: see
    :mod:`privfunnel.model.equal_symbols`.

    Args:
        problem: The problem, or counts that make one.
        disclosure: Least disclosure R, 0 ≤ R ≤ H(X): minimise the leakage. A number in nats, or a text such as
            ``"60%"`` (of H(X)) or ``"0.5 bits"``.
        leakage: Leakage budget, ≥ 0: maximise the disclosure. A number in nats, or a text such as ``"5%"`` (of I(S;X))
            or ``"0.01 bits"``; or one for each of several private columns, ``{"sex": 0.01, "income": "5%"}``. Give
            exactly one of the two, or neither with guarantees.
        utility: Least utility, 0 ≤ utility ≤ I(U;X), for problems with a task: minimise the leakage. A number in nats,
            or a text such as ``"90%"`` (of I(U;X)). A ``disclosure`` may be asked for besides.
        distortion: The most E d(X,Y), in the unit of the costs: minimise the leakage.
        costs: What a change of a record costs, see :func:`privfunnel.release.distortion.costs_of`.
        invariant: Whether released records must have the distribution of the table, p(y) = p(x).
        known: What attackers may know: an entry for each, names of public columns or an array a(x).
        published: Public columns that are released as they are.
        guarantees: What every output has to meet, such as ``["lip=0.2", "k=5"]``.
        measure: What leakage is measured by.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: If True, an infeasible or failed solve raises and an unconverged one warns; if False the status says so,
            and the message what is wrong. Where that is the proof, no bound is claimed.
        progress: Called with news of a long run; True to show them.
        lump: True or False to solve classes of symbols with the same p(s|x) or every symbol; None for classes on tables
            with more than 64 public symbols, and wherever a release is guarded.
        **options: Options of the solver, e.g. ``restarts=10``.

    Returns:
        The solution, each of its numbers recomputed from its channel.

    Raises:
        InvalidInputError: An argument cannot be used.
        InfeasibleError: ``disclosure`` exceeds H(X), or a guarantee cannot hold.
        SolverError: The solver ended without a channel that meets the request, or its bound exceeds a real channel.
        CertificateError: The solver's certificate does not prove its bound.
    """
    request = Request(
        disclosure=disclosure, leakage=leakage, utility=utility, distortion=distortion, costs=costs,
        invariant=invariant, known=known, published=published, guarantees=guarantees, measure=measure,
    )  # fmt: skip
    chosen = registry.get(solver, **options)
    check_seed(seed)
    solution = posed(problem, request, chosen, options, seed, throw=throw, progress=progress, lump=lump)
    if throw:
        _raise_or_warn(solution)
    return solution


def posed(
    problem: Problem | Counts,
    request: Request,
    chosen: Any,
    named: Collection[str] = (),
    seed: int = 0,
    *,
    throw: bool = True,
    progress: Listener | bool | None = None,
    lump: bool | None = None,
) -> Solution:
    """Pose a request to a problem: see :func:`solve`; ``named`` are the options of ``chosen`` that were named.

    Raises:
        InfeasibleError: More is asked for than there is; without ``throw`` that is a status.
    """
    with watching(progress) as listener:
        try:
            question = request.of(problem)
        except InfeasibleError as error:
            if throw:
                raise
            own = problem_of(problem)
            question = request.at_most(own).of(problem)
            way = way_of(question, chosen, named)
            whole = channels.identity(own.n_x) if question.guards.plain else question.nothing
            return failed(question, whole, error, Run(way.name, seed))
        how = Asking(seed, listener, lump)
        return answered(question, way_of(question, chosen, named), how, throw=throw)


def answered(question: Question, way: Way, how: Asking, *, throw: bool = True) -> Solution:
    """The judged answer of one algorithm to one question.

    Args:
        question: The question.
        way: The algorithm.
        how: How it is asked.
        throw: If False, what cannot be had and what goes wrong is a status.
    """
    started = time.perf_counter()
    try:
        found = way.answer(question, how)
    except FAILURES as error:
        if throw:
            raise
        run = Run(way.name, how.seed, time.perf_counter() - started)
        if (
            question.guards.plain
            and question.axis is Quantity.DISCLOSURE
            and isinstance(error, InfeasibleError)
        ):
            error = SolverError(str(error))  # up to H(X) everything can be had: it is the solver that cannot
        return failed(question, question.nothing, error, run)
    return judged(question, way, found, how, time.perf_counter() - started, throw=throw)


def judged(
    question: Question,
    way: Way,
    found: Found,
    how: Asking,
    seconds: float | None = None,
    *,
    throw: bool = True,
) -> Solution:
    """The solution that an answer is; without ``throw`` what is wrong with it is a status.

    Args:
        question: The question.
        way: The algorithm that was asked.
        found: What it answered.
        how: How it was asked.
        seconds: Time spent, where it is not the answer's.
        throw: Whether to raise what is wrong with the answer.
    """
    run = Run(found.by or way.name, how.seed, seconds)
    try:
        return judge(question, found.answer, run, gap=way.tolerance(question), lines=found.lines)
    except (*FAILURES, InvalidInputError) as error:
        if throw:
            raise
        return failed(question, found.answer.channel, error, run)


def _raise_or_warn(solution: Solution) -> None:
    if solution.status in USELESS:
        detail = f" ({solution.message})" if solution.message else ""
        raise SolverError(
            f"solver {solution.solver!r} did not reach {solution.question.words}, its channel has disclosure "
            f"{solution.disclosure:.6g} and leakage {solution.leakage:.6g}{detail}: {solution.status.advice}"
        )
    if solution.status in UNFINISHED:
        goal = solution.question.goal
        of = "" if goal is Quantity.LEAKAGE else f" of {goal}"
        in_nats = goal in (Quantity.DISCLOSURE, Quantity.UTILITY) or (not of and bool(solution.unit))
        gap = in_asked(solution.gap) if in_nats else f"{solution.gap:.3g}"
        warnings.warn(
            f"solver {solution.solver!r}: {solution.advice} (gap {gap}{of})",
            ConvergenceWarning,
            stacklevel=3,
        )
