"""Reports of releases for a task, and of records for records: what they say is proved of the right releases."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privfunnel as pf
from privfunnel import audit, report
from privfunnel.data.tables import Counts
from privfunnel.neighbours.task_alternatives import instead_for_task
from privfunnel.release.mechanism import Mechanism
from privfunnel.report.rounding import UNTOLD, Rounding


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 1200
    sex, age = rng.integers(0, 2, n), rng.integers(0, 2, n)
    hours = np.round(30 + 8 * age + 4 * sex + rng.normal(0, 8, n)).astype(int)
    town = np.array(["a", "b", "c"])[(age + sex + rng.integers(0, 2, n)) % 3]
    return pd.DataFrame({"sex": np.array(["f", "m"])[sex], "age": age, "town": town, "hours": hours})


@pytest.fixture(scope="module")
def counts() -> Counts:
    roles = {"private": "sex", "public": ["age", "town"], "task": {"hours": 2.0}}
    return pf.tables.count(rows(), **roles, bins={"hours": "edges:-inf,35,inf"})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def curve(counts: Counts) -> pf.Curve:
    return pf.trace(counts.problem(), along="utility", points=4)


@pytest.fixture(scope="module")
def mechanism(counts: Counts) -> Mechanism:
    """As its file brings it back."""
    made = Mechanism.from_solution(counts, pf.solve(counts.problem(), utility="90%"))
    return Mechanism.from_dict(made.to_dict())


def told(text: str) -> str:
    """What a reader sees of a report, on one line."""
    text = re.sub(r"<style>.*?</style>|<script.*?</script>|<svg.*?</svg>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_the_report_of_a_tasks_curve_goes_along_its_utility(curve: pf.Curve, counts: Counts) -> None:
    chosen = curve.at("90%")
    instead = instead_for_task(curve.problem, chosen.utility, counts.x_alphabet)  # type: ignore[attr-defined]
    text = report.render(curve, report.Report(chosen=chosen, task_alternatives=instead))
    assert "utility I(U;Y), bits" in text
    assert "between the closed-form bounds" not in text
    places = [float(place) for place in re.findall(r'data-r="([^"]+)"', text)]
    say = Rounding(curve.problem.n)
    top = say.information(curve.most)
    assert sorted(places) == pytest.approx(
        sorted([say.share(float(u / curve.most)) * top for u in curve.utility] * 2)
    )
    seen = told(text)
    assert "hours what the release is for not released itself" in seen
    assert "It was designed for hours: it keeps 90.0 % of what the public columns tell about it." in seen
    for each in instead:
        assert f"{each.method}, as good for hours {say.percent(each.utility_share)}" in seen
    assert "utility, of I(U;X) leakage, of I(S;X)" in seen


def test_the_bound_of_a_task_is_claimed_of_releases_for_the_task_alone(
    mechanism: Mechanism, counts: Counts
) -> None:
    solution = pf.solve(counts.problem(), utility="98%")
    seen = told(report.render(Mechanism.from_solution(counts, solution)))
    assert solution.lower_bound > 0.0
    assert "No release that keeps as much of what the public columns tell about hours can leak less" in seen
    assert "No release that keeps as much can" not in seen
    assert "No release that keeps as much leaks" not in seen


def test_a_mechanism_remembers_how_its_task_was_counted(mechanism: Mechanism) -> None:
    assert mechanism.task_weights == {"hours": 2.0}
    assert mechanism.task_bins["hours"].to_dict()["edges"] == ["-inf", 35.0, "inf"]
    assert mechanism.utility is not None
    kept, whole = mechanism.utility
    assert kept / whole == pytest.approx(0.9, abs=1e-6)
    odd = Mechanism.from_dict(
        mechanism.to_dict()
        | {
            "provenance": {
                "task": {"columns": ["hours"], "utility": 2, "utility_ceiling": 1, "weights": {"hours": -1},
                         "bins": {"hours": {"form": "cut"}, "other": 3}},
                "distortion": {"invariant": "yes"},
            }
        }
    )  # fmt: skip
    assert (odd.utility, odd.task_weights, odd.task_bins, odd.invariant) == (None, {"hours": 1.0}, {}, False)


def test_the_audit_of_a_task_tells_models_and_what_else_is_as_good(mechanism: Mechanism) -> None:
    found = audit.for_task(rows(), mechanism, rows=400)
    assert [each.column for each in (*found.tasks, *found.private)] == ["hours", "sex"]
    drop, coarse = found.instead
    assert drop.leakage >= coarse.leakage >= mechanism.leakage - 1e-9
    assert drop.utility >= 0.9 * drop.utility_ceiling - 1e-6
    assert len(found.words()) == 4
    useful = (*found.tasks, *found.private)
    seen = told(report.render(mechanism, report.Report(usefulness=useful, task_alternatives=found.instead)))
    say = Rounding(mechanism.rows)
    hours = found.tasks[0].release
    assert "What it is good for" in seen
    assert mechanism.promise["bound_source"] == "certificate"
    assert "privfunnel verify certificate.npz solution.json" in seen
    assert f"hours the task&#x27;s {say.percent(found.tasks[0].prior)} {say.percent(hours.value)}" in seen
    assert "sex private: an attacker&#x27;s" in seen
    assert audit.for_task(rows(), mechanism, rows=0).tasks == ()


def test_records_for_records_are_told_as_such(counts: Counts, tmp_path: Path) -> None:
    curve = pf.distortion.trace(counts, points=4)
    chosen = pf.distortion.solve(counts, distortion=0.2)
    text = report.render(curve, report.Report(chosen=chosen))
    assert "distortion E d(X,Y)<" in text
    # What is drawn as proved lies nowhere above what is proved, though places are rounded.
    say, high = Rounding(counts.n), Rounding(counts.n).information(curve.problem.leakage_ceiling)
    drawn = report.detail.picture(curve, None, say).proved
    assert len(drawn) > 10
    for place, bound in drawn:
        assert bound <= curve.proved(place) / curve.problem.leakage_ceiling * high + 1e-12
    seen = told(text)
    assert "Records are released for records" in seen
    assert "No release of records that changes them as little can leak less" in seen
    assert "Records unchanged 80.0 % by column: age" in seen
    # A mechanism's own records are written, not drawn anew from p(x|y).
    mechanism = Mechanism.from_solution(counts, chosen)
    again = report.described.Described.of_mechanism(mechanism)
    np.testing.assert_allclose(again.written, chosen.channel, atol=1e-12)
    whole, columns = pf.distortion.unchanged(
        mechanism.channel, mechanism.p_x, mechanism.outputs, counts.x_alphabet
    )
    assert whole == pytest.approx(1.0 - chosen.distortion, abs=1e-9)
    assert min(columns.values()) >= whole - 1e-12
    invariant = pf.distortion.solve(counts, distortion=0.2, invariant=True)
    assert "and keeps their distribution can leak less" in told(
        report.render(Mechanism.from_solution(counts, invariant))
    )


def test_a_lift_that_few_rows_decide_is_not_told() -> None:
    assert Rounding(1000).of(0.001).factor(1.9) == UNTOLD
    assert Rounding(1000).of(0.5).factor(1.9) != UNTOLD
