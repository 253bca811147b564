"""Trace the curve of guarded releases for a task: the least leakage to the worst attacker, for every utility allowed.

Mixing releases with outputs of their own is linear in every I(S;Y|A) and in I(U;Y), and keeps every guarantee. Each
point is searched with the posteriors of the points before it, and each certificate counts at all points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from privfunnel.certificate import GuardedCertificate
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.guarded_tracing import SHORT
from privfunnel.solution import FEASIBILITY, ROUNDING, USELESS, Solution, Status, final_status, posteriors_of
from privfunnel.solvers.base import Listener, counted
from privfunnel.solvers.guarded import Guarded
from privfunnel.task_curve import PartialTaskCurve, spread
from privfunnel.task_guarding import solve_guarded_task, whole_task
from privfunnel.task_solution import TaskSolution
from privfunnel.threats import Threat

#: A point that keeps so much more than was asked for, in nats, is time-shared with its neighbours.
AHEAD = 1e-7


def tracing_guarded_task(
    start: PartialTaskCurve, utilities: int | Sequence[float], progress: Listener | None
) -> Iterator[PartialTaskCurve]:
    """Trace the curve and say what has been found after each point; the last item is complete.

    Args:
        start: Problem, threat, solver and seed.
        utilities: The utilities in nats, ascending, or how many points there are to be from the least to the most.
        progress: Called with news.

    Raises:
        InvalidInputError: Private attributes have budgets of their own.
    """
    threat, solver = start.threat, start.solver
    assert threat is not None
    assert isinstance(solver, Guarded)
    if threat.attributes:
        raise InvalidInputError("attributes with budgets of their own have no curve: ask solve for a point")
    return _follow(start, threat, solver, utilities, progress)


def _follow(
    found: PartialTaskCurve,
    threat: Threat,
    solver: Guarded,
    utilities: int | Sequence[float],
    progress: Listener | None,
) -> Iterator[PartialTaskCurve]:
    """Find out where the guarantees end the curve, and solve the wanted points."""
    problem, total = found.problem, utilities if isinstance(utilities, int) else len(utilities)
    total += len(found.also)
    most = problem.utility_ceiling
    if found.limit is None and whole_task(problem, threat) is None:
        tell = counted(progress, 0, total)
        limit = solve_guarded_task(
            problem, threat, solver, (None, None, None), found.seed, tell, throw=found.throw
        )
        most = limit.utility - SHORT
        found = replace(found, limit=limit)
        _check_allowed(limit, found.also)
    least = float(problem.evaluate(threat.nothing(problem)).utility or 0.0)
    for number, utility in enumerate(spread(utilities, least, max(most, least), found.also)):
        held = found.points if found.limit is None else (*found.points, found.limit)
        solution = solve_guarded_task(
            problem,
            threat,
            solver,
            (utility, None, None),
            found.seed,
            counted(progress, number, total),
            throw=found.throw,
            pool=posteriors_of(problem, held),
        )
        found = replace(found, points=(*found.points, solution))
        yield found
    proofs = [s.certificate for s in found.points if isinstance(s.certificate, GuardedCertificate)]
    better = tuple(_strengthened(s, proofs, solver.gap) for s in _shared(found))
    yield replace(found, points=better, complete=True)


def _shared(found: PartialTaskCurve) -> Iterator[Solution]:
    """The points, each as its neighbours time-shared where it keeps more than was asked for at the same leakage."""
    curve = found.curve()
    for own in found.points:
        wanted = own.requested_utility if isinstance(own, TaskSolution) else None
        if wanted is None or own.status in USELESS:
            yield own
            continue
        spare = isinstance(own, TaskSolution) and own.utility > wanted + AHEAD
        shared = curve.at(wanted) if spare or own.status is not Status.OPTIMAL else own
        yield shared if shared.leakage <= own.leakage + ROUNDING else own


def _check_allowed(limit: TaskSolution, utilities: Sequence[float]) -> None:
    """Raise InfeasibleError where a utility in nats is more than guarantees are proved to allow, before the search."""
    most = limit.utility if limit.utility_upper_bound is None else limit.utility_upper_bound
    for utility in utilities:
        if utility > most + FEASIBILITY:
            raise InfeasibleError(
                f"utility={utility:.9g} nats is infeasible: the guarantees allow {most:.9g} nats; lower it"
            )


def _strengthened(solution: Solution, proofs: Sequence[GuardedCertificate], gap: float) -> Solution:
    """A point with the best bound that the curve's certificates prove there."""
    wanted = solution.requested_utility if isinstance(solution, TaskSolution) else None
    if wanted is None or solution.status in USELESS:
        return solution
    bounds = {proof: proof.lower_bound(0.0, wanted) for proof in proofs}
    best = max(bounds, key=lambda proof: bounds[proof], default=None)
    if best is None or bounds[best] <= solution.lower_bound:
        return solution
    lower = min(bounds[best], solution.leakage)
    proved = solution.leakage - lower <= gap + ROUNDING
    status = final_status(solution.status, met=True, proved=proved)
    return replace(solution, lower_bound=lower, bound_source="certificate", certificate=best, status=status)
