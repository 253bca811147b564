"""Releases that repeat themselves: sticky draws and their key."""

from __future__ import annotations

import json
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import count_people, people, random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import release
from privfunnel.data.engines.source import Overview
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.release import keys
from privfunnel.release.drawing import draw_name
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawOptions
from privfunnel.release.sticky import StickyDraws

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROWS = people(400, seed=5)
SERIES: dict[str, Any] = {"series": "monthly", "id": "id"}


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return random_mechanism(count_people(pa.table(ROWS)))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "steward.key"


def by_id(table: Any, mechanism: Mechanism, **options: Any) -> dict[str, tuple[Any, ...]]:
    """What was released for each id."""
    orders: list[Any] = []
    released = release.frame(table, mechanism, on_order=orders.append, **options).to_pylist()
    ids = table["id"].to_pylist()
    return {
        ids[place]: tuple(line.values())
        for line, place in zip(released, orders[0].rows.tolist(), strict=True)
    }


@pytest.mark.parametrize("options", [{"form": "symbols"}, {"form": "records"}, {"numbers": "draw"}])
def test_a_row_is_drawn_alike_in_every_release_of_a_series(
    mechanism: Mechanism, key: Path, options: dict[str, Any]
) -> None:
    table = pa.table(ROWS)
    first = by_id(table, mechanism, sticky=key, **SERIES, **options)
    # The next month: other rows are there, in another order and other batches.
    later = table.take(np.random.default_rng(0).permutation(len(table))[:300])
    again = by_id(later, mechanism, sticky=key, batch_rows=70, **SERIES, **options)
    assert again == {name: first[name] for name in again}
    other = by_id(table, mechanism, sticky=key, **{**SERIES, "series": "yearly"}, **options)
    assert sum(other[name] != line for name, line in first.items()) > 100


def test_other_public_values_mechanisms_and_keys_are_other_draws(
    mechanism: Mechanism, key: Path, tmp_path: Path
) -> None:
    table, options = pa.table(ROWS), {**SERIES, "form": "symbols"}
    first = by_id(table, mechanism, sticky=key, **options)
    # Whether a row's draw changes with its public values is seen where p(y|x) does not.
    flat = replace(mechanism, channel=np.tile(mechanism.p_y, (len(mechanism.p_x), 1)))
    moved = table.set_column(3, "member", pa.array([not member for member in ROWS["member"]]))
    told = by_id(table, flat, sticky=key, **options)
    for other in (
        by_id(moved, flat, sticky=key, unseen="marginal", **options),
        by_id(table, replace(flat, p_x=flat.p_x[::-1].copy()), sticky=key, **options),
        by_id(table, flat, sticky=tmp_path / "other.key", **options),
    ):
        assert sum(other[name] != line for name, line in told.items()) > 100
    assert by_id(table, mechanism, sticky=key, **options) == first


def test_sticky_symbols_are_drawn_as_the_channel_says(mechanism: Mechanism, key: Path) -> None:
    keys.save(key, bytes(32))  # the same verdict every time
    n = 20_000
    table = pa.table({"age": [30] * n, "town": ["north"] * n, "member": [False] * n, "id": range(n)})
    found = Counter(by_id(table, mechanism, form="symbols", sticky=key, **SERIES).values())
    x = mechanism.x_labels.index("age=18-39, town=north, member=false")
    shares = np.array([found[(name,)] for name in mechanism.y_labels]) / n
    assert np.abs(shares - mechanism.channel[x]).max() < 4.5 * 0.5 / np.sqrt(n)


def test_files_frames_and_kinds_of_ids_are_drawn_alike(mechanism: Mechanism, tmp_path: Path) -> None:
    key, n = tmp_path / "k.key", len(ROWS["id"])
    table = pa.table({**ROWS, "id": [f"{i:03d}" for i in range(n)]})
    framed = by_id(table, mechanism, form="symbols", sticky=key, **SERIES)
    pa_csv.write_csv(table, tmp_path / "t.csv")
    summary = release.write(
        tmp_path / "t.csv", mechanism, tmp_path / "r.csv", form="symbols", sticky=key, **SERIES
    )
    assert summary.sticky is not None
    assert not summary.sticky.new
    assert summary.persons is None
    lines = (tmp_path / "r.csv").read_text().split()[1:]
    places = release.order.load(tmp_path / "r.order").rows.tolist()
    assert {f"{place:03d}": (line,) for line, place in zip(lines, places, strict=True)} == framed


