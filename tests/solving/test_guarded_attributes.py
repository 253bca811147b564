"""Several private attributes with budgets of their own: values, proofs, files and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import privfunnel as pf
from forging import changed
from funnels import count_people, people, toy
from helpers_cli import assert_one_line_error, run
from privfunnel import certificate, measures
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism
from privfunnel.report.designed import Designed
from privfunnel.report.rounding import Rounding


def pair(seed: int = 0) -> pf.Problem:
    """A random table of two private columns, u and v, and three public symbols."""
    table = np.random.default_rng(seed).integers(1, 30, size=(4, 3))
    return pf.Problem(
        table,
        public_columns={"a": ["0", "0", "1"]},
        private_columns={"u": ["0", "0", "1", "1"], "v": ["0", "1", "0", "1"]},
    )


def about(problem: pf.Problem, name: str, table: Array) -> Array:
    """The rows of a (K, n) table added up by one private column."""
    values = np.array(problem.private_columns[name])
    return np.array([table[values == each].sum(axis=0) for each in ("0", "1")])


def test_the_most_disclosure_within_budgets_is_that_of_a_dense_grid() -> None:
    problem, budgets, steps = pair(), {"u": 0.004, "v": 0.02}, 80
    solution = pf.solve(problem, leakage=budgets)
    assert solution.status is pf.Status.OPTIMAL
    points = np.array([(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]) / steps
    rows, room = [], []
    for name, budget in budgets.items():
        t = about(problem, name, problem.p_s_given_x @ points.T)
        rows.append(-measures.entropy(t, axis=0))
        room.append(budget - float(measures.entropy(about(problem, name, problem.p_sx).sum(axis=1))))
        exact = float(measures.mutual_information(about(problem, name, problem.p_sx) @ solution.channel))
        assert solution.leakages[name] == pytest.approx(exact, abs=1e-12)
        assert exact <= budget + 1e-9
    solved = linprog(measures.entropy(points), A_eq=points.T, b_eq=problem.p_x, A_ub=rows, b_ub=room)
    gridded = problem.disclosure_ceiling - float(solved.fun)
    assert solution.disclosure_upper_bound is not None
    assert gridded <= solution.disclosure_upper_bound
    assert gridded - 1e-6 <= solution.disclosure <= gridded + 2.0 / steps
    assert solution.gap <= 1e-6


def test_no_release_within_the_budgets_discloses_more_than_is_proved() -> None:
    problem = pair(1)
    proof = pf.solve(problem, leakage={"u": 0.01, "v": 0.03}, known=["a"], gap=1e-4).certificate
    assert isinstance(proof.body, GuardedBody)
    assert not proof.claim.bounds_leakage
    assert proof.lower_bound(0.5) == -np.inf
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(700):
        # Mixtures of a random channel and nothing, drawn so that many keep the budgets.
        channel = rng.dirichlet(np.full(4, 0.3), size=3)
        channel = 0.4 * rng.random() * channel + (1.0 - 0.4) * channel.mean(axis=0)
        channel /= channel.sum(axis=1, keepdims=True)
        guards = proof.claim.scope.guards
        if guards.overspent(guards.leakages(problem, channel), np.inf) <= 0.0:
            inside += 1
            assert problem.evaluate(channel).disclosure <= proof.most_disclosure(0.0)
    assert inside > 100


def test_a_budget_of_nothing_means_independence_of_that_attribute_alone() -> None:
    problem = toy(2, n_s=4)
    problem = pf.Problem(problem.counts, private_columns={"u": [0, 0, 1, 1], "v": [0, 1, 0, 1]})  # type: ignore[arg-type]
    one = pf.solve(problem, leakage={"u": 0, "v": 0.01}, gap=1e-4)
    both = pf.solve(problem, leakage={"u": 0, "v": 0}, gap=1e-4)
    alone = pf.solve(problem, leakage={"u": 0}, gap=1e-4)
    for solution in (one, both, alone):
        assert solution.status is pf.Status.OPTIMAL
        assert solution.leakages["u"] < 1e-12
    assert 0.0 < one.leakages["v"] <= 0.01 + 1e-9
    # Each of both columns is hidden, but not what they are together.
    assert pf.free_disclosure(problem) < both.disclosure < one.disclosure < alone.disclosure
    merged = pf.Problem(about(problem, "u", problem.counts))  # type: ignore[arg-type]
    assert alone.disclosure == pytest.approx(pf.free_disclosure(merged), abs=2e-4)


def test_shares_are_of_each_column_and_other_measures_have_budgets_too() -> None:
    problem = pair(3)
    solution = pf.solve(problem, leakage={"u": "50%"}, measure="total-variation", gap=1e-3)
    whole = float(measures.total_variation(about(problem, "u", problem.p_sx)))
    assert solution.leakages["u"] == pytest.approx(0.5 * whole, abs=1e-3)
    assert pf.solve(problem, leakage={"u": "100%"}).disclosure == problem.disclosure_ceiling


def test_forged_budgets_prove_no_more_than_is_true(tmp_path: Path) -> None:
    problem = pair()
    proof = pf.solve(problem, leakage={"u": 0.0, "v": 0.0005}, gap=1e-4).certificate
    assert isinstance(proof.body, GuardedBody)
    proof.save(tmp_path / "proof.npz")
    (read,) = certificate.load_bundle(tmp_path / "proof.npz")
    assert isinstance(read.body, GuardedBody)
    read.verify(problem)
    assert read.words == proof.words
    assert read.most_disclosure(0.0) == proof.most_disclosure(0.0)
    u, v = proof.claim.scope.guards.attributes

    def forged(*attributes: Any) -> Certificate:
        return changed(proof, guards=changed(proof.claim.scope.guards, attributes=attributes))

    for bad in (
        forged(u._replace(budget=0.01), v),  # no longer independence, which the tree relies on
        forged(u._replace(values=v.values), v),
        forged(u._replace(values=u.values[:2]), v),
        forged(u._replace(budget=np.nan), v),
        forged(u),
        forged(),
    ):
        with pytest.raises(CertificateError):
            bad.verify(problem)
    # The line is the same; what it says of a larger budget is more.
    loose = forged(u, v._replace(budget=0.001))
    loose.verify(problem)
    assert loose.most_disclosure(0.0) > proof.most_disclosure(0.0)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"leakage": {"w": 0.1}}, "no private column 'w'"),
        ({"leakage": {}}, "names no private column"),
        ({"leakage": {"u": -1}}, "not a budget"),
        ({"leakage": {"u": "x"}}, "cannot be read"),
        ({"leakage": {"u": np.inf}}, "leave the column out"),
        ({"leakage": {"u": 0.1}, "disclosure": 0.1}, "leave disclosure="),
        ({"leakage": {"u": 0.1}, "solver": "aem"}, "plain funnel"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.solve(pair(), **asked)
    with pytest.raises(InvalidInputError, match="private_columns"):
        pf.solve(toy(), leakage={"u": 0.1})


def test_problems_of_tables_know_their_private_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    counts = count_people(pandas.DataFrame(people(500)))
    problem = counts.problem()
    assert list(problem.private_columns) == ["sick", "smoker"]
    problem.save(tmp_path / "problem.json")
    assert pf.Problem.load(tmp_path / "problem.json") == problem
    with pytest.raises(InvalidInputError, match="private column 'u' has 2 values"):
        pf.Problem([[1, 2], [3, 4], [5, 6]], private_columns={"u": [0, 1]})
    solution = pf.solve(counts, leakage={"sick": "60%"}, gap=1e-2)
    mechanism = Mechanism.from_solution(counts, solution)
    assert mechanism.provenance["measured"] == solution.leakages
    assert mechanism.leakage == pytest.approx(problem.evaluate(solution.channel).leakage, abs=1e-12)
    for asked in (Designed.of_solution(solution), Designed.of_mechanism(mechanism)):
        assert asked is not None
        (said,) = asked.words("release", Rounding(problem.n or 0))
        assert said.startswith("It was designed against an attacker who knows nothing, to tell at most ")
        assert said.endswith(" bits about sick.")
        assert (
            f"{asked.budgets['sick']:.6g}" not in said
        )  # a share of what X tells, which is not published exactly


def test_the_command_line_takes_a_budget_for_each_column(tmp_path: Path) -> None:
    told = run("solve", "heart-failure", "--leakage", "sex=0.05", "--leakage", "death=90%", "--units", "bits",
               "--option", "gap=1e-2", "--out", tmp_path / "design")  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "about sex" in told.output
    assert "about all of them together" in told.output
    solution = pf.Solution.load(tmp_path / "design" / "solution.json")
    assert solution.guards.attributes[0].budget == pytest.approx(0.05 * np.log(2))
    whole = solution.guards.leakages(solution.problem, np.eye(solution.problem.n_x))
    for name, leaked in solution.leakages.items():  # shares as the budgets are meant, none of I(S;X)
        assert f"{100 * leaked / whole[name]:.2f} % of what X itself tells" in told.output
    assert "% of I(S;X)" not in told.output
    assert run("verify", tmp_path / "design" / "certificate.npz", "heart-failure").exit_code == 0
    assert_one_line_error(
        run("solve", "heart-failure", "--leakage", "sex=1", "--leakage", "2"), "COLUMN=BUDGET"
    )
    assert_one_line_error(run("solve", "heart-failure", "--leakage", "sex=1", "--leakage", "sex=2"), "twice")
    assert_one_line_error(run("solve", "heart-failure", "--leakage", "sax=1"), "'sex'")
