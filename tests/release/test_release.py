"""Releases: the draws follow the channel, files are whole or absent, and nothing private gets out."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import count_people, people, random_mechanism
from helpers_signals import hang_up
from privfunnel import release
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, InvalidInputError, SmallSampleWarning
from privfunnel.infra import storage
from privfunnel.release import codebook
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.order import load
from privfunnel.solving.point import solve

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
nw = pytest.importorskip("narwhals")

ROWS = people()


@pytest.fixture(scope="module")
def counts() -> tables.Counts:
    return count_people(pa.table(ROWS))


@pytest.fixture(scope="module")
def mechanism(counts: tables.Counts) -> Mechanism:
    return random_mechanism(counts)


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(ROWS), path)
    return str(path)


def x_of(rows: dict[str, list[Any]], mechanism: Mechanism) -> np.ndarray:
    return mechanism.x_alphabet.recogniser()(mechanism.x_alphabet.encode(pa.table(rows)))


# --- the draws --------------------------------------------------------------------------------------------------


def test_a_release_follows_its_channel(mechanism: Mechanism, tmp_path: Path) -> None:
    rows = people(60_000, seed=5)
    source = pa.table(rows)
    release.write(source, mechanism, tmp_path / "out.parquet", form="symbols", unseen="marginal")
    lines = np.array(pq.read_table(tmp_path / "out.parquet")["released"].to_pylist())
    released, _ = load(tmp_path / "out.order").restore(lines)
    x, y = x_of(rows, mechanism), np.array([mechanism.y_labels.index(symbol) for symbol in released])
    table = np.zeros(mechanism.channel.shape)
    seen = x >= 0
    np.add.at(table, (x[seen], y[seen]), 1.0)
    n = table.sum(axis=1, keepdims=True)
    slack = 6.0 * np.sqrt(mechanism.channel * (1 - mechanism.channel) / n) + 1.0 / n
    assert (np.abs(table / n - mechanism.channel) <= slack).all()
    assert (table[mechanism.channel == 0.0] == 0.0).all()


def test_records_are_drawn_from_the_posterior(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    with pytest.warns(GuaranteeWarning, match="seed=3"):
        release.write(source, mechanism, tmp_path / "r.parquet", form="records", numbers="interval", seed=3)
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.column_names == ["age", "town", "member"]
    assert table.schema.field("member").type == pa.bool_()
    codes = [column.encode(table[column.name].combine_chunks()) for column in mechanism.public[1:]]
    ages = np.array([mechanism.public[0].values.index(label) for label in table["age"].to_pylist()])
    drawn = mechanism.x_alphabet.recogniser()([ages, *codes])
    assert (drawn >= 0).all()
    # p(x') = Σ_y p(y) p(x'|y) = p(x'): the public marginal is kept.
    frequency = np.bincount(drawn, minlength=len(mechanism.p_x)) / len(drawn)
    assert np.abs(frequency - mechanism.p_x).max() < 6 * np.sqrt(mechanism.p_x.max() / len(drawn))


@pytest.mark.parametrize(
    ("numbers", "kind"), [("mean", "int64"), ("midpoint", "int64"), ("draw", "int64"), ("interval", "string")]
)
def test_records_write_bins_as_asked(
    mechanism: Mechanism, source: str, tmp_path: Path, numbers: str, kind: str
) -> None:
    release.write(source, mechanism, tmp_path / "r.parquet", form="records", numbers=numbers)
    ages = pq.read_table(tmp_path / "r.parquet")["age"]
    assert str(ages.type) == kind
    values = set(ages.to_pylist())
    if numbers == "mean":
        means = [
            np.mean([a for a in ROWS["age"] if low <= a < high])
            for low, high in ((18, 40), (40, 60), (60, 81))
        ]
        assert sorted(values) == pytest.approx(means, abs=1.0)  # a twentieth of a bin
    elif numbers == "midpoint":
        assert values == {28, 49, 70}
    elif numbers == "draw":
        assert min(values) == 18
        assert max(values) == 80
        assert len(values) == 63
        assert np.mean(ages.to_pylist()) == pytest.approx(
            np.mean(ROWS["age"]), abs=6 * 18 / np.sqrt(2000) + 0.5
        )
    else:
        assert values == {"18-39", "40-59", "60-80"}


def test_an_unknown_way_to_write_a_bin_is_refused(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="numbers='half' is unknown"):
        release.write(source, mechanism, tmp_path / "s.parquet", form="records", numbers="half")


# --- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["symbols", "records"])
def test_a_csv_reads_back_with_nulls_and_awkward_texts(
    mechanism: Mechanism, source: str, tmp_path: Path, form: str
) -> None:
    report = release.write(source, mechanism, tmp_path / "out.csv", form=form)
    assert (report.rows, report.written, report.unseen) == (2000, 2000, {})
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2000
    if form == "symbols":
        assert {row["released"] for row in rows} <= set(mechanism.y_labels)
        assert '"' not in (tmp_path / "out.csv").read_text()
    else:
        assert {row["town"] for row in rows} == {"north", "south, by the sea", ""}
        read = duckdb.read_csv(str(tmp_path / "out.csv"), allow_quoted_nulls=False)
        towns = dict(read.aggregate("town, count(*)").fetchall())
        assert set(towns) == {"north", "south, by the sea", "", None}


def test_symbols_are_tallied(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    done: list[int] = []
    report = release.write(
        source, mechanism, tmp_path / "o.parquet", form="symbols", batch_rows=300, progress=done.append
    )
    released = pq.read_table(tmp_path / "o.parquet")["released"].to_pylist()
    assert [released.count(label) for label in mechanism.y_labels] == list(report.symbols)
    assert done == [*range(300, 2000, 300), 2000]
    assert report.seed is None


def test_the_same_seed_repeats_a_release_and_no_seed_does_not(
    mechanism: Mechanism, source: str, tmp_path: Path
) -> None:
    texts = []
    for i, seed in enumerate([7, 7, None, None]):
        if seed is None:
            release.write(source, mechanism, tmp_path / f"{i}.csv", seed=seed)
        else:
            with pytest.warns(GuaranteeWarning, match="predictable"):
                release.write(source, mechanism, tmp_path / f"{i}.csv", seed=seed)
        texts.append((tmp_path / f"{i}.csv").read_text())
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_the_codebook_lies_beside_the_release(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    report = release.write(source, mechanism, tmp_path / "out.csv")
    assert report.codebook == tmp_path / "out.codebook.json"
    book = json.loads(report.codebook.read_text())
    assert [entry["symbol"] for entry in book["symbols"]] == list(mechanism.y_labels)
    for j, entry in enumerate(book["symbols"]):
        assert abs(entry["p_y"] - mechanism.p_y[j]) <= book["p_y_step"] / 2
        for of, labels, exact in (
            ("p_x_given_y", mechanism.x_labels, mechanism.p_x_given_y),
            ("p_s_given_y", mechanism.s_labels, mechanism.p_s_given_y),
        ):
            step = entry[f"{of}_step"]
            assert step * 2000 * mechanism.p_y[j] >= 5.0  # a step is worth five persons
            for i, label in enumerate(labels):
                if label in entry[of]:
                    assert abs(entry[of][label] - exact[i, j]) <= step / 2 + 1e-9
    release.write(source, mechanism, tmp_path / "b.csv", codebook=tmp_path / "b.book.csv")
    with (tmp_path / "b.book.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    private = [line for line in lines if line["of"] == "private"]
    total = sum(float(line["p_y"]) * float(line["p_given_y"]) for line in private)
    assert total == pytest.approx(1.0, abs=0.05)
    assert {line["step"] for line in private} <= {"0.01", "0.02", "0.05", "0.1", "0.2", "0.5"}


def test_the_codebook_says_nothing_to_check_a_guess_against(
    counts: tables.Counts, mechanism: Mechanism
) -> None:
    book = codebook.to_dict(dataclasses.replace(mechanism, provenance={**mechanism.provenance, "rows": 1987}))
    assert book["provenance"] == {"privfunnel": mechanism.provenance["privfunnel"], "rows": 2000}
    assert "rounded" in book["precision"]
    text = json.dumps(book)
    assert counts.fingerprint not in text
    assert counts.problem().fingerprint not in text
    assert mechanism.leakage <= book["promise"]["leakage"] <= mechanism.leakage + 0.005


def solved_counts(p_y: np.ndarray, p_x_given_y: np.ndarray, p_s_given_y: np.ndarray, n: float) -> np.ndarray:
    """What a reader of these numbers finds for the joint counts (K, M) by least squares."""
    p_xy = p_x_given_y * p_y
    channel = p_xy / np.maximum(p_xy.sum(axis=1, keepdims=True), 1e-12)
    return np.linalg.lstsq(channel.T, (n * p_s_given_y * p_y).T, rcond=None)[0].T


def test_the_joint_counts_cannot_be_solved_from_the_codebook() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        folder = files("privfunnel.data.instances") / "data" / "heart_failure.csv"
        with as_file(folder) as path:
            table = pa_csv.read_csv(path)
        repeats = np.repeat(np.arange(table.num_rows), table["count"].to_numpy())
        counts = tables.count(
            table.take(repeats),
            private=["sex", "DEATH_EVENT"],
            public=["anaemia", "high_blood_pressure", "diabetes", "smoking"],
        )
    problem = counts.problem()
    solution = solve(problem, disclosure=0.8 * problem.disclosure_ceiling)
    mechanism, truth = Mechanism.from_solution(counts, solution), counts.table()
    assert (truth == 1).any()

    exact = solved_counts(mechanism.p_y, mechanism.p_x_given_y, mechanism.p_s_given_y, counts.n)
    found = np.rint(exact) == truth
    assert found.mean() > 0.9  # the attack works on the mechanism itself, which is why that is confidential

    book = codebook.to_dict(mechanism)["symbols"]
    p_y = np.array([entry["p_y"] for entry in book])
    p_x = np.array([[entry["p_x_given_y"].get(label, 0.0) for entry in book] for label in mechanism.x_labels])
    p_s = np.array([[entry["p_s_given_y"].get(label, 0.0) for entry in book] for label in mechanism.s_labels])
    # Even with the number of rows known, and with the exact channel known.
    for given in (solved_counts(p_y, p_x, p_s, counts.n),
                  solved_counts(mechanism.p_y, mechanism.p_x_given_y, p_s, counts.n)):  # fmt: skip
        guessed = np.rint(given)
        assert (guessed == truth).mean() < 0.5
        assert (guessed[truth == 1] == 1).mean() <= 0.5


def test_private_columns_are_never_written(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'sick' is private: it is never written"):
        release.write(source, mechanism, tmp_path / "o.csv", keep=["sick"])
    with pytest.raises(InvalidInputError, match="'town' is public and written only through"):
        release.write(source, mechanism, tmp_path / "o.csv", keep=["town"])
    with pytest.raises(InvalidInputError, match="two columns 'id'"):
        release.write(source, mechanism, tmp_path / "o.csv", form="symbols", keep=["id"], name="id")
    assert list(tmp_path.iterdir()) == [Path(source)]
    with pytest.warns(
        GuaranteeWarning, match=r"kept columns \(id\) (are copied unchanged.* void it|count the rows)"
    ):
        release.write(source, mechanism, tmp_path / "o.parquet", form="symbols", keep=["id"])
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.column_names == ["released", "id"]
    assert sorted(table["id"].to_pylist()) == sorted(ROWS["id"])
    with pytest.warns(GuaranteeWarning, match="kept"):
        release.write(source, mechanism, tmp_path / "p.csv", form="symbols", keep=["id"], name="a, b")
    assert duckdb.read_csv(str(tmp_path / "p.csv")).columns == ["a, b", "id"]


def test_a_table_without_its_private_columns_can_be_released(mechanism: Mechanism, tmp_path: Path) -> None:
    public = pa.table({name: ROWS[name] for name in ("member", "age", "town")})
    assert release.write(public, mechanism, tmp_path / "o.csv").written == 2000


def test_existing_files_stay_without_force(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    out.write_text("mine")
    with pytest.raises(InvalidInputError, match="exists: choose another name, or overwrite it with --force"):
        release.write(source, mechanism, out)
    assert out.read_text() == "mine"
    assert release.write(source, mechanism, out, force=True).written == 2000
    assert out.read_text() != "mine"
    (tmp_path / "p.codebook.json").write_text("mine")
    with pytest.raises(InvalidInputError, match=r"p\.codebook\.json' exists"):
        release.write(source, mechanism, tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_the_original_is_never_overwritten(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    before = Path(source).read_bytes()
    with pytest.raises(InvalidInputError, match="is the table to be released: it is never overwritten"):
        release.write(source, mechanism, source, force=True)
    with pytest.raises(InvalidInputError, match="two of release, codebook and order file are both"):
        release.write(source, mechanism, tmp_path / "o.csv", codebook=tmp_path / "o.csv")
    assert Path(source).read_bytes() == before


@pytest.mark.parametrize("suffix", [".csv", ".json", ".order"])
def test_neither_release_nor_codebook_stands_alone(
    mechanism: Mechanism, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    claim = storage._claim

    def fail(temporary: Path, path: Path) -> None:
        if path.suffix == suffix:
            raise OSError(28, "No space left on device")
        claim(temporary, path)

    monkeypatch.setattr(storage, "_claim", fail)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(InvalidInputError, match="No space left"):
        release.write(source, mechanism, folder / "o.csv")
    assert list(folder.iterdir()) == []


def test_dates_and_times_of_any_zone_are_released_as_records(tmp_path: Path) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    when = [
        datetime.datetime(2020, 1, 1, 12, tzinfo=zone),
        datetime.datetime(2020, 1, 2, 12, tzinfo=zone),
    ] * 50
    rows = pa.table({"s": ["a", "b"] * 50, "when": when, "day": [value.date() for value in when]})
    mechanism = random_mechanism(tables.count(rows, private="s", public=["when", "day"]), n_y=2)
    mechanism.save(tmp_path / "m.json")
    out = release.frame(rows, Mechanism.load(tmp_path / "m.json"), form="records")
    assert set(out["when"].to_pylist()) <= set(when)
    assert str(out.schema.field("day").type) == "date32[day]"


def test_several_files_hold_one_draw(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    files = {
        tmp_path / "s.csv": "symbols",
        tmp_path / "s.parquet": "symbols",
        tmp_path / "r.parquet": "records",
    }
    summary = release.write_all(source, mechanism, files, batch_rows=300)
    assert (summary.files, summary.codebook, summary.written) == (tuple(files), None, 2000)
    assert sorted(path.name for path in tmp_path.iterdir() if path != Path(source)) == sorted(
        [*(path.name for path in files), "s.order"]
    )
    symbols = pq.read_table(tmp_path / "s.parquet")["released"].to_pylist()
    assert (tmp_path / "s.csv").read_text().split()[1:] == symbols
    # A record that its symbol cannot give would tell that there were two draws.
    records = pq.read_table(tmp_path / "r.parquet")
    x = mechanism.x_alphabet.recogniser()(mechanism.x_alphabet.encode(records))
    y = np.array([mechanism.y_labels.index(symbol) for symbol in symbols])
    assert (mechanism.channel == 0.0).any()
    assert (mechanism.channel[x, y] > 0.0).all()


def test_no_file_at_all_is_refused(mechanism: Mechanism, source: str) -> None:
    with pytest.raises(InvalidInputError, match="no file is named"):
        release.write_all(source, mechanism, {})


def test_a_file_that_appears_in_the_meantime_stays(mechanism: Mechanism, source: str, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"

    def somebody_else(rows: int) -> None:
        out.write_text("theirs")

    with pytest.raises(InvalidInputError, match="appeared in the meantime"):
        release.write(source, mechanism, out, progress=somebody_else)
    assert out.read_text() == "theirs"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"out": "o.xlsx"}, "neither .csv nor .parquet"),
        ({"out": "no/such/o.csv"}, "does not exist or is not writable"),
        ({"out": "."}, "neither .csv nor .parquet"),
        ({"codebook": "book.txt"}, "neither .json nor .csv"),
        ({"form": "poems"}, "output as 'poems' is unknown"),
        ({"numbers": "poems"}, "numbers='poems' is unknown"),
        ({"unseen": "poems"}, "unseen='poems' is unknown"),
        ({"seed": -1}, "seed=-1 is not a seed"),
        ({"keep": ["nothing"]}, "no column 'nothing'"),
    ],
)
def test_wrong_requests_write_nothing(
    mechanism: Mechanism,
    source: str,
    tmp_path: Path,
    options: dict[str, Any],
    match: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns() if "keep" in options else nothing(), pytest.raises(InvalidInputError, match=match):
        release.write(source, mechanism, **{"out": "o.csv", **options})
    assert list(tmp_path.iterdir()) == [Path(source)]


class nothing:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_a_mechanism_for_other_columns_is_refused(mechanism: Mechanism, tmp_path: Path) -> None:
    other = pa.table({"colour": ["red"], "size": [1]})
    with pytest.raises(
        InvalidInputError, match="for other columns: it needs age, town, member, and the frame has colour"
    ):
        release.write(other, mechanism, tmp_path / "o.csv")
    with pytest.raises(InvalidInputError, match="no column 'age'"):
        release.write(pa.table({"town": ["north"], "member": [True]}), mechanism, tmp_path / "o.csv")
    with pytest.raises(InvalidInputError, match="must hold numbers"):
        release.write(
            pa.table({"age": ["old"], "town": ["north"], "member": [True]}), mechanism, tmp_path / "o.csv"
        )
    with pytest.raises(InvalidInputError, match="no rows"):
        release.write(pa.table(ROWS).slice(0, 0), mechanism, tmp_path / "o.csv")
    assert list(tmp_path.iterdir()) == []


# --- frames -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["pandas", "polars", "lazy", "arrow", "duckdb"])
def test_a_frame_comes_back_as_a_frame(mechanism: Mechanism, engine: str) -> None:
    arrow = pa.table(ROWS)
    frames = {
        "pandas": arrow.to_pandas,
        "polars": lambda: pl.from_arrow(arrow),
        "arrow": lambda: arrow,
        "lazy": lambda: pl.from_arrow(arrow).lazy(),
        "duckdb": lambda: duckdb.connect().from_arrow(arrow),
    }
    source = frames[engine]()
    with pytest.warns(GuaranteeWarning):
        first = release.frame(source, mechanism, seed=1, form="symbols")
    with pytest.warns(GuaranteeWarning):
        again = release.frame(arrow, mechanism, seed=1, form="symbols")
    expected = {"pandas": "DataFrame", "polars": "DataFrame", "lazy": "DataFrame"}.get(engine, "Table")
    assert type(first).__name__ == expected
    assert nw.from_native(first).to_arrow()["released"].to_pylist() == again["released"].to_pylist()


def test_dask_rows_stream_by_partition(mechanism: Mechanism, tmp_path: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(
        pa.table({name: ROWS[name] for name in ("age", "town", "member")}).to_pandas(), npartitions=4
    )
    assert release.write(frame, mechanism, tmp_path / "o.csv").written == 2000


# --- killed in the middle ---------------------------------------------------------------------------------------

KILLED = """
import sys, time
import pyarrow as pa
from privfunnel import release
from privfunnel.release.mechanism import Mechanism

def slowly(rows):
    print(rows, flush=True)
    time.sleep(0.05)

source, mechanism, out = sys.argv[1:]
release.write(source, Mechanism.load(mechanism), out, batch_rows=100, progress=slowly)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_killed_release_leaves_no_output(
    mechanism: Mechanism, source: str, tmp_path: Path, how: int
) -> None:
    mechanism.save(tmp_path / "m.json")
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-c", KILLED, source, str(tmp_path / "m.json"), str(folder / "o.csv")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed process cannot tidy up its spill folder
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environment, preexec_fn=hang_up, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()  # at least one batch is written
        assert list(folder.glob(".o.csv.*.partial"))
        os.kill(process.pid, how)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.returncode not in (None, 0)
    visible = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    assert visible == []
    if how != signal.SIGKILL:  # nothing can clean up after that one; what stays is hidden and called .partial
        assert list(folder.iterdir()) == []
