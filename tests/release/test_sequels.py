"""The next release of rows that were released before, and the lock of their ledger."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import assert_one_line_error, run
from privfunnel.certificate import load_bundle
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.locking import locked
from privfunnel.reductions.earlier_releases import EARLIER
from privfunnel.release.ledger import Entry, Ledger

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")


def small() -> pf.Problem:
    rng = np.random.default_rng(4)
    return pf.Problem(rng.integers(2, 20, size=(2, 5)).astype(float))


def earlier(problem: pf.Problem) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(6).dirichlet(np.full(3, 0.4), size=problem.n_x)


def test_the_numbers_of_a_sequel_are_those_of_all_releases_together() -> None:
    problem = small()
    first = earlier(problem)
    made = pf.sequel(problem, [first], disclosure="80%", gap=1e-3)
    point = problem.evaluate(made.joint_channel())
    assert made.status is pf.Status.OPTIMAL
    assert made.disclosure == pytest.approx(point.disclosure, abs=1e-9)
    assert made.leakage == pytest.approx(point.leakage, abs=1e-9)
    assert made.disclosure >= 0.8 * problem.disclosure_ceiling - 1e-8
    assert made.lower_bound <= made.leakage <= made.lower_bound + 1e-3
    assert made.before.leakage == pytest.approx(pf.joint_leakage(problem, [first]))
    # What was released is part of all releases together, as it was.
    assert made.solution.problem.public_columns[EARLIER]


def test_no_second_release_gets_below_what_is_proved() -> None:
    problem = small()
    first = earlier(problem)
    made = pf.sequel(problem, [first], disclosure="70%", gap=1e-4)
    rng, tried = np.random.default_rng(1), 0
    while tried < 40:
        second = rng.dirichlet(np.full(5, 0.15), size=problem.n_x)
        both = pf.repeated.joint_channel(problem, [first, second])
        point = problem.evaluate(both)
        if point.disclosure >= 0.7 * problem.disclosure_ceiling:
            tried += 1
            assert point.leakage >= made.lower_bound - 1e-12


def test_repeating_a_release_that_tells_nothing_costs_nothing() -> None:
    problem = small()
    first = pf.solve(problem, leakage=0)
    made = pf.sequel(problem, [first], leakage=0.0, gap=1e-4)
    assert made.leakage == pytest.approx(0.0, abs=1e-9)
    assert made.disclosure >= first.disclosure - 1e-9
    assert made.disclosure_upper_bound is not None
    assert made.disclosure <= made.disclosure_upper_bound <= pf.free_disclosure(problem) + 1e-3


def test_what_the_next_release_adds_is_designed_for_attackers_over_the_pairs() -> None:
    problem = pf.instances.load("heart-failure")
    first = pf.solve(problem, leakage=0)
    with pytest.raises(InvalidInputError, match=r"published=\['earlier release'\]"):
        pf.sequel(problem, [first], disclosure="80%", known=["anaemia"])
    after = pf.sequel(problem, [first], disclosure="70%", gap=1e-3)
    pairs = after.solution.problem
    added = pf.solve(pairs, leakage=0.02, published=[EARLIER], known=["anaemia"], gap=1e-3)
    assert set(added.leakages) == {EARLIER, f"{EARLIER}, anaemia"}
    assert max(added.leakages.values()) <= 0.02 + 1e-9
    kept = added.disclosure - pairs.evaluate(added.guards.nothing(pairs)).disclosure
    assert first.disclosure + kept == pytest.approx(1.9698, abs=1e-3)  # docs/attackers.md


def test_a_budget_that_is_spent_already_is_refused() -> None:
    problem = small()
    with pytest.raises(InfeasibleError, match=r"bits \(.* nats\) already; allow more"):
        pf.sequel(problem, [np.eye(problem.n_x)], leakage=0.001)
    with pytest.raises(InvalidInputError, match="exactly one of disclosure= "):
        pf.sequel(problem, [np.eye(problem.n_x)])
    with pytest.raises(InvalidInputError, match="no channel is given"):
        pf.sequel(problem, [], leakage=0.1)
    named = pf.Problem(np.ones((2, 2)), public_columns={EARLIER: [0, 1]})
    with pytest.raises(InvalidInputError, match="rename it"):
        pf.sequel(named, [np.eye(2)], disclosure="50%")


def test_solve_with_a_ledger_designs_the_next_release(tmp_path: Path) -> None:
    problem = small()
    ledger, source, out = tmp_path / "ledger.json", str(tmp_path / "problem.json"), tmp_path / "next"
    problem.save(source)
    held = Ledger(problem, (Entry("m", "d", None, "2026-05-31"),), {"m": earlier(problem)})
    held.save(ledger)
    asked = ["solve", source, "--ledger", str(ledger), "--option", "gap=0.01"]
    done = run(*asked, "--disclosure", "90%", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "after 1 earlier draws" in done.output
    assert "all together with the next one" in done.output
    assert load_bundle(out / "certificate.npz")
    assert run("verify", str(out / "certificate.npz"), str(out / "solution.json")).exit_code == 0
    told = run(*asked, "--leakage", "90%", "--json")
    found = json.loads(told.stdout)
    assert found["before"]["leakage"] == pytest.approx(held.leakage)
    assert found["leakage"] <= 0.9 * held.problem.leakage_ceiling + 1e-8
    wrong = run(*asked, "--leakage", "5%", "--published", "age")
    assert_one_line_error(wrong, "leave --published out")
    other = run("solve", "heart-failure", "--ledger", str(ledger), "--leakage", "5%")
    assert_one_line_error(other, "begun with another table")
    neither = run("solve", source, "--ledger", str(ledger))
    assert_one_line_error(neither, "give exactly one of --disclosure")
    with pytest.raises(InvalidInputError, match="no releases"):
        Ledger(problem).next_release(leakage=0.1)


def test_a_second_release_waits_until_the_first_is_entered(tmp_path: Path) -> None:
    path, order = tmp_path / "ledger.json", []
    waiting, inside = threading.Event(), threading.Event()

    def second() -> None:
        inside.wait(10)
        with locked(path, waiting.set):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with locked(path):
        inside.set()
        assert waiting.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="cannot lock"), locked(tmp_path / "nowhere" / "ledger.json"):
        raise AssertionError


def test_guarantees_are_told_in_their_own_units() -> None:
    asked = ["--guarantee", "lip=0.5", "--guarantee", "k=5", "--option", "gap=0.2"]
    done = run("solve", "heart-failure", *asked, "--units", "bits")
    assert done.exit_code == 0, done.output
    assert "Guaranteed for every output: lip=0.5 nats; the worst one has 0." in done.output
    assert "Guaranteed for every output: k=5; the worst one has" in done.output
