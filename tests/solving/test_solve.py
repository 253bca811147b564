from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import pydoc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel.algorithms import registry
from privfunnel.certificate.answer import Answer, Record
from privfunnel.errors import (
    ConvergenceWarning,
    InfeasibleError,
    InvalidInputError,
    MissingExtraError,
    SolverError,
    need,
)
from privfunnel.model import channels
from privfunnel.model.stationarity import stationarity
from privfunnel.solving.judging import Run, judge, meet
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution
from strategies import channels_for, problems
from toys import Mixer, synthetic


def test_every_number_is_recomputed_from_the_channel() -> None:
    problem = synthetic()
    solution = pf.solve(problem, disclosure=0.5, solver=Mixer())
    assert (solution.disclosure, solution.leakage) == problem.evaluate(solution.channel)
    assert solution.leakage == pytest.approx(float(problem.upper_bound(0.5)), abs=1e-12)
    assert solution.gap == solution.leakage - solution.lower_bound
    assert solution.requested == 0.5
    assert solution.p_y.sum() == pytest.approx(1.0)
    assert solution.p_x_given_y.sum(axis=0) == pytest.approx(1.0)
    assert solution.p_s_given_y @ solution.p_y == pytest.approx(problem.p_s)
    assert solution.status is pf.Status.FEASIBLE


def test_ends_are_closed_forms() -> None:
    problem = synthetic()
    nothing = pf.solve(problem, disclosure=0.0, solver=Mixer())
    assert (nothing.leakage, nothing.status, nothing.channel.shape) == (0.0, pf.Status.OPTIMAL, (3, 1))
    everything = pf.solve(problem, disclosure=problem.disclosure_ceiling, solver=Mixer())
    assert everything.leakage == problem.leakage_ceiling
    assert everything.status is pf.Status.OPTIMAL
    assert everything.gap == 0.0
    rich = pf.solve(problem, leakage=10.0, solver=Mixer())
    assert rich.disclosure == problem.disclosure_ceiling
    assert rich.status is pf.Status.OPTIMAL


@pytest.mark.parametrize("solver", ["auto", "global", "aem", "greedy", "slsqp"])
@pytest.mark.parametrize("missing", [0.0, 1e-12, 5e-10, -5e-10])
def test_a_request_within_the_tolerance_of_an_end_is_that_end(solver: str, missing: float) -> None:
    """Whatever the solver: 0 and H(X) are decided once, up to what any request may be missed by."""
    problem = synthetic()
    top = pf.solve(problem, disclosure=problem.disclosure_ceiling - missing, solver=solver)
    assert (top.leakage, top.status) == (problem.leakage_ceiling, pf.Status.OPTIMAL)
    bottom = pf.solve(problem, disclosure=abs(missing), solver=solver)
    assert (bottom.leakage, bottom.status, bottom.channel.shape) == (0.0, pf.Status.OPTIMAL, (3, 1))


def test_an_unproved_optimum_is_not_called_optimal() -> None:
    solution = pf.solve(synthetic(), disclosure=0.5, solver=Mixer(status=pf.Status.OPTIMAL))
    assert solution.status is pf.Status.CONVERGED


def test_a_closed_form_that_meets_the_value_proves_it() -> None:
    problem = pf.Problem(np.eye(3))  # S = X: leakage equals disclosure
    solution = pf.solve(problem, disclosure=0.5, solver=Mixer())
    assert solution.status is pf.Status.OPTIMAL
    assert solution.bound_source == "closed form"