def test_decoys_repeat_their_candidates(mechanism: Mechanism, key: Path) -> None:
    def candidates() -> dict[str, frozenset[tuple[Any, ...]]]:
        orders: list[Any] = []
        with pytest.warns(GuaranteeWarning, match="decoys name combinations"):
            lines = release.frame(
                pa.table(ROWS), mechanism, form="decoys", sticky=key, on_order=orders.append, **SERIES
            ).to_pylist()
        of_row: dict[int, set[tuple[Any, ...]]] = {}
        for line in lines:
            row, *rest = line.values()
            of_row.setdefault(row, set()).add(tuple(rest))
        return {
            ROWS["id"][place]: frozenset(of_row[row]) for row, place in enumerate(orders[0].rows.tolist(), 1)
        }

    assert candidates() == candidates()


def test_rows_of_a_person_are_drawn_alike_too(mechanism: Mechanism, key: Path, tmp_path: Path) -> None:
    table = pa.concat_tables([pa.table(ROWS)] * 2)
    with pytest.raises(InvalidInputError, match=r"400 different values in 800 rows .*--person id"):
        release.frame(table, mechanism, sticky=key, **SERIES)
    assert not key.exists()
    options: dict[str, Any] = {"form": "symbols", "sticky": key, "series": "monthly", "person": "id"}
    first = by_id(pa.table(ROWS), mechanism, **options)
    assert by_id(table, mechanism, **options) == first
    summary = release.write(table, mechanism, tmp_path / "r.parquet", **options)
    assert summary.persons is not None
    assert summary.persons.persons == 400
    with pytest.raises(InvalidInputError, match=r"rows go by 'town_id' and persons by 'id'.*--id id"):
        release.frame(table, mechanism, **{**options, "id": "town_id"})


def test_the_key_file_is_for_the_user_alone_and_never_overwritten(
    mechanism: Mechanism, key: Path, tmp_path: Path
) -> None:
    release.frame(pa.table(ROWS), mechanism, sticky=key, **SERIES)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    release.write(pa.table(ROWS), mechanism, tmp_path / "r.csv", sticky=key, force=True, **SERIES)
    assert key.read_bytes() == before
    with pytest.raises(InvalidInputError, match="in the meantime"):
        keys.save(key, keys.new())
    with pytest.raises(InvalidInputError, match="is the key file: it is never overwritten"):
        release.write(
            pa.table(ROWS), mechanism, tmp_path / "r.csv", order=key, sticky=key, force=True, **SERIES
        )
    new = tmp_path / "new.csv"  # no file yet, and to be the key and the release at once
    with pytest.raises(InvalidInputError, match="is the key file"):
        release.write(pa.table(ROWS), mechanism, new, sticky=new, **SERIES)
    assert not new.exists()
    assert key.read_bytes() == before


def test_a_key_file_that_is_open_or_damaged_is_refused(key: Path, tmp_path: Path) -> None:
    secret = keys.new()
    keys.save(key, secret)
    assert keys.load(key) == secret
    key.chmod(0o640)
    with pytest.raises(InvalidInputError, match=r"open to others \(mode 0640\).*chmod 600"):
        keys.load(key)
    key.chmod(0o600)
    told = json.loads(key.read_text())
    other = told["key"][:-1] + ("0" if told["key"][-1] != "0" else "1")
    for damage in ({"key": other}, {"key": told["key"][:-2]}, {"key": 7}, {"check": None}):
        key.write_text(json.dumps(told | damage))
        with pytest.raises(InvalidInputError, match="is damaged: restore it"):
            keys.load(key)
    key.write_text(json.dumps(told | {"schema": "privfunnel/mechanism"}))
    with pytest.raises(InvalidInputError, match="not a privfunnel/key file"):
        keys.load(key)
    with pytest.raises(InvalidInputError, match="is no file"):
        keys.load(tmp_path)


def test_only_what_belongs_to_the_series_travels(mechanism: Mechanism, key: Path) -> None:
    """A key that is sent to executors is derived, and gives no other series away."""
    release.frame(pa.table(ROWS), mechanism, sticky=key, **SERIES)
    secret = keys.load(key)

    class Table:
        @staticmethod
        def overview(names: list[str]) -> Any:
            return {name: Overview(3, 0) for name in names}

        @staticmethod
        def n_rows() -> int:
            return 3

    draws = StickyDraws("id", key, "monthly", mechanism.fingerprint, several=False)
    draws.open(Table())  # type: ignore[arg-type]
    assert secret not in {value for value in vars(draws).values() if isinstance(value, bytes)}
    # "a" with the mechanism "1:b" and "a:1" with "b" are two series.
    twins = [StickyDraws("id", key, *names, several=False) for names in (("a", "1:b"), ("a:1", "b"))]
    for twin in twins:
        twin.open(Table())  # type: ignore[arg-type]
    assert len({draws.key, *(twin.key for twin in twins)}) == 3


