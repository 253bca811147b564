"""The raw UCI files, by column names, give the packaged instances exactly; skipped where the files are not at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from privfunnel import instances, tables
from privfunnel.engines import ReadOptions
from privfunnel.errors import SmallSampleWarning

pytest.importorskip("duckdb")

RAW = Path(os.environ.get("PRIVFUNNEL_RAW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
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
        bins={"age": "width:5"},
        read=ReadOptions(columns=CENSUS_COLUMNS),
    )


def test_heart_failure_is_the_instance() -> None:
    problem = heart_failure().problem()
    np.testing.assert_array_equal(problem.counts, instances.load("heart-failure").counts)
    assert problem.fingerprint == instances.load("heart-failure").fingerprint


def test_census_income_is_the_instance_up_to_the_order_of_its_labels() -> None:
    problem, instance = census().problem(), instances.load("census-income")
    assert problem.n == 32561
    assert problem.s_labels == instance.s_labels
    ours = [label.replace("sex=F", "sex=f").replace("sex=M", "sex=m") for label in problem.x_labels]
    assert problem.counts is not None
    assert instance.counts is not None
    np.testing.assert_array_equal(
        problem.counts[:, [ours.index(x) for x in instance.x_labels]], instance.counts
    )