def test_infeasible_says_the_largest_feasible() -> None:
    problem = synthetic()
    with pytest.raises(InfeasibleError, match=r"largest feasible is H\(X\) = 1.0986"):
        pf.solve(problem, disclosure=1.2, solver=Mixer())
    quiet = pf.solve(problem, disclosure=1.2, solver=Mixer(), throw=False)
    assert quiet.status is pf.Status.INFEASIBLE
    assert "1.0986" in quiet.message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"disclosure": -0.1}, "disclosure=-0.1 is not in"),
        ({"disclosure": float("nan")}, "nan is not in"),
        ({"disclosure": "much"}, "disclosure 'much' cannot be read"),
        ({"leakage": -1.0}, "leakage=-1.0 is not a budget"),
        ({"leakage": "none"}, "leakage 'none' cannot be read"),
        ({}, "exactly one of"),
        ({"disclosure": 0.1, "leakage": 0.1}, "exactly one of"),
        ({"disclosure": 0.1, "seed": -1}, "seed=-1"),
        ({"disclosure": 0.1, "seed": True}, "seed=True"),
        ({"disclosure": 0.1, "solver": "aen"}, "unknown solver 'aen': did you mean 'aem'"),
        ({"disclosure": 0.1, "solver": 3}, "neither a name nor a solver"),
        ({"disclosure": 0.1, "solver": "aem", "restart": 3}, "no option 'restart': did you mean 'restarts'"),
        ({"disclosure": 0.1, "solver": "aem", "n_y": 3}, "'aem' has no option 'n_y'"),
        ({"disclosure": 0.1, "solver": "drs", "variant": "repaired"}, "'drs' has no option 'variant'"),
        ({"disclosure": 0.1, "solver": "drs", "time_limit": None}, "time_limit=None"),
        (
            {"disclosure": 0.1, "solver": "drs", "penalty": None},
            "penalty=None is not usable: give a number above 0",
        ),
        (
            {"disclosure": 0.1, "solver": "global", "node_limit": None},
            "node_limit=None is not usable: give a whole",
        ),
        ({"disclosure": 0.1, "solver": Mixer(), "statu": 3}, "no option 'statu'"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.solve(synthetic(), **{"solver": Mixer(), **arguments})  # type: ignore[arg-type]


def test_a_solver_that_misses_is_an_error_or_a_status() -> None:
    with pytest.raises(SolverError, match=r"did not reach disclosure 0\.5"):
        pf.solve(synthetic(), disclosure=0.5, solver=Mixer(shortfall=0.1))
    quiet = pf.solve(synthetic(), disclosure=0.5, solver=Mixer(shortfall=0.1), throw=False)
    assert quiet.status is pf.Status.INFEASIBLE


def test_unfinished_runs_warn() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_steps"):
        pf.solve(synthetic(), disclosure=0.5, solver=Mixer(status=pf.Status.MAX_STEPS))
    quiet = pf.solve(synthetic(), disclosure=0.5, solver=Mixer(status=pf.Status.MAX_STEPS), throw=False)
    assert quiet.status is pf.Status.MAX_STEPS


@pytest.mark.parametrize("budget", [0.0, 0.05, 0.3])
def test_a_leakage_budget_is_spent_exactly(budget: float) -> None:
    problem = synthetic()
    solution = pf.solve(problem, leakage=budget, solver=Mixer())
    assert solution.leakage == pytest.approx(budget, abs=1e-9)
    assert solution.disclosure == pytest.approx(
        budget / problem.leakage_ceiling * problem.disclosure_ceiling, abs=1e-6
    )
    assert solution.budget == budget
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound >= solution.disclosure


def test_without_leakage_the_most_disclosure_is_the_free_one() -> None:
    problem = pf.instances.load("heart-failure")
    solution = pf.solve(problem, leakage=0.0)
    assert solution.disclosure_upper_bound is not None
    assert 0.0 <= solution.disclosure_upper_bound - solution.disclosure <= 1e-6


def test_solution_files(tmp_path: Path) -> None:
    solution = pf.solve(synthetic(), disclosure=0.5, solver=Mixer())
    path = tmp_path / "solution.json"
    solution.save(path)
    again = Solution.load(path)
    assert again.summary() == solution.summary()
    assert (again.channel == solution.channel).all()
    data = solution.to_dict()
    with pytest.raises(InvalidInputError, match="claims leakage"):
        Solution.from_dict({**data, "leakage": 0.0})
    with pytest.raises(InvalidInputError, match="claims the lower bound 99"):
        Solution.from_dict({**data, "lower_bound": 99.0})
    with pytest.raises(InvalidInputError, match="unknown status"):
        Solution.from_dict({**data, "status": "splendid"})
    del data["slope"]
    with pytest.raises(InvalidInputError, match=r"not a complete solution file.*'slope'"):
        Solution.from_dict(data)


def test_every_status_says_what_to_do() -> None:
    for status in pf.Status:
        assert len(status.advice) > 20


def test_a_record_is_read_by_name() -> None:
    record = Record(series={"leakage": np.arange(3.0)})
    assert record["leakage"][2] == 2.0


def test_kkt_residual_is_zero_at_stationary_points_and_only_there() -> None:
    # Binary symmetric S–X with uniform X and a symmetric channel: stationary by symmetry, for some slope.
    problem = pf.Problem([[0.45, 0.05], [0.05, 0.45]])
    e = 0.2
    symmetric = np.array([[1 - e, e], [e, 1 - e]])
    assert pf.kkt_residual(problem, symmetric) == pytest.approx(0.0, abs=1e-14)
    assert pf.kkt_residual(problem, symmetric, slope=0.0) > 1e-2
    assert pf.kkt_residual(problem, np.array([[0.9, 0.1], [0.5, 0.5]])) > 1e-3
    assert pf.kkt_residual(problem, channels.identity(2)) == 0.0
    assert pf.kkt_residual(problem, channels.constant(2)) == 0.0


def test_the_slope_is_the_derivative_along_stationary_points() -> None:
    problem = pf.Problem([[0.45, 0.05], [0.05, 0.45]])

    def family(e: float) -> np.ndarray:
        return np.array([[1 - e, e], [e, 1 - e]])

    before, after = problem.evaluate(family(0.2 - 1e-5)), problem.evaluate(family(0.2 + 1e-5))
    slope = (after.leakage - before.leakage) / (after.disclosure - before.disclosure)
    assert stationarity(problem, family(0.2))[1] == pytest.approx(slope, rel=1e-6)


@given(problems(), st.data())
def test_merging_equal_posteriors_changes_neither_number(problem: pf.Problem, data: st.DataObject) -> None:
    channel = data.draw(channels_for(problem))
    doubled = np.column_stack([0.25 * channel, np.zeros(problem.n_x), 0.75 * channel])
    merged = channels.merge_outputs(doubled)
    assert merged.shape[1] <= channel.shape[1]
    expected, got = problem.evaluate(channel), problem.evaluate(merged)
    assert got == pytest.approx(expected, abs=1e-12)


@given(problems(), st.data())
def test_time_sharing_averages_both_numbers(problem: pf.Problem, data: st.DataObject) -> None:
    one, two = data.draw(channels_for(problem)), data.draw(channels_for(problem))
    # What rounding leaves of a share would be outputs that tell much, of nobody.
    assert (
        channels.time_share([one, two], [1.0, 1e-15]).shape[1] == channels.time_share([one], [1.0]).shape[1]
    )
    mixed = problem.evaluate(channels.time_share([one, two], [1.0, 3.0]))
    first, second = problem.evaluate(one), problem.evaluate(two)
    assert mixed.disclosure == pytest.approx(0.25 * first.disclosure + 0.75 * second.disclosure, abs=1e-12)
    assert mixed.leakage == pytest.approx(0.25 * first.leakage + 0.75 * second.leakage, abs=1e-12)


def test_channel_from_posteriors() -> None:
    problem = synthetic()
    solution = pf.solve(problem, disclosure=0.5, solver=Mixer())
    again = channels.from_posteriors(solution.p_y, solution.p_x_given_y, problem.p_x)
    assert again == pytest.approx(solution.channel, abs=1e-14)


def test_missing_extras_come_with_advice() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'privfunnel\[tables\]'"):
        need("no_such_module_of_ours", extra="tables")
    assert need("json", extra="tables").__name__ == "json"


@pytest.mark.parametrize("solver", ["slsqp", "aem"])
def test_a_budget_is_optimal_only_where_a_verified_slope_says_so(solver: str) -> None:
    rng = np.random.default_rng(5)
    problem = pf.Problem(rng.dirichlet(np.ones(3), size=5).T * rng.dirichlet(np.ones(5)))
    solution = pf.solve(problem, leakage=0.0, solver=solver, throw=False, restarts=1)
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound - solution.disclosure > 0.1
    assert solution.status is not pf.Status.OPTIMAL


def test_a_bound_above_a_real_channel_is_an_error() -> None:
    with pytest.raises(SolverError, match="exceeds the leakage"):
        meet(0.2, 0.1, "certificate")
    assert meet(0.1 + 1e-14, 0.1, "certificate") == 0.1


def test_numpy_seeds_are_seeds() -> None:
    solution = pf.solve(synthetic(), disclosure=0.5, solver=Mixer(), seed=np.int64(3))  # type: ignore[arg-type]
    assert solution.seed == 3


def test_a_failed_answer_stays_failed() -> None:
    problem = synthetic()
    answer = Answer(channel=channels.constant(3), status=pf.Status.FAILED, message="it broke")
    solution = judge(Request(disclosure=0.5).of(problem), answer, Run("toy"))
    assert solution.status is pf.Status.FAILED


@pytest.mark.parametrize(
    ("claimed", "met", "proved", "final"),
    [
        ("optimal", True, True, "optimal"),
        ("optimal", True, False, "converged"),
        ("converged", True, True, "optimal"),
        ("feasible", True, True, "optimal"),
        ("time_limit", True, True, "optimal"),
        ("time_limit", True, False, "time_limit"),
        ("feasible", True, False, "feasible"),
        ("optimal", False, True, "infeasible"),
        ("failed", False, True, "failed"),
        ("infeasible", True, True, "infeasible"),
    ],
)
def test_one_judge_decides_every_status(claimed: str, met: bool, proved: bool, final: str) -> None:
    """With S = X the closed form proves every channel optimal; otherwise a time-shared one is not."""
    problem = pf.Problem(np.eye(3)) if proved else synthetic()
    wanted = 0.5 if met else 0.6
    channel = Mixer().solve(problem, 0.5).channel
    asked, answer = Request(disclosure=wanted).of(problem), Answer(channel=channel, status=pf.Status(claimed))
    solution = judge(asked, answer, Run("toy"))
    assert solution.status is pf.Status(final)


def is_module(name: str) -> bool:
    """Whether a name is a module's: found, not imported, since some need what is not installed."""
    home = pf._MODULES.get(name)
    return home is not None and importlib.util.find_spec(f"privfunnel.{home}") is not None


def test_the_package_lists_and_guards_its_names() -> None:
    assert {"AEM", "Global", "Mechanism", "PrivacyFunnel", "solve", "instances", "free_disclosure"} <= set(
        dir(pf)
    )
    assert dir(pf) == sorted({*pf.__all__, *filter(is_module, dir(pf))})
    for name in pf.__all__:
        assert getattr(pf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pf.nonsense  # type: ignore[attr-defined]
    assert pf.measures.entropy([1.0]) == 0.0


def test_help_and_editors_are_offered_only_what_can_be_had_here(monkeypatch: pytest.MonkeyPatch) -> None:
    have = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else have(name))
    assert "deep" not in dir(pf)
    assert pydoc.render_doc(pf).startswith("Python Library Documentation: package privfunnel")


def test_what_type_checkers_see_is_what_there_is() -> None:
    tree = ast.parse(Path(pf.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.col_offset]
    seen = {alias.name: node.module for node in imports for alias in node.names if alias.name != "SOLVERS"}
    assert {*seen, "PrivFunnelError", "PrivFunnelWarning", "__version__"} == {*pf.__all__, *pf._MODULES}
    for name, module in seen.items():
        if is_module(name):
            assert f"{module}.{name}" == f"privfunnel.{pf._MODULES[name]}"
        else:
            assert getattr(importlib.import_module(module), name) is getattr(pf, name)


USER = """
import privfunnel as pf
from typing import assert_type

problem = pf.Problem([[0.3, 0.2], [0.1, 0.4]])
pf.Global(gap=1e-5)
pf.solve(problem, disclosure="60%", known=["age"], solver=pf.AEM(restarts=3))
assert_type(pf.instances.load("heart-failure"), pf.Problem)
def given(found: pf.Mechanism, by: pf.PrivacyFunnel) -> None: ...
pf.Global(gapp=1)
pf.DRS(1)
pf.nonsense
pf.solve(problem, guarantees=3)
"""


@pytest.mark.slow
def test_a_type_checker_sees_what_a_users_script_gets_wrong(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="this is what mypy says of a script")
    (tmp_path / "script.py").write_text(USER)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir",
         str(tmp_path / "cache"), "script.py"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(Path(pf.__file__).parents[1])},
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "error:" in line]
    first = USER.splitlines().index("pf.Global(gapp=1)") + 1
    assert sorted({int(line.split(":")[1]) for line in lines}) == [first, first + 1, first + 2, first + 3], (
        done.stdout
    )


