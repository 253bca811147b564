"""The order of a release: shuffled so that no row's place tells anything, and known to the steward alone."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from funnels import count_people, people, random_mechanism
from privfunnel import audit, release
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.order import Order, load
from privfunnel.release.randomness import secure, seeded
from privfunnel.release.shuffling import Shuffle
from privfunnel.release.weakening import _Counting, depends_on_place

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

QUICK: dict[str, Any] = {"bootstrap": 20, "permutations": 0, "attacker_rows": 0}


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return random_mechanism(count_people(pa.table(people())))


def sorted_people(n: int = 2000) -> Any:
    """A table sorted by a private column, as files of patients often are."""
    table = pa.table(people(n))
    return table.take(np.argsort(np.array(table["sick"].to_pylist()), kind="stable"))


# --- shuffles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_rows", [10**6, 500])
def test_a_shuffle_is_a_permutation_whether_in_memory_or_on_disk(tmp_path: Path, memory_rows: int) -> None:
    with Shuffle(tmp_path, secure, memory_rows) as shuffle:
        for start in range(0, 3000, 300):
            numbers = np.arange(start, start + 300)
            shuffle.add([pa.array(numbers * 2), pa.array([f"t{i}" for i in numbers])], numbers)
        assert bool(list(tmp_path.iterdir())) == (memory_rows == 500)
        parts = list(shuffle.shuffled())
    rows = np.concatenate([positions for _, positions in parts])
    assert sorted(rows.tolist()) == list(range(3000))
    assert [v for arrays, _ in parts for v in arrays[0].to_pylist()] == (rows * 2).tolist()
    assert [v for arrays, _ in parts for v in arrays[1].to_pylist()] == [f"t{i}" for i in rows]
    assert list(tmp_path.iterdir()) == []


def test_the_order_does_not_depend_on_how_many_rows_are_divided_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for spilled in (1, 500, 10**6):
        monkeypatch.setattr("privfunnel.release.shuffling.SPILLED_ROWS", spilled)
        with Shuffle(tmp_path, seeded(3), 100) as shuffle:
            for start in range(0, 900, 90):
                texts = pa.array([f"t{i % (start + 1)}" for i in range(90)]).dictionary_encode()
                shuffle.add([texts], np.arange(start, start + 90))
            shuffle.add([texts.slice(0, 0)], np.zeros(0, dtype=np.int64))  # rows may all be dropped
            parts = list(shuffle.shuffled())
        found.append(
            [(a, int(b)) for (texts,), rows in parts for a, b in zip(texts.to_pylist(), rows, strict=True)]
        )
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 900


@pytest.mark.parametrize(("rows", "memory_rows", "trials"), [(4, 10**6, 3000), (3, 2, 36)])
def test_every_permutation_is_as_likely(tmp_path: Path, rows: int, memory_rows: int, trials: int) -> None:
    uniforms = seeded(5)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(trials):
        with Shuffle(tmp_path, uniforms, memory_rows) as shuffle:
            for i in range(rows):
                shuffle.add([pa.array([i])], np.array([i]))
            found = tuple(int(i) for _, positions in shuffle.shuffled() for i in positions)
        seen[found] = seen.get(found, 0) + 1
    orders = math.factorial(rows)
    expected = trials / orders
    statistic = sum((n - expected) ** 2 / expected for n in [*seen.values(), *[0] * (orders - len(seen))])
    assert statistic < chi2.isf(1 / 30_000, orders - 1)


def test_buckets_are_for_the_user_alone_and_gone_after_an_error(tmp_path: Path) -> None:
    modes = []

    def fail() -> None:
        with Shuffle(tmp_path, secure, 1) as shuffle:
            shuffle.add([pa.array([1, 2])], np.array([0, 1]))
            modes.extend(folder.stat().st_mode & 0o777 for folder in tmp_path.iterdir())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert modes == [0o700]
    assert list(tmp_path.iterdir()) == []


# --- releases ---------------------------------------------------------------------------------------------------


def test_a_release_is_shuffled_and_its_order_is_the_stewards(mechanism: Mechanism, tmp_path: Path) -> None:
    table = sorted_people()
    with pytest.warns(GuaranteeWarning, match="kept columns"):
        summary = release.write(table, mechanism, tmp_path / "r.parquet", keep=["id"])
    assert summary.order == tmp_path / "r.order"
    assert summary.order.stat().st_mode & 0o777 == 0o600
    order = load(summary.order)
    ids = pq.read_table(tmp_path / "r.parquet")["id"].to_pylist()
    assert [table["id"][int(row)].as_py() for row in order.rows] == ids
    assert (order.rows != np.arange(2000)).mean() > 0.9
    restored, released = order.restore(np.array(ids))
    assert restored.tolist() == table["id"].to_pylist()
    assert released.all()


def test_a_rows_place_tells_nothing_of_a_sorted_table(mechanism: Mechanism, tmp_path: Path) -> None:
    table = sorted_people()
    release.write(table, mechanism, tmp_path / "r.csv")
    sick = np.array(table["sick"].to_pylist())
    assert depends_on_place(sick.astype(np.int64), np.random.default_rng(0))
    by_line = sick[load(tmp_path / "r.order").rows]
    # The attacker cuts the file where the table changes from well to sick: right by chance alone.
    guessed = np.arange(2000) >= 2000 - sick.sum()
    base = sick.mean() ** 2 + (1 - sick.mean()) ** 2
    assert abs((guessed == by_line).mean() - base) < 6 * 0.5 / np.sqrt(2000)


def test_several_files_of_one_draw_share_an_order(mechanism: Mechanism, tmp_path: Path) -> None:
    files = {tmp_path / "a.csv": "records", tmp_path / "b.parquet": "records"}
    summary = release.write_all(sorted_people(), mechanism, files, numbers="interval")
    assert summary.order == tmp_path / "a.order"
    with (tmp_path / "a.csv").open(newline="") as file:
        ages = [row["age"] for row in csv.DictReader(file)]
    assert ages == pq.read_table(tmp_path / "b.parquet")["age"].to_pylist()


@pytest.mark.parametrize("form", ["records", "symbols"])
def test_an_audit_finds_the_order_beside_the_release(mechanism: Mechanism, tmp_path: Path, form: str) -> None:
    table = sorted_people()
    with pytest.warns(GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "r.parquet", form=form, seed=1)
    found = audit.release(table, tmp_path / "r.parquet", mechanism=mechanism, **QUICK)
    assert found.passed
    (tmp_path / "r.order").rename(tmp_path / "elsewhere")
    lost = audit.release(table, tmp_path / "r.parquet", mechanism=mechanism, **QUICK)
    assert not lost.passed  # rows that are matched wrongly are no draws of the mechanism
    again = audit.release(
        table, tmp_path / "r.parquet", mechanism=mechanism, order=tmp_path / "elsewhere", **QUICK
    )
    assert again.passed
    with pytest.raises(InvalidInputError, match="the order file is for a table of 2000 rows"):
        audit.release(table.slice(0, 1990), tmp_path / "r.parquet", mechanism=mechanism,
                      order=tmp_path / "elsewhere", **QUICK)  # fmt: skip


def test_dropped_rows_are_left_out_of_the_match(mechanism: Mechanism, tmp_path: Path) -> None:
    rows = people()
    rows["age"][3] = rows["age"][700] = 99
    table = pa.table(rows)
    with pytest.warns(GuaranteeWarning):
        release.write(table, mechanism, tmp_path / "r.parquet", unseen="drop", seed=1)
    order = load(tmp_path / "r.order")
    assert (len(order.rows), order.original_rows) == (1998, 2000)
    assert not {3, 700} & set(order.rows.tolist())
    lines = order.lines()
    assert lines[3] == lines[700] == -1


def test_a_frame_is_shuffled_and_tells_its_order_to_whom_it_may_concern(mechanism: Mechanism) -> None:
    table, told = sorted_people(), []
    with pytest.warns(GuaranteeWarning, match="seed"):
        frame = release.frame(table, mechanism, seed=2, on_order=told.append)
    with pytest.warns(GuaranteeWarning, match="seed|keep_order"):
        kept = release.frame(pa.table(people()), mechanism, seed=2, keep_order=True)
    assert frame.num_rows == kept.num_rows == 2000
    (order,) = told
    assert audit.release(table, frame, mechanism=mechanism, order=order, **QUICK).passed


def test_the_threshold_of_a_release_reaches_the_audit(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    town = rng.choice(["a", "b", "c"], 600, p=[0.49, 0.49, 0.02])
    table = pa.table({"town": town, "s": rng.integers(0, 2, 600)})
    mechanism = random_mechanism(tables.count(table, private="s", public="town"), n_y=3)
    with pytest.warns(GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "r.csv", threshold=50, seed=3)
    assert set((tmp_path / "r.csv").read_text().split()[1:]) == {"a", "b", "(other)"}
    assert load(tmp_path / "r.order").threshold == 50
    assert audit.release(table, tmp_path / "r.csv", mechanism=mechanism, **QUICK).n_y == 3


# --- order files ------------------------------------------------------------------------------------------------


def test_order_files_are_what_their_page_says(mechanism: Mechanism, tmp_path: Path) -> None:
    release.write(pa.table(people()), mechanism, tmp_path / "r.csv")
    first, _, rest = (tmp_path / "r.order").read_bytes().partition(b"\n")
    header = json.loads(first)
    assert header == {"schema": "privfunnel/order", "version": 1, "rows": 2000, "original_rows": 2000, "type": "<u4",
                      "threshold": 5}  # fmt: skip
    assert sorted(np.frombuffer(rest, "<u4").tolist()) == list(range(2000))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda raw: b"", "no complete order file"),
        (lambda raw: b"\x00" * 10_000, "no complete order file"),
        (lambda raw: raw[:-1], "no complete order file"),
        (lambda raw: raw + b"1234", "no complete order file"),
        (lambda raw: raw.replace(b"<u4", b"<f4"), "no complete order file"),
        (lambda raw: raw[:-4] + raw[-8:-4], "no complete order file"),
        (lambda raw: raw[:-4] + b"\xff\xff\xff\xff", "no complete order file"),
        (lambda raw: raw.replace(b'"version": 1', b'"version": 9'), "version 9 cannot be read"),
        (lambda raw: b"{}\n", "not a privfunnel/order file"),
    ],
)
def test_broken_order_files_are_refused_in_one_line(
    mechanism: Mechanism, tmp_path: Path, change: Any, match: str
) -> None:
    release.write(pa.table(people(100)), mechanism, tmp_path / "r.csv", unseen="error")
    path = tmp_path / "r.order"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InvalidInputError, match=match) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="cannot read"):
        load(tmp_path / "none.order")


def test_an_order_of_another_release_is_refused() -> None:
    order = Order(np.array([1, 0], dtype=np.uint64), 2)
    with pytest.raises(InvalidInputError, match="has 2 lines and the release 3"):
        order.restore(np.zeros(3))


# --- places that tell -------------------------------------------------------------------------------------------


def test_the_order_is_kept_only_where_it_tells_nothing(mechanism: Mechanism, tmp_path: Path) -> None:
    with (
        pytest.warns(GuaranteeWarning, match="the rows stay in their order"),
        pytest.raises(InvalidInputError, match="keep_order would tell 'sick', which depends on the place"),
    ):
        release.write(sorted_people(), mechanism, tmp_path / "r.csv", keep_order=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(GuaranteeWarning, match="the rows stay in their order"):
        summary = release.write(pa.table(people()), mechanism, tmp_path / "r.csv", keep_order=True)
    assert summary.order is None
    assert not (tmp_path / "r.order").exists()
    with pytest.raises(InvalidInputError, match="there is no order file"):
        release.write(pa.table(people()), mechanism, tmp_path / "s.csv", keep_order=True, order="x.order")


def test_a_kept_key_that_counts_the_rows_gives_no_order_back(mechanism: Mechanism, tmp_path: Path) -> None:
    table = sorted_people()
    counting = table.set_column(0, "id", pa.array([f"case {i}" for i in range(2000)]))
    with (
        pytest.warns(GuaranteeWarning, match="kept columns"),
        pytest.raises(
            InvalidInputError, match="the kept column 'id', which counts the rows, would tell 'sick'"
        ),
    ):
        release.write(counting, mechanism, tmp_path / "r.csv", keep=["id"])
    with pytest.warns(GuaranteeWarning, match=r"kept columns \(id\) (count the rows|are copied)"):
        release.write(pa.table(people()), mechanism, tmp_path / "r.csv", keep=["id"])
    assert (tmp_path / "r.csv").exists()


def test_the_test_of_places_accuses_few_honest_columns() -> None:
    rng = np.random.default_rng(4)
    accused = sum(depends_on_place(rng.integers(0, 3, 400), rng) for _ in range(60))
    assert accused <= 2  # expected 0.12
    waves = (np.arange(400) // 10) % 2
    assert depends_on_place(waves, rng)
    pairs = np.repeat(rng.integers(0, 2, 400), 2)
    assert depends_on_place(pairs, rng)
    assert not depends_on_place(np.zeros(400, dtype=np.int64), rng)
    assert not depends_on_place(np.arange(5), rng)


# --- spreadsheets -----------------------------------------------------------------------------------------------


def test_texts_that_a_spreadsheet_would_compute_are_neutralised(tmp_path: Path) -> None:
    texts = ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "plain", None]
    table = pa.table({"=name": texts * 50, "s": ["p", "q"] * 150, "note": ["=1+1", "fine"] * 150})
    mechanism = random_mechanism(tables.count(table, private="s", public="=name"), n_y=3)
    with pytest.warns(GuaranteeWarning, match="kept|seed"):
        release.write(table, mechanism, tmp_path / "r.csv", keep=["note"], seed=0)
    with (tmp_path / "r.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=name", "note"]
    assert {row[0] for row in rows} == {"'=HYPERLINK(1)", "'+1", "'-1", "'@SUM(A1)", "plain", ""}
    assert {row[1] for row in rows} == {"'=1+1", "fine"}
    found = audit.release(table, tmp_path / "r.csv", mechanism=mechanism, **QUICK)
    assert found.rows == 300
    with pytest.warns(GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "raw.csv", raw_text=True, seed=0)
    assert "=HYPERLINK" in (tmp_path / "raw.csv").read_text().replace("'", "|")
    assert "'" not in (tmp_path / "raw.csv").read_text()
    with pytest.warns(GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "p.parquet", seed=0)
    assert "=HYPERLINK(1)" in pq.read_table(tmp_path / "p.parquet")["=name"].to_pylist()


@pytest.mark.parametrize(("values", "ordered"), [((1, 2, 5), True), ((5, 2, 1), True), ((1, 5, 2), False)])
def test_a_column_that_counts_rows_is_noticed_however_few_a_batch_has(
    values: tuple[int, ...], ordered: bool
) -> None:
    counting = _Counting()
    for value in values:
        counting.add(pa.array([value]))
    assert counting.ordered == ordered
