"""Mechanisms with published columns, from the table over the release to the audit; the estimator's guards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import run
from privfunnel import audit, release
from privfunnel.audit.guards import count_again, designed_for
from privfunnel.data import tables
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.strata import Strata

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

pytestmark = [
    pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::privfunnel.errors.GuaranteeWarning"),
]


def rows(n: int = 400, seed: int = 5) -> Any:
    """People of whom a sickness is private; it depends on all public columns."""
    rng = np.random.default_rng(seed)
    sex, age, job = rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 3, n)
    sick = rng.random(n) < 0.15 + 0.2 * (age == job) + 0.15 * sex
    names = {"sex": np.array(["f", "m"])[sex], "age": np.array(["young", "middle", "old"])[age]}
    return pd.DataFrame({"sick": sick, **names, "job": np.array(["a", "b", "c"])[job]})


ROWS = rows()
SEEN = ROWS[~((ROWS.age == "old") & (ROWS.job == "c"))].reset_index(drop=True)


def designed(table: Any = ROWS) -> Mechanism:
    counts = tables.count(table, private=["sick"], public=["sex", "age", "job"])
    solution = pf.solve(counts, disclosure="75%", published=["sex"], gap=1e-3)
    return Mechanism.from_solution(counts, solution)


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return designed()


def test_a_mechanism_knows_what_it_publishes(mechanism: Mechanism, tmp_path: Path) -> None:
    assert mechanism.published == ("sex",)
    mechanism.save(tmp_path / "mechanism.json")
    assert Mechanism.load(tmp_path / "mechanism.json").published == ("sex",)
    strata = Strata.of(mechanism)
    assert len(strata.alphabet) == 2
    assert strata.p_y.sum(axis=1) == pytest.approx([1.0, 1.0])
    # A released symbol belongs to one value of what is published.
    assert ((strata.p_y > 0.0).sum(axis=0) == 1).all()


def test_attackers_who_know_what_is_published_are_counted_again(mechanism: Mechanism) -> None:
    counts = tables.count(ROWS, private=["sick"], public=["sex", "age", "job"])
    claimed = designed_for(mechanism)[0]
    found = count_again(mechanism, counts, mechanism.channel)
    assert found.hold
    assert "sex" in found.leakages
    assert found.leakages == pytest.approx(claimed, abs=1e-9)


def test_records_hold_the_published_column_as_it_is(mechanism: Mechanism) -> None:
    released = release.frame(ROWS, mechanism, keep_order=True, seed=1)
    assert (released["sex"] == ROWS["sex"]).all()
    assert (released["age"] != ROWS["age"]).any()


def test_all_candidates_agree_on_the_published_column(mechanism: Mechanism, tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    release.write(
        tmp_path / "rows.csv", mechanism, tmp_path / "out.csv", form="decoys", keep_order=True, seed=1
    )
    decoys = pd.read_csv(tmp_path / "out.csv")
    told = decoys.groupby("decoy_row")["sex"].agg(["nunique", "first"])
    assert (told["nunique"] == 1).all()
    assert told["first"].tolist() == ROWS["sex"].tolist()
    assert len(decoys) > len(ROWS)


@pytest.mark.parametrize("rule", ["nearest", "marginal"])
def test_rows_that_were_not_seen_stay_in_their_stratum(rule: str) -> None:
    mechanism = designed(SEEN)
    new = ROWS[(ROWS.age == "old") & (ROWS.job == "c")].reset_index(drop=True)
    assert set(new["sex"]) == {"f", "m"}
    released = release.frame(new, mechanism, keep_order=True, seed=2, unseen=rule)
    assert (released["sex"] == new["sex"]).all()


def test_a_published_value_that_is_new_is_drawn_as_if_nothing_were_known(mechanism: Mechanism) -> None:
    new = ROWS.assign(sex="x")
    with pytest.raises(InvalidInputError, match="sex='x' was not seen"):
        release.frame(new, mechanism, seed=2)
    released = release.frame(new, mechanism, seed=2, unseen="marginal")
    assert set(released["sex"]) == {"f", "m"}


def test_the_audit_counts_unseen_rows_as_they_are_drawn() -> None:
    mechanism = designed(SEEN)
    channel, new = audit.promise.channel_for(
        mechanism, tables.count(ROWS, private=["sick"], public=["sex", "age", "job"])
    )
    strata = Strata.of(mechanism)
    assert new.sum() == 2
    for row in channel[new]:
        assert any(np.allclose(row, p_y) for p_y in strata.p_y)


def test_from_the_table_to_the_audit_on_the_command_line(tmp_path: Path) -> None:
    table, design, out = tmp_path / "rows.csv", tmp_path / "design", tmp_path / "out.csv"
    ROWS.to_csv(table, index=False)
    asked = ["--published", "sex", "--disclosure", "75%", "--option", "gap=1e-3", "--out", str(design)]
    assert run("solve", str(table), "--private", "sick", "--public", "sex,age,job", *asked).exit_code == 0
    done = run("release", str(table), "--mechanism", str(design / "mechanism.json"), "-o", str(out))
    assert done.exit_code == 0, done.output
    assert "Published as counted: sex; whoever reads the release knows it of every row." in done.output
    checked = run("audit", str(table), str(out), "--mechanism", str(design / "mechanism.json"), "--bootstrap", "20",
                  "--permutations", "20", "--attacker-rows", "0", "--view", "register")  # fmt: skip
    assert checked.exit_code == 0, checked.output
    assert "The designed promise holds" in checked.output
    assert "100.0 % (sex)" in checked.output


def test_the_estimator_guards_against_attackers_and_publishes() -> None:
    pytest.importorskip("sklearn")
    from privfunnel.learning.estimator import PrivacyFunnel

    quick: dict[str, Any] = {"disclosure": "70%", "solver_options": {"gap": 1e-2}, "output": "records"}
    funnel = PrivacyFunnel(["sick"], published="sex", random_state=1, **quick).fit(ROWS)
    assert funnel.mechanism_.published == ("sex",)
    assert (funnel.transform(ROWS)[:, 0] == ROWS["sex"].to_numpy()).all()
    funnel = PrivacyFunnel(["sick"], known=["sex", [2, "job"]], **quick).fit(ROWS)
    assert set(funnel.solution_.leakages) == {"nothing", "sex", "age, job"}
    most = PrivacyFunnel(["sick"], guarantees=["lip=0.3"], solver_options={"gap": 1e-2}).fit(ROWS)
    assert most.solution_.question.goal == "disclosure"
    assert most.solution_.guaranteed["lip=0.3"] <= 0.3 + 1e-9
    with pytest.raises(InvalidInputError, match="known column 'height'"):
        PrivacyFunnel(["sick"], known=["height"]).fit(ROWS)
    with pytest.raises(InvalidInputError, match="no public column"):
        PrivacyFunnel(["sick"], known=["sick"], disclosure="70%").fit(ROWS)
