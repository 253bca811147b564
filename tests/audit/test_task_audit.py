"""What a release for a task is good for: models trained on it, judged on rows they have not seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import privfunnel as pf
from privfunnel import audit
from privfunnel.app.cli import main
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 2000
    sex, age = rng.integers(0, 2, n), rng.integers(0, 4, n)
    income = (rng.random(n) < 0.1 + 0.25 * age).astype(int)
    town = np.array(["a", "b", "c"])[(2 * sex + rng.integers(0, 2, n)) % 3]
    frame = {"sex": np.array(["f", "m"])[sex], "age": age, "town": town, "income": income}
    return pd.DataFrame(frame)


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    counts = pf.tables.count(rows(), private="sex", public=["age", "town"], task="income")
    return Mechanism.from_solution(counts, pf.solve(counts, utility="90%"))


def test_a_model_trained_on_the_release_nearly_does_the_task(mechanism: Mechanism) -> None:
    (found,) = audit.usefulness(rows(), mechanism, rows=2000)
    assert found.column == "income"
    assert found.release.low <= found.release.value <= found.release.high
    # 90 % of I(U;X) is kept: the release is clearly better than guessing, and no better than the columns but by chance.
    assert found.release.low > found.prior
    assert found.release.value <= found.original.high + 0.02
    assert 0.5 < found.auc <= found.auc_original + 0.02
    assert "AUC" in found.words


def test_another_task_can_be_named_and_one_has_to_be(mechanism: Mechanism) -> None:
    counts = pf.tables.count(rows(), private="sex", public=["age", "town"])
    plain = Mechanism.from_solution(counts, pf.solve(counts, leakage=0))
    assert plain.task == ()
    with pytest.raises(InvalidInputError, match="no task"):
        audit.usefulness(rows(), plain)
    (found,) = audit.usefulness(rows(), plain, task=["income"], rows=500)
    assert found.release.value <= 1.0


def test_the_audit_of_a_design_for_a_task_says_so(mechanism: Mechanism, tmp_path: Path) -> None:
    rows().to_csv(tmp_path / "people.csv", index=False)
    rows().drop(columns="income").to_csv(tmp_path / "without.csv", index=False)
    mechanism.save(tmp_path / "mechanism.json")
    basic = [
        "--mechanism",
        str(tmp_path / "mechanism.json"),
        "--bootstrap",
        "20",
        "--attacker-rows",
        "500",
        "--json",
    ]
    rows().assign(income=range(2000)).to_csv(tmp_path / "other.csv", index=False)
    for name, told in (("people.csv", True), ("without.csv", False), ("other.csv", False)):
        found = CliRunner().invoke(main, ["audit", str(tmp_path / name), *basic])
        assert found.exit_code == 0, found.output
        assert ("tasks" in json.loads(found.stdout)) is told
        assert ("nothing is said of the task" in found.stderr) is (name == "other.csv")


def test_in_a_pipeline_the_target_is_the_task() -> None:
    frame = rows()
    funnel = pf.PrivacyFunnel(private=["sex"], utility="80%")
    with pytest.raises(InvalidInputError, match="pass y to fit"):
        funnel.fit(frame.drop(columns="income"))
    funnel.fit(frame.drop(columns="income"), frame["income"])
    assert funnel.mechanism_.task == ("income",)
    assert funnel.solution_.utility >= 0.8 * funnel.solution_.problem.utility_ceiling - 1e-9
    assert funnel.transform(frame.drop(columns="income")).shape == (len(frame), 1)
    with pytest.raises(InvalidInputError, match="not both"):
        pf.PrivacyFunnel(private=["sex"], utility="80%", leakage=0).fit(
            frame.drop(columns="income"), frame["income"]
        )