def test_rows_without_an_id_are_refused(mechanism: Mechanism, key: Path) -> None:
    table = pa.table(ROWS)
    for blank, words in ((None, "'id' is missing in 1 of the rows"), (" ", "rows have a blank 'id'")):
        holes = table.set_column(0, "id", pa.array([blank, *ROWS["id"][1:]]))
        with pytest.raises(InvalidInputError, match=words):
            release.frame(holes, mechanism, sticky=key, **SERIES)
    with pytest.raises(InvalidInputError, match="no column 'who'"):
        release.frame(table, mechanism, sticky=key, series="monthly", id="who")
    with pytest.raises(InvalidInputError, match="'age' cannot say who a row is about"):
        release.frame(table, mechanism, sticky=key, series="monthly", id="age")
    assert not key.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"series": "monthly"}, "series and id are for sticky draws: name a key file"),
        ({"id": "id"}, "series and id are for sticky draws"),
        ({"sticky": "k.key", "id": "id"}, "name it, e.g. --series monthly"),
        ({"sticky": "k.key", "id": "id", "series": " "}, "name it, e.g. --series monthly"),
        ({"sticky": "k.key", "series": "a"}, "name it, e.g. --id id"),
        ({"sticky": "k.key", "id": "id", "series": "a", "seed": 1}, "seed=1 and sticky draws exclude"),
        ({"sticky": "none/k.key", "id": "id", "series": "a"}, "the folder of 'none/k.key' does not exist"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    mechanism: Mechanism, options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=words):
        release.frame(pa.table(ROWS), mechanism, **options)
    assert not list(tmp_path.iterdir())


def test_a_mechanism_keeps_its_fingerprint_in_its_file(mechanism: Mechanism, tmp_path: Path) -> None:
    mechanism.save(tmp_path / "m.json")
    assert Mechanism.load(tmp_path / "m.json").fingerprint == mechanism.fingerprint
    told = {**mechanism.provenance, "seed": 99}
    assert replace(mechanism, provenance=told).fingerprint == mechanism.fingerprint
    others = {
        random_mechanism(count_people(pa.table(ROWS)), seed=1).fingerprint,
        replace(mechanism, p_x=mechanism.p_x[::-1].copy()).fingerprint,
        mechanism.fingerprint,
    }
    assert len(others) == 3


def test_the_command_makes_a_key_and_repeats_the_release(mechanism: Mechanism, tmp_path: Path) -> None:
    pa_csv.write_csv(pa.table(ROWS), tmp_path / "t.csv")
    mechanism.save(tmp_path / "m.json")
    key = tmp_path / "steward.key"
    asked = ("release", tmp_path / "t.csv", "--mechanism", tmp_path / "m.json", "--as", "symbols")
    sticky = ("--sticky", key, "--series", "monthly", "--id", "id")
    done = run(*asked, *sticky, "-o", tmp_path / "may.csv")
    assert done.exit_code == 0, done.output
    assert f"Sticky: series 'monthly', rows by 'id', key {key} (new: keep it" in done.stdout
    assert "Persons" not in done.stdout
    done = run(*asked, *sticky, "-o", tmp_path / "june.csv")
    assert "drawn as before by this mechanism" in done.stdout
    lines = [sorted((tmp_path / f"{month}.csv").read_text().split()[1:]) for month in ("may", "june")]
    assert lines[0] == lines[1]
    done = run(*asked, *sticky, "-o", tmp_path / "july.csv", "--json")
    told = json.loads(done.stdout)["sticky"]
    assert told == {
        "series": "monthly", "column": "id", "key": str(key), "new": False, "draw": told["draw"],
    }  # fmt: skip
    key.chmod(0o644)
    done = run(*asked, *sticky, "-o", tmp_path / "august.csv")
    assert_one_line_error(done, "open to others", "chmod 600")
    done = run(*asked, *sticky[2:], "-o", tmp_path / "august.csv")
    assert_one_line_error(done, "name a key file too, e.g. --sticky release.key")
    assert not (tmp_path / "august.csv").exists()


