"""Releases for a task with attackers who know something, guarantees, and a disclosure besides: proved, and attacked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from test_guarded import private_rows, vertices

import privfunnel as pf
from forging import changed
from privfunnel.algorithms.columns.general import Guarded
from privfunnel.certificate import Certificate, GuardedBody, TaskBody, load_bundle
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError, SolverError
from privfunnel.measures import Array, xlogx
from privfunnel.model import guarantees
from privfunnel.model.threat import Threat
from privfunnel.solving import task
from privfunnel.solving.base import Asking
from privfunnel.solving.guaranteed_end import SHORT
from privfunnel.solving.guarded_task import GuardedTaskWay
from privfunnel.solving.point import answered

#: The gap that is asked for: few boxes prove it.
GAP = 1e-3


def toy(seed: int, n_s: int = 2, n_u: int = 2, n_x: int = 6) -> pf.Problem:
    """A random table of counts with two public columns, and a random task."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 40, size=(n_s, n_x))
    p_u = rng.dirichlet(np.full(n_u, 0.7), size=n_x).T
    columns = {"a": tuple(str(i % 2) for i in range(n_x)), "b": tuple(str(i // 3) for i in range(n_x))}
    return pf.Problem(counts, p_ux=p_u * counts.sum(axis=0), public_columns=columns)


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    return toy(4, n_x=5)


def solve(problem: pf.Problem, **asked: Any) -> pf.Solution:
    return pf.solve(problem, **{"gap": GAP, **asked})


def allowed_channels(problem: pf.Problem, threat: Threat, count: int) -> list[Array]:
    """Random channels, each as large a share of the time as the guarantees allow."""
    rng, made = np.random.default_rng(0), []
    for _ in range(count):
        channel = rng.dirichlet(np.full(int(rng.integers(2, 6)), rng.choice([0.1, 0.5])), size=problem.n_x)
        for share in (1.0, 0.6, 0.3, 0.1, 0.03):
            mixed = share * channel + (1.0 - share) * (problem.p_x @ channel)
            if threat.excess(problem, mixed) <= 0.0:
                made.append(mixed)
                break
    return made


QUESTIONS: list[dict[str, Any]] = [
    {"known": ["a"], "utility": "80%"},
    {"known": ["a", "b"], "utility": "60%"},
    {"published": ["a"], "utility": "90%"},
    {"guarantees": ["t-closeness=0.2"], "utility": "60%"},
    {"guarantees": ["l-diversity=1.6", "k=20"], "utility": "70%"},
    {"measure": "guessing", "utility": "90%"},
    {"measure": "maximal-leakage", "known": ["b"], "utility": "70%"},
    {"utility": "60%", "disclosure": "80%"},
    {"utility": "50%", "disclosure": "60%", "guarantees": ["lip=0.8"], "known": ["b"]},
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_no_random_release_is_below_the_proved_line(problem: pf.Problem, asked: dict[str, Any]) -> None:
    found = solve(problem, **asked)
    assert found.status is pf.Status.OPTIMAL
    assert found.gap <= GAP
    assert found.utility >= (found.requested_utility or 0.0) - 1e-9
    assert found.disclosure >= (found.requested or 0.0) - 1e-9
    threat = found.guards
    assert found.leakage == max(threat.leakages(problem, found.channel).values())
    assert threat.excess(problem, found.channel) <= guarantees.MET
    line = found.certificate
    if line is None:
        assert found.leakage <= GAP
        return
    assert isinstance(line.body, GuardedBody)
    line.verify(problem)
    channels = allowed_channels(problem, threat, 60)
    assert len(channels) > 20
    for channel in channels:
        if threat.published is not None:  # released beside
            shown = np.eye(threat.published.n_values)[threat.published.values]
            channel = (channel[:, :, None] * shown[:, None, :]).reshape(problem.n_x, -1)
        point = problem.evaluate(channel)
        told = max(threat.leakages(problem, channel).values())
        assert told >= line.claim.least_leakage(point.disclosure, float(point.utility or 0.0)) - 1e-12


def most_utility(problem: pf.Problem, points: Array) -> float:
    """The most utility of mixtures of these posteriors with total p_x, by a linear program."""
    tasks = problem.required_tasks()
    spent = -xlogx(points @ tasks.rows.T) @ tasks.weights
    solved = linprog(spent, A_eq=points.T, b_eq=problem.p_x, method="highs")
    return tasks.h_u - float(solved.fun)


@pytest.mark.parametrize("text", ["lip=0.3", "ldp=0.4", "k=30"])
def test_the_most_utility_of_a_guarantee_is_that_of_its_vertices(text: str) -> None:
    table = toy(2, n_x=5, n_u=3)
    guarantee = guarantees.parse(text)
    caps = guarantee.caps(table)
    points = vertices(
        np.zeros((0, 5)), guarantee.rows(table).values, np.ones(5) if caps is None else np.asarray(caps)
    )
    found = solve(table, guarantees=[text])
    assert found.status is pf.Status.OPTIMAL
    assert found.utility_upper_bound is not None
    best = most_utility(table, points)
    assert found.utility - 1e-8 <= best <= found.utility_upper_bound + 1e-12
    assert found.utility_upper_bound - found.utility == found.gap <= GAP


def test_the_most_utility_that_tells_no_attacker_anything_is_that_of_vertices() -> None:
    table = toy(3)
    points = vertices(private_rows(table, ["a"]), np.zeros((0, 6)), np.ones(6))
    found = solve(table, known=["a"], leakage=0)
    best = most_utility(table, points)
    assert found.leakage <= 1e-12
    assert found.utility - 1e-8 <= best <= float(found.utility_upper_bound or 0.0) + 1e-12
    assert found.status is pf.Status.OPTIMAL


def test_two_floors_are_met_at_the_least_leakage_of_a_grid() -> None:
    table = toy(7, n_x=3)
    tasks, n = table.required_tasks(), 40
    grid = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]) / n
    utility, disclosure = 0.6 * table.utility_ceiling, 0.75 * table.disclosure_ceiling
    leaked = xlogx(grid @ table.p_s_given_x.T).sum(axis=1)
    rows = np.stack([-xlogx(grid @ tasks.rows.T) @ tasks.weights, -xlogx(grid).sum(axis=1)])
    room = [tasks.h_u - utility, table.disclosure_ceiling - disclosure]
    solved = linprog(leaked, A_ub=rows, b_ub=room, A_eq=grid.T, b_eq=table.p_x, method="highs")
    on_grid = table.h_s + float(solved.fun)
    found = solve(table, utility=utility, disclosure=disclosure, gap=1e-6)
    assert found.lower_bound <= on_grid
    assert found.leakage <= on_grid + 1e-6
    assert on_grid - found.leakage < 1e-3  # as fine as the grid is


def test_a_plain_threat_has_the_value_of_the_task_funnel(problem: pf.Problem) -> None:
    one = pf.solve(problem, utility="70%")
    other = solve(
        problem, utility="70%", known=[np.zeros(problem.n_x, dtype=int)]
    )  # who knows nothing, again
    assert abs(one.leakage - other.leakage) <= GAP
    assert other.lower_bound <= one.leakage + 1e-9
    assert one.lower_bound <= other.leakage + 1e-9


def test_a_budget_buys_what_the_least_leakage_asks_for(problem: pf.Problem) -> None:
    least = solve(problem, known=["a"], utility="70%")
    most = solve(problem, known=["a"], leakage=least.leakage)
    assert most.leakage <= least.leakage + 1e-9
    assert most.utility >= least.utility - GAP
    assert float(most.utility_upper_bound or 0.0) >= least.utility - 1e-9
    several = solve(toy(4, n_s=4), utility="50%", known=["b"])
    assert several.status is pf.Status.OPTIMAL


def test_private_columns_may_have_budgets_of_their_own() -> None:
    rng = np.random.default_rng(1)
    columns = {"sex": ("f", "f", "m", "m"), "ill": ("n", "y", "n", "y")}
    counts, p_u = rng.integers(5, 40, size=(4, 5)), rng.dirichlet([0.7, 0.7], size=5).T
    table = pf.Problem(counts, p_ux=p_u * counts.sum(axis=0), private_columns=columns)
    found = solve(table, leakage={"sex": 0.002, "ill": "20%"})
    assert found.status is pf.Status.OPTIMAL
    assert found.leakages["sex"] <= 0.002 + 1e-9
    with pytest.raises(InvalidInputError, match="are for the most utility"):
        solve(table, leakage={"sex": 0.002}, utility="50%")


def test_symbols_that_nobody_tells_apart_are_solved_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    few = toy(9, n_x=4)
    copies = np.repeat(np.arange(4), 17)
    columns = {"a": tuple(few.public_columns["a"][i] for i in copies)}
    p_ux = few.required_tasks().rows[:, copies] * few.p_x[copies]
    many = pf.Problem(few.p_sx[:, copies] / 17, p_ux=p_ux / 17, public_columns=columns)
    one, other = (solve(each, utility="80%", known=["a"]) for each in (few, many))
    assert other.status is pf.Status.OPTIMAL
    assert abs(one.leakage - other.leakage) <= GAP
    assert isinstance(other.certificate.body, GuardedBody)
    other.certificate.verify(many)
    monkeypatch.setattr(
        "privfunnel.reductions.task_classes.MOST_CLASSES", 3
    )  # cells: the plain bound is left
    cells = solve(many, utility="80%", known=["a"], throw=False)
    assert cells.utility >= (cells.requested_utility or 0.0) - 1e-9
    assert cells.leakage >= other.lower_bound
    assert isinstance(cells.certificate.body, TaskBody)
    free = solve(many, utility="1%", known=[np.zeros(many.n_x, dtype=int)])
    assert free.message == "the plain task funnel's release"
    monkeypatch.setattr("privfunnel.solving.guarded_task.MOST_SYMBOLS", 60)
    with pytest.raises(InvalidInputError, match="searched on up to 60 public symbols, there are 68"):
        solve(many, utility="80%", disclosure="99%")


def test_what_groups_of_symbols_cannot_reach_is_not_called_infeasible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = toy(3, n_x=8)
    fine = solve(problem, utility="98%", guarantees=["lip=1.5"])
    assert fine.utility >= 0.98 * problem.utility_ceiling - 1e-9
    for name in ("solving.guarded_task.SEARCHED_UP_TO", "reductions.task_classes.MOST_CLASSES"):
        monkeypatch.setattr(f"privfunnel.{name}", 0)
    for name in ("MOST_CELLS", "LEAST_CELLS"):
        monkeypatch.setattr(f"privfunnel.reductions.task_classes.{name}", 2)
    monkeypatch.setattr(
        "privfunnel.model.threat.Threat.allow", lambda *_: False
    )  # the plain funnel's release is none
    for utility, guarantee in (
        ("98%", "lip=1.5"),
        ("70%", "lip=0.01"),
    ):  # groups do not keep it; must not tell it
        with pytest.raises(
            SolverError, match="groups of the 8 public symbols, which proves nothing of all of them"
        ):
            solve(problem, utility=utility, guarantees=[guarantee])


def test_what_other_points_found_is_kept_on_tables_of_many_symbols_when_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = toy(3, n_x=8)
    most = solve(problem, published=["a"], guarantees=["lip=0.3"])
    monkeypatch.setattr("privfunnel.solving.guarded_task.SEARCHED_UP_TO", 0)
    hurried = GuardedTaskWay(Guarded(gap=GAP, time_limit=1e-9))
    asked = most.question.at(most.utility - SHORT)
    with pytest.raises(SolverError, match="was not reached before the limits came"):
        answered(asked, hurried, Asking())
    found = answered(asked, hurried, Asking(before=(most,)))
    assert found.utility >= most.utility - SHORT - 1e-9
    assert found.leakage <= most.leakage + 1e-9


def test_ends_need_no_search(problem: pf.Problem) -> None:
    nothing = solve(problem, utility=0, known=["a"])
    assert (nothing.leakage, nothing.n_outputs) == (pytest.approx(0.0, abs=1e-12), 1)
    whole = solve(problem, utility="100%", known=["a"])
    assert (whole.gap, whole.bound_source) == (0.0, "closed form")
    shown = solve(problem, utility="100%", published=["a"])
    assert shown.utility == pytest.approx(problem.utility_ceiling)
    assert shown.bound_source == "closed form"
    rich = solve(problem, leakage=5.0, known=["a"])
    assert rich.utility == pytest.approx(problem.utility_ceiling)


@pytest.fixture(scope="module")
def proved(problem: pf.Problem) -> pf.Solution:
    return solve(problem, utility="80%", known=["a"], guarantees=["lip=2"])


def test_forged_certificates_are_refused(problem: pf.Problem, proved: pf.Solution) -> None:
    line = proved.certificate
    assert isinstance(line.body, GuardedBody)
    (tree,) = line.body.proofs
    leaf = int(np.flatnonzero(tree.variable < 0)[-1])
    moved = tree.split.copy()
    cut = int(np.flatnonzero(tree.variable >= problem.n_x)[0])  # an entry of p(u|y)
    moved[cut] = [0.0, 1.0]
    zeros = tree.q.copy()
    zeros[leaf] = 0.0
    forged = [
        changed(line, intercept=line.intercept + 1e-6),
        changed(line, utility=line.claim.utility * 1.1),
        changed(line, utility=-line.claim.utility),
        changed(line, utility=float("nan")),
        changed(line, tasks=None),
        changed(line, tasks="0" * 64),
        changed(line, guards=Threat.of(problem, known=["a"])),
        changed(line, prices=line.body.prices + 0.01),
        changed(line, weights=line.claim.weights * 0.5),
        changed(line, proofs=(changed(tree, claim=tree.claim + 1e-3),)),
        changed(line, proofs=(changed(tree, split=moved),)),
        changed(line, proofs=(changed(tree, q=zeros, nu=tree.nu + 0.1),)),
        changed(line, proofs=(changed(tree, variable=np.full_like(tree.variable, problem.n_x + 2)),)),
    ]
    for each in forged:
        with pytest.raises(CertificateError):
            each.verify(problem)
    with pytest.raises(CertificateError, match="about a release for a task: name it"):
        line.verify(pf.Problem(np.asarray(problem.counts)))
    no_slope = changed(line, weights=0.0 * line.claim.weights, disclosure=1.0, utility=0.0)
    assert no_slope.words.startswith("disclosure ≤")
    with pytest.raises(CertificateError, match="another task"):
        changed(line, tasks="0" * 64).verify(problem)


def test_what_is_proved_and_found_survives_its_files(
    problem: pf.Problem, proved: pf.Solution, tmp_path: Path
) -> None:
    assert proved.certificate is not None
    proved.certificate.save(tmp_path / "proof.npz")
    (again,) = load_bundle(tmp_path / "proof.npz")
    again.verify(problem)
    assert isinstance(again.body, GuardedBody)
    assert again.words == proved.certificate.words
    assert "I(U;Y)" in again.words
    proved.save(tmp_path / "solution.json")
    read = pf.Solution.load(tmp_path / "solution.json")
    assert (read.leakage, read.utility, read.guards.words) == (
        proved.leakage,
        proved.utility,
        "attackers who know nothing; a, guaranteed lip=2",
    )
    assert "largest leakage" in read._repr_html_()
    changed = proved.to_dict() | {"leakage": proved.leakage / 2}
    with pytest.raises(InvalidInputError, match="the file was changed"):
        pf.Solution.from_dict(changed)


def test_the_curve_of_guarded_releases_rises_to_what_is_allowed(problem: pf.Problem, tmp_path: Path) -> None:
    guards: dict[str, Any] = {"guarantees": ["lip=0.3"], "known": ["a"], "gap": GAP, "along": "utility"}
    curve = pf.trace(problem, points=2, also=["10%", 0.0], **guards)
    assert curve.complete
    assert curve.limit is not None
    assert curve.gap.max() <= GAP
    assert np.all(np.diff(curve.leakage) >= -GAP)
    np.testing.assert_allclose(curve.utility, [0.0, 0.1 * problem.utility_ceiling, curve.most], atol=1e-6)
    with pytest.raises(InfeasibleError, match="the guarantees allow"):
        pf.trace(problem, also=["100%"], **guards)
    np.testing.assert_array_less(curve.proved(curve.utility), curve.leakage + 1e-9)
    between = curve.at(0.5 * curve.most)
    assert between.guards is curve.guards
    assert curve.guards.excess(problem, between.channel) <= guarantees.MET
    assert curve.within(float(curve.leakage[-1])).leakage <= curve.leakage[-1] + 1e-9
    with pytest.raises(InfeasibleError, match="the guarantees allow"):
        curve.at(problem.utility_ceiling)
    curve.save(tmp_path / "curve.json")
    read = pf.Curve.load(tmp_path / "curve.json")
    assert read.most == curve.most
    assert [row["worst_attacker"] for row in read.rows()] == [row["worst_attacker"] for row in curve.rows()]
    one = pf.trace(problem, along="utility", utilities=["40%"], published=["a"], gap=1e-2)
    assert one.limit is None
    assert one.with_ends()[0][-1] == pytest.approx(problem.utility_ceiling)


def test_what_makes_no_sense_is_refused(problem: pf.Problem) -> None:
    for asked, words in (
        ({"known": ["a"]}, "give utility= "),
        ({"known": ["a"], "utility": 0.1, "leakage": 0.1}, "at most one of utility="),
        ({"known": ["c"], "utility": 0.1}, "there is no public column 'c'"),
        ({"known": ["a"], "utility": 0.1, "solver": "aem"}, "solves the plain funnel"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            pf.solve(problem, **asked)
    with pytest.raises(InfeasibleError, match="the guarantees allow"):
        solve(problem, utility="99.9%", guarantees=["lip=0.05"])
    told = solve(problem, utility="99.9%", guarantees=["lip=0.05"], throw=False)
    assert told.status is pf.Status.INFEASIBLE
    assert "the guarantees allow" in told.message


def test_a_curve_of_maximal_leakage_mixes_its_exponential(problem: pf.Problem) -> None:
    asked = {"measure": "maximal-leakage", "gap": 1e-3}
    curve = pf.trace(problem, along="utility", utilities=["50%", "90%", "100%"], **asked)
    low, high = (float(curve.utility[i]) for i in (1, 2))
    middle = curve.at((low + high) / 2)
    assert np.exp(middle.leakage) == pytest.approx(np.exp(curve.leakage[1:]).mean(), abs=1e-9)
    assert float(curve.achieved(middle.utility)) == pytest.approx(middle.leakage, abs=1e-9)
    assert curve.proved(middle.utility) <= middle.leakage
    within = curve.within(middle.leakage)
    assert within.utility == pytest.approx(middle.utility, abs=1e-6)
    alone = solve(problem, utility="90%", measure="maximal-leakage")
    assert float(curve.leakage[1]) == pytest.approx(alone.leakage, abs=2e-3)
    assert curve.rows()[-1]["leakage_share"] <= 1.0 + 1e-9


def test_an_answer_that_proves_nothing_is_a_failure_with_a_channel(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CertificateError("it does not prove its bound")

    monkeypatch.setattr(Certificate, "verify", refuse)
    found = solve(problem, utility="80%", known=["a"], throw=False)
    assert (found.status, found.lower_bound) == (pf.Status.FAILED, 0.0)
    assert found.utility > 0.0
    assert found.message == "it does not prove its bound"


def test_the_estimator_guards_a_release_for_its_target() -> None:
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"sex": rng.integers(0, 2, 300), "age": rng.integers(0, 3, 300)})
    rows["town"] = (rows["age"] + rows["sex"] + rng.integers(0, 2, 300)) % 3
    made = pf.PrivacyFunnel(private=["sex"], utility="40%", guarantees=["lip=0.4"], known=["age"])
    made.fit(rows, (rows["age"] > rng.integers(0, 3, 300)).astype(int))
    assert made.solution_.guaranteed["lip=0.4"] <= 0.4 + 1e-9
    assert set(made.solution_.leakages) == {"nothing", "age"}


@pytest.mark.parametrize("asked", [{"leakage": "5%"}, {"leakage": 0.0}, {"guarantees": ["lip=0.3"]}], ids=str)
def test_weights_of_any_size_find_the_same_release(problem: pf.Problem, asked: dict[str, Any]) -> None:
    p_ux = problem.required_tasks().rows * problem.p_x
    found = []
    for weight in (1.0, 1e6):
        weighed = pf.Problem(problem.counts, p_ux={"u": p_ux}, task_weights={"u": weight})
        found.append(solve(weighed, known=[np.arange(problem.n_x) % 2], **asked))
        assert found[-1].status is pf.Status.OPTIMAL
    assert found[1].utility == pytest.approx(1e6 * found[0].utility, rel=1e-6)
    assert found[1].gap <= 1e6 * GAP


def test_utility_and_disclosure_share_one_time_limit(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    searched, plain = GuardedTaskWay.answer, task.TaskFunnel.solve

    def first(self: Any, *args: Any, **options: Any) -> Any:
        limits.append(self.time_limit)
        return plain(self, *args, **options)

    def second(self: Any, *args: Any, **options: Any) -> Any:
        limits.append(self.solver.time_limit)
        return searched(self, *args, **options)

    monkeypatch.setattr(task.TaskFunnel, "solve", first)
    monkeypatch.setattr(GuardedTaskWay, "answer", second)
    monkeypatch.setattr(task, "Deadline", lambda seconds: SimpleNamespace(left=lambda: 0.4 * seconds))
    found = solve(problem, utility="50%", disclosure="95%", time_limit=20.0)
    assert found.disclosure >= 0.95 * problem.disclosure_ceiling - 1e-9
    assert limits == [10.0, 8.0]
