"""A real local Spark: the same counts as DuckDB, and the same sampler on its executors."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from documents import blocks
from funnels import count_people, people, random_mechanism
from privfunnel import release, solve
from privfunnel.data import class_tables, tables
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.release.mechanism import Mechanism
from wide import wide_columns

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java: Spark cannot start"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning"),
]

ROWS = people(4000, seed=3)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip(
        "pyspark.sql", reason="pyspark is not installed: pip install 'privfunnel[spark]'"
    )
    folder = tmp_path_factory.mktemp("spark")
    here = str(Path(__file__).resolve().parents[2] / "src")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("privfunnel tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.executorEnv.PYTHONPATH", here)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(pa.table(ROWS)).repartition(3)


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return random_mechanism(count_people(pa.table(ROWS)))


def test_spark_and_duckdb_count_alike(frame: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(ROWS), tmp_path / "people.parquet")
    expected = count_people(tmp_path / "people.parquet")
    found = count_people(frame)
    assert found.fingerprint == expected.fingerprint
    assert found.n == 4000
    options: dict[str, Any] = {
        "private": "sick",
        "public": ["age", "town"],
        "bins": {"age": "quantiles:4", "town": "top:1"},
    }
    assert (
        tables.count(frame, **options).fingerprint
        == tables.count(tmp_path / "people.parquet", **options).fingerprint
    )


def test_spark_weighs_rows_and_leaves_incomplete_ones_out(spark: Any) -> None:
    rows = {**ROWS, "town": [None if i % 5 == 0 else town for i, town in enumerate(ROWS["town"])]}
    options: dict[str, Any] = {"private": "sick", "public": "town", "weights": "age", "missing": "drop"}
    found, expected = (
        tables.count(table, **options) for table in (spark.createDataFrame(pa.table(rows)), pa.table(rows))
    )
    assert (found.dropped, found.n_rows, found.n) == (expected.dropped, expected.n_rows, expected.n)
    assert found.dropped >= 800
    assert found.fingerprint == expected.fingerprint


def test_spark_refuses_like_the_others(frame: Any) -> None:
    with pytest.raises(InvalidInputError, match="'age' is a number with 62 different values"):
        tables.count(frame, private="sick", public="age")
    with pytest.raises(InvalidInputError, match="did you mean 'town'"):
        tables.count(frame, private="sick", public="twon")


def test_rows_are_drawn_on_the_executors(spark: Any, frame: Any, mechanism: Mechanism) -> None:
    released = release.frame(frame, mechanism, form="symbols")
    assert released.columns == ["released"]
    counted = {row["released"]: row["count"] for row in released.groupBy("released").count().collect()}
    assert sum(counted.values()) == 4000
    frequency = np.array([counted.get(label, 0) for label in mechanism.y_labels]) / 4000
    assert np.abs(frequency - mechanism.p_y).max() < 6 * np.sqrt(0.25 / 4000)


def test_records_keep_their_schema_and_named_columns(frame: Any, mechanism: Mechanism) -> None:
    with pytest.warns(GuaranteeWarning, match="kept"):
        records = release.frame(frame, mechanism, form="records", keep=["id"])
    assert [(field.name, field.dataType.typeName()) for field in records.schema] == [
        ("age", "long"), ("town", "string"), ("member", "boolean"), ("id", "string"),
    ]  # fmt: skip
    rows = records.collect()
    assert sorted(row["id"] for row in rows) == sorted(ROWS["id"])
    assert len({row["age"] for row in rows}) == 3
    assert [row["id"] for row in rows] != ROWS["id"]  # sorted by random keys


def test_a_seed_repeats_the_draws_partition_by_partition(frame: Any, mechanism: Mechanism) -> None:
    fixed = frame.coalesce(1).orderBy("id")
    draws = []
    for _ in range(2):
        with pytest.warns(GuaranteeWarning, match="seed=4"):
            draws.append(
                [row["released"] for row in release.frame(fixed, mechanism, seed=4, form="symbols").collect()]
            )
    assert draws[0] == draws[1]


def test_unseen_rows_are_counted_by_an_accumulator(spark: Any, mechanism: Mechanism) -> None:
    strange = spark.createDataFrame(
        pa.table({"age": [20, 99, 30], "town": ["north", "north", "mars"], "member": [True, False, True]})
    )
    counter = spark.sparkContext.accumulator(0)
    out = release.frame(strange, mechanism, unseen="drop", on_unseen=counter.add).collect()
    assert len(out) == 1
    assert counter.value == 2


def test_rows_of_a_cluster_do_not_come_to_the_driver(
    frame: Any, mechanism: Mechanism, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="stay on its cluster"):
        release.write(frame, mechanism, tmp_path / "o.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_block_of_the_stewards_tutorial_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    rows = [
        (str(income), str(sex), f"level-{(2 * income + education) % 4}")
        for income, sex, education in rng.integers([2, 2, 4], size=(400, 3)).tolist()
    ]
    names = {"spark_frame": spark.createDataFrame(rows, ["income", "sex", "education"])}
    monkeypatch.chdir(tmp_path)
    *_, block = blocks("tutorial-steward.md", "python")
    # Spark's own process was started elsewhere, and stays there: its output needs the whole path.
    assert block.count('"released"') == 1
    block = block.replace('"released"', repr(str(tmp_path / "released")))
    exec(compile(block, "tutorial-steward.md", "exec"), names)
    assert spark.read.parquet(str(tmp_path / "released")).count() == len(rows)


def test_a_person_is_drawn_alike_on_every_executor(frame: Any, mechanism: Mechanism) -> None:
    def per_person(released: Any) -> list[int]:
        lines: dict[int, set[str]] = {}
        for row in released.collect():
            lines.setdefault(row["member_of"], set()).add(row["released"])
        return [len(found) for found in lines.values()]

    alike = frame.limit(1).crossJoin(
        frame.sparkSession.range(600, numPartitions=4).selectExpr("id % 50 AS member_of")
    )
    options: dict[str, Any] = {"form": "symbols", "keep": ["member_of"]}
    with pytest.warns(GuaranteeWarning, match="kept"):
        once = release.frame(alike, mechanism, person="member_of", **options)
    with pytest.warns(GuaranteeWarning, match="kept"):
        each = release.frame(alike, mechanism, **options)
    assert per_person(once) == [1] * 50
    assert max(per_person(each)) > 1


def test_sticky_draws_on_executors_are_those_of_any_other_engine(
    frame: Any, mechanism: Mechanism, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"form": "symbols", "keep": ["id"], "series": "monthly", "id": "id"}
    with pytest.warns(GuaranteeWarning, match="kept"):
        spark = release.frame(frame, mechanism, sticky=tmp_path / "k.key", **options)
    with pytest.warns(GuaranteeWarning, match="kept"):
        here = release.frame(pa.table(ROWS), mechanism, sticky=tmp_path / "k.key", **options)
    told = {row["id"]: row["released"] for row in spark.collect()}
    assert told == {row["id"]: row["released"] for row in here.to_pylist()}
    with pytest.raises(InvalidInputError, match="does not tell them apart"), pytest.warns(GuaranteeWarning):
        release.frame(frame.union(frame), mechanism, sticky=tmp_path / "k.key", **options)


@pytest.mark.filterwarnings("ignore:decoys name combinations:privfunnel.errors.GuaranteeWarning")
def test_decoys_are_made_on_the_executors_and_read_back(frame: Any, mechanism: Mechanism) -> None:
    released = release.frame(frame, mechanism, form="decoys", keep_order=False)
    found = released.toArrow().to_pydict()
    assert list(found) == ["decoy_row", *mechanism.public_names, "decoy_weight"]
    rows, place = np.unique(found["decoy_row"], return_inverse=True)
    assert len(rows) == 4000
    np.testing.assert_allclose(np.bincount(place, found["decoy_weight"]), 1.0)
    # Lines of one row stay together, and rows have random numbers.
    assert int((np.diff(found["decoy_row"]) != 0).sum()) == 3999
    assert max(rows) > 2**60


@pytest.mark.filterwarnings("ignore:decoys name combinations:privfunnel.errors.GuaranteeWarning")
def test_classes_are_counted_and_released_on_the_cluster(spark: Any) -> None:
    """The driver sees classes only; a candidate of every row is its own record, as often as it is in the table."""
    rows = pa.table(wide_columns(1500)).append_column("none", pa.nulls(1500, pa.string()))
    public = ["a", "b", "c", "none"]
    frame = spark.createDataFrame(rows)
    counts = class_tables.count(frame, private="ill", public=public)
    here = class_tables.count(rows, private="ill", public=public)
    assert counts.table.tolist() == here.table.tolist()
    assert (counts.members.tolist(), counts.few) == (here.members.tolist(), here.few)
    solution = solve(counts.problem(), disclosure=counts.inner(0.97 * counts.h_x))
    with pytest.warns(GuaranteeWarning, match="seed=3 makes the draws predictable"):
        decoys = release.by_classes(frame, counts, solution, form="decoys", seed=3)
    assert decoys.columns == ["decoy_row", *public, "decoy_weight"]
    lines = decoys.toPandas()
    assert lines["decoy_weight"].groupby(lines["decoy_row"]).sum().between(1.0 - 1e-9, 1.0 + 1e-9).all()
    assert lines["decoy_row"].nunique() == 1500
    truth = rows.to_pandas().groupby(["a", "b", "c"]).size()
    named = lines.groupby(["a", "b", "c"]).size()
    assert (named >= truth).all()  # every row is among its own candidates
    assert named.index.equals(truth.index)  # and nobody else is named
    assert release.by_classes(frame, counts, solution, form="records").columns == public