def test_signatures_are_real_and_a_misspelt_guard_is_named() -> None:
    assert {"restarts", "max_steps"} <= set(inspect.signature(pf.AEM).parameters)
    assert str(inspect.signature(pf.Global)).startswith("(*, time_limit: 'float' = 300.0, gap:")
    doors = {*inspect.signature(pf.solve).parameters, *inspect.signature(pf.trace).parameters} - {"options"}
    assert set(registry.PARAMETERS) == doors
    assert {"known", "published", "guarantees", "measure", "utility"} <= doors
    for ask in (
        lambda: pf.solve(synthetic(), disclosure=0.5, know=["a"]),
        lambda: pf.trace(synthetic(), know=["a"]),
    ):
        with pytest.raises(InvalidInputError, match="'know': did you mean 'known'"):
            ask()


def test_solutions_and_curves_say_who_they_are_in_a_line() -> None:
    solution = pf.solve(synthetic(), disclosure=0.5, solver=Mixer())
    assert repr(solution).startswith("Solution(feasible: disclosure 0.5, leakage 0.20667")
    curve = pf.trace(synthetic(), points=4, solver=Mixer())
    assert repr(curve).startswith("Curve(4 points of Problem(3 private")
    assert len(repr(solution)) < 200
    proved = pf.solve(synthetic(), disclosure=0.5)
    assert repr(proved.certificate).startswith("Certificate(L(R) ≥ ")
