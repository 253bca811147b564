"""What can be asked for can be had, and ``throw=False`` throws nothing, whatever the solver and the table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel import channels
from privfunnel.errors import SolverError
from privfunnel.solution import FEASIBILITY, Answer, Status
from privfunnel.solvers import registry
from privfunnel.solvers.base import Solver
from strategies import problems
from test_contract import QUICK

#: Solvers that a small table does not keep busy, the default one among them; ipopt is not everywhere.
NAMES = [name for name in registry.names() if name not in ("ipopt", "drs", "dca", "slsqp")]
#: Solvers that refuse tables they are not made for.
CHOOSY = ("binary", "deterministic", "perfect")

PROBLEM = pf.Problem([[0.3, 0.05, 0.1], [0.05, 0.2, 0.3]])


@given(
    problem=problems(max_s=6, max_x=8),
    name=st.sampled_from(NAMES),
    share=st.one_of(st.floats(0.0, 1.0), st.sampled_from([1e-13, 1e-7, 1.0 - 1e-7, 1.0 - 1e-13])),
    asked=st.sampled_from(["disclosure", "leakage"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_request_is_answered_without_an_exception(
    problem: pf.Problem, name: str, share: float, asked: str
) -> None:
    ceiling = {"disclosure": problem.disclosure_ceiling, "leakage": problem.leakage_ceiling}[asked]
    options = QUICK.get(name, {}) | ({"time_limit": 1.0} if name in ("auto", "global") else {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = pf.solve(problem, **{asked: share * ceiling}, solver=name, throw=False, **options)  # type: ignore[arg-type]
    assert np.isfinite([solution.disclosure, solution.leakage, solution.lower_bound]).all()
    if name not in CHOOSY:
        assert solution.status not in (Status.INFEASIBLE, Status.FAILED)
        if asked == "disclosure":
            assert solution.disclosure >= share * ceiling - FEASIBILITY
        else:
            assert solution.leakage <= share * ceiling + FEASIBILITY


@dataclass(frozen=True, kw_only=True)
class Short(Solver):
    """A solver that always misses by a little."""

    name: ClassVar[str] = "short"
    missing: float = 1.9e-7

    def solve(self, problem: pf.Problem, disclosure: float, **_: object) -> Answer:
        share = (disclosure - self.missing) / problem.disclosure_ceiling
        parts = [channels.identity(problem.n_x), channels.constant(problem.n_x)]
        return Answer(channel=channels.time_share(parts, [share, 1.0 - share]), status=Status.CONVERGED)

    def solve_leakage(self, problem: pf.Problem, leakage: float, **_: object) -> Answer:
        share = (leakage + self.missing) / problem.leakage_ceiling
        parts = [channels.identity(problem.n_x), channels.constant(problem.n_x)]
        return Answer(channel=channels.time_share(parts, [share, 1.0 - share]), status=Status.CONVERGED)


def test_a_channel_that_falls_short_is_repaired() -> None:
    solution = pf.solve(PROBLEM, disclosure=0.5, solver=Short())
    assert solution.status is Status.CONVERGED
    assert solution.disclosure == pytest.approx(0.5, abs=1e-12)
    solution = pf.solve(PROBLEM, leakage=0.05, solver=Short())
    assert solution.leakage == pytest.approx(0.05, abs=1e-12)


@dataclass(frozen=True, kw_only=True)
class Failing(Solver):
    """A solver that raises what linear algebra may raise."""

    name: ClassVar[str] = "failing"
    kind: type[Exception] = SolverError

    def trace(self, *_: object, **__: object) -> Iterator[Answer]:
        raise self.kind("out of range")
        yield


@pytest.mark.parametrize("kind", [SolverError, np.linalg.LinAlgError, FloatingPointError, OverflowError])
def test_a_failure_is_a_status_unless_it_is_to_be_thrown(kind: type[Exception]) -> None:
    solution = pf.solve(PROBLEM, disclosure=0.5, solver=Failing(kind=kind), throw=False)
    assert solution.status is Status.FAILED
    assert solution.message == "out of range"
    with pytest.raises(kind, match="out of range"):
        pf.solve(PROBLEM, disclosure=0.5, solver=Failing(kind=kind))


def test_too_few_outputs_are_a_failure_with_advice() -> None:
    problem = pf.instances.load("heart-failure")
    asked = 0.95 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=asked, solver="aem", outputs=2, throw=False)
    assert solution.status is Status.FAILED
    assert "outputs" in solution.message