def test_a_release_that_fails_leaves_no_key(mechanism: Mechanism, key: Path, tmp_path: Path) -> None:
    table = pa.table({**ROWS, "town": ["nowhere"] * len(ROWS["id"])})
    with pytest.raises(InvalidInputError, match="nowhere"):
        release.write(table, mechanism, tmp_path / "r.csv", sticky=key, **SERIES)
    assert not list(tmp_path.iterdir())


# --- which draws are one --------------------------------------------------------------------------------------------


def named(table: Any, mechanism: Mechanism, key: Path, **options: Any) -> str | None:
    """The name of a release's draw; the file is of no interest."""
    asked: dict[str, Any] = {"sticky": key, **SERIES, **options}
    summary = release.write(table, mechanism, key.with_name("r.parquet"), form="symbols", force=True, **asked)
    assert summary.sticky is not None
    return summary.sticky.draw


@pytest.mark.filterwarnings("ignore::privfunnel.errors.GuaranteeWarning")
def test_a_draw_that_repeats_itself_has_one_name_in_any_order_and_form(
    mechanism: Mechanism, key: Path, tmp_path: Path
) -> None:
    table = pa.table(ROWS)
    name = named(table, mechanism, key)
    assert name == named(table, mechanism, key, batch_rows=70)
    assert name == named(table.take(np.random.default_rng(0).permutation(400)), mechanism, key)
    again = release.write_all(
        table, mechanism, {tmp_path / "a.csv": "decoys", tmp_path / "b.csv": "records"}, sticky=key, **SERIES
    )
    assert again.sticky is not None
    assert again.sticky.draw == name
    options = DrawOptions(sticky=key, **SERIES)
    assert draw_name(table, mechanism, options) == name
    assert draw_name(table, mechanism, replace(options, sticky=tmp_path / "none.key")) is None
    told: list[str | None] = []
    release.write(
        table, mechanism, tmp_path / "c.csv", sticky=tmp_path / "new.key", enter=told.append, **SERIES
    )
    assert told == [named(table, mechanism, tmp_path / "new.key")]
    release.write(table, mechanism, tmp_path / "d.csv", enter=told.append)
    release.frame(table, mechanism, sticky=key, enter=told.append, **SERIES)
    assert told[1:] == [None, name]


@pytest.mark.filterwarnings("ignore::privfunnel.errors.GuaranteeWarning")
def test_whatever_a_draw_depends_on_makes_another_name(mechanism: Mechanism, key: Path) -> None:
    table = pa.table(ROWS)
    numbers = [str(i) for i in range(400)]
    towns = ROWS["town"].copy()
    towns[0] = "north" if towns[0] != "north" else "south, by the sea"
    turned = random_mechanism(count_people(table), seed=7)
    columns = {"id2": ROWS["id"], "short": numbers, "long": [number.zfill(5) for number in numbers]}
    wide = pa.table({**ROWS, **columns})
    found = [
        named(table, mechanism, key),
        named(table, mechanism, key, series="yearly"),
        named(table, mechanism, key.with_name("other.key")),
        named(table, turned, key),
        *(named(wide, mechanism, key, id=column) for column in columns),
        named(pa.table(ROWS | {"id": ROWS["id"][::-1]}), mechanism, key),
        named(pa.table(ROWS | {"town": towns}), mechanism, key, unseen="nearest"),
        named(table.slice(1), mechanism, key),
    ]
    assert None not in found
    assert len(set(found)) == len(found)
    # Rows that are told apart by more than their ids may be others under the same ids.
    assert named(table, mechanism, key, keep=["id"]) is None
    assert named(table, mechanism, key, keep_order=True) is None


def test_a_table_that_changes_while_it_is_released_is_not_released(
    mechanism: Mechanism, key: Path, tmp_path: Path
) -> None:
    pa_csv.write_csv(pa.table(ROWS), tmp_path / "t.csv")

    def change(name: str | None) -> None:
        pa_csv.write_csv(pa.table(ROWS | {"id": ROWS["id"][::-1]}), tmp_path / "t.csv")

    with pytest.raises(InvalidInputError, match="the table changed while it was released"):
        release.write(tmp_path / "t.csv", mechanism, tmp_path / "r.csv", sticky=key, enter=change, **SERIES)
    assert [each.name for each in tmp_path.iterdir()] == ["t.csv"]
