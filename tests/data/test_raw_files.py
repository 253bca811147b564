"""The raw UCI files, by column names, give the packaged instances exactly; skipped where the files are not at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from helpers_cli import run
from privfunnel.data import instances, tables
from privfunnel.data.engines import ReadOptions
from privfunnel.errors import SmallSampleWarning

pytest.importorskip("duckdb")

RAW = Path(os.environ.get("PRIVFUNNEL_RAW_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
HEART, CENSUS = RAW / "heart_failure.csv", RAW / "adult.data"
CENSUS_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    not (HEART.exists() and CENSUS.exists()),
    reason="raw UCI files not found: set PRIVFUNNEL_RAW_DATA to the folder that holds them",
)


def heart_failure() -> tables.Counts:
    with pytest.warns(SmallSampleWarning, match="299 rows for 4 × 16 cells"):
        return tables.count(
            HEART,
            private=["sex", "DEATH_EVENT"],
            public=["anaemia", "high_blood_pressure", "diabetes", "smoking"],
        )


def census() -> tables.Counts:
    return tables.count(
        CENSUS,
        private=["age", "income"],
        public=["age", "sex", "education"],
        bins={"age": "bins:5"},
        read=ReadOptions(columns=CENSUS_COLUMNS),
    )


def _named(label: str) -> str:
    """A label as the instance has it: its outer bins name the extremes, which a table's own bins keep to themselves."""
    return label.replace("age=< 32", "age=17-31").replace("age=≥ 76", "age=76-90")


def test_heart_failure_is_the_instance() -> None:
    problem = heart_failure().problem()
    np.testing.assert_array_equal(problem.counts, instances.load("heart-failure").counts)
    assert problem.fingerprint == instances.load("heart-failure").fingerprint


def test_census_income_is_the_instance_up_to_the_order_of_its_labels() -> None:
    problem, instance = census().problem(), instances.load("census-income")
    assert problem.n == 32561
    assert [_named(label) for label in problem.s_labels] == list(instance.s_labels)
    ours = [_named(label).replace("sex=F", "sex=f").replace("sex=M", "sex=m") for label in problem.x_labels]
    assert problem.counts is not None
    assert instance.counts is not None
    np.testing.assert_array_equal(
        problem.counts[:, [ours.index(x) for x in instance.x_labels]], instance.counts
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "arguments", "rows"),
    [
        (HEART, ["--private", "sex,DEATH_EVENT", "--public", "anaemia,high_blood_pressure,diabetes,smoking"], 299),
        (CENSUS, ["--columns", ",".join(CENSUS_COLUMNS), "--private", "age,income", "--public", "age,sex,education",
                  "--bin", "age=5"], 32561),
    ],
    ids=["heart failure", "census income"],
)  # fmt: skip
def test_the_four_commands_run_by_column_names(
    path: Path, arguments: list[str], rows: int, tmp_path: Path
) -> None:
    """The promise for a real table lies in the interval of the audit of a real release of it."""
    pytest.importorskip("sklearn")
    solver = ["--solver", "aem", "--restarts", "1", "--option", "max_steps=100"]
    done = run("curve", path, *arguments, "--points", 3, *solver, "--json")
    assert done.exit_code == 0, done.output
    done = run("solve", path, *arguments, "--disclosure", "60%", *solver, "--out", tmp_path / "design")
    assert done.exit_code == 0, done.output
    reading = arguments[:2] if arguments[0] == "--columns" else []
    mechanism = tmp_path / "design" / "mechanism.json"
    done = run("release", path, *reading, "--mechanism", mechanism, "-o", tmp_path / "r.csv", "--seed", 1,
               "--as", "symbols")  # fmt: skip
    assert done.exit_code == 0, done.output
    done = run("audit", path, tmp_path / "r.csv", *reading, "--mechanism", mechanism, "--bootstrap", 200,
               "--attacker-rows", 2000, "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["rows"] == rows
    assert found["passed"]
    assert found["recount"]["same_table"]
    promised = json.loads(mechanism.read_text())["promise"]
    whole = found["attributes"][-1]["leakage"]
    assert whole["low"] <= promised["leakage"] <= whole["high"]
    assert found["disclosure"]["low"] <= promised["disclosure"] <= found["disclosure"]["high"]
