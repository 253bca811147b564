"""Every variant of a question through every verb: solve, trace, store, verify, release by a mechanism, audit, report.

What a verb does for one kind of question it does for all: a row that fails here is a branch that somebody forgot.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import audit, release, report
from privfunnel.certificate import load_bundle, save_bundle
from privfunnel.data import tables
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.curve import Curve
from privfunnel.solving.solution import Solution

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

QUICK = {"gap": 1e-3, "time_limit": 600.0}
#: What is asked, what of it a curve is told, and the axis of that curve; with a task where one is named.
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "disclosure": ({"disclosure": "70%"}, {}, "disclosure"),
    "budget": ({"leakage": 0.005}, {}, "disclosure"),
    "nothing may leak": ({"leakage": 0}, {}, "disclosure"),
    "budgets of columns": ({"leakage": {"ill": 0.01, "sex": 0.01}, **QUICK}, {}, ""),
    "known": ({"disclosure": "70%", "known": ["town"], **QUICK}, {"known": ["town"], **QUICK}, "disclosure"),
    "published": ({"disclosure": "70%", "published": ["town"], **QUICK}, {"published": ["town"], **QUICK},
                  "disclosure"),
    "guarantee": ({"disclosure": "40%", "guarantees": ["lift=1"], **QUICK}, {"guarantees": ["lift=1"], **QUICK},
                  "disclosure"),
    "guarantee alone": ({"guarantees": ["lip=0.3"], **QUICK}, {"guarantees": ["lip=0.3"], **QUICK}, "disclosure"),
    "measure": ({"disclosure": "70%", "measure": "chi-squared", **QUICK}, {"measure": "chi-squared", **QUICK},
                "disclosure"),
    "task": ({"utility": "60%"}, {}, "utility"),
    "task, budget": ({"leakage": 0.002}, {}, "utility"),
    "guarded task": ({"utility": "60%", "known": ["town"], **QUICK}, {"known": ["town"], **QUICK}, "utility"),
    "distortion": ({"distortion": 0.2}, {}, "distortion"),
    "invariant distortion": ({"distortion": 0.2, "invariant": True}, {"invariant": True}, "distortion"),
}  # fmt: skip


def table() -> Any:
    """Nine hundred people: what is private depends on where they live and what they have, and so does a task."""
    rng = np.random.default_rng(4)
    town, plan = rng.integers(0, 3, 900), rng.integers(0, 3, 900)
    ill = rng.random(900) < 0.2 + 0.15 * town
    works = rng.random(900) < 0.2 + 0.25 * plan
    sex = rng.integers(0, 2, 900)
    return pa.table({
        "ill": np.where(ill, "yes", "no"), "sex": np.where(sex == 1, "f", "m"),
        "town": np.array(["Bonn", "Ulm", "Jena"])[town], "plan": np.array(["a", "b", "c"])[plan],
        "works": np.where(works, "yes", "no"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def people() -> Any:
    return table()


def counted(people: Any, name: str) -> tables.Counts:
    task = {"task": "works"} if "task" in name else {}
    return tables.count(people, private=["ill", "sex"], public=["town", "plan"], **task)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_goes_through_every_verb(name: str, people: Any, tmp_path: Path) -> None:
    asked, told, axis = VARIANTS[name]
    counts = counted(people, name)
    found = pf.solve(counts, **asked)
    assert found.status is pf.Status.OPTIMAL
    assert found.question.axis.value == (axis or "disclosure")

    found.save(tmp_path / "s.json")
    again = Solution.load(tmp_path / "s.json")
    assert (again.status, again.question.to_dict()) == (found.status, found.question.to_dict())
    assert (again.leakage, again.bound) == pytest.approx((found.leakage, found.bound), abs=1e-12)
    if found.certificate is not None:
        save_bundle(tmp_path / "c.npz", [found.certificate])
        (proof,) = load_bundle(tmp_path / "c.npz")
        proof.verify(found.problem)
        assert proof.claim.left_over(found.problem, found.channel) >= -1e-6

    mechanism = Mechanism.from_solution(counts, found)
    mechanism.save(tmp_path / "m.json")
    mechanism = Mechanism.load(tmp_path / "m.json")
    form = "records" if axis == "distortion" else "symbols"
    done = release.write(people, mechanism, tmp_path / "r.csv", form=form, seed=3)
    assert done.rows == 900
    audited = audit.table(people, mechanism)
    assert audited.passed, audited.words
    html = report.render(mechanism, report.Report(audit=audited))
    assert "<!DOCTYPE html>" in html

    if axis:
        curve = pf.trace(counts, points=3, along=axis, **told)
        assert len(curve.solutions) == 3
        curve.save(tmp_path / "curve.json")
        assert Curve.load(tmp_path / "curve.json").leakage.tolist() == pytest.approx(curve.leakage, abs=1e-12)
        assert "<!DOCTYPE html>" in report.render(curve)
        assert found.leakage >= curve.proved(found.values.of(found.question.axis)) - 1e-9
