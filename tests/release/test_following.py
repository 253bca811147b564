"""Releases that follow others: their mechanism, the earlier symbols in the table, and the ledger's account of both."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from funnels import mechanism_of
from helpers_cli import assert_one_line_error, run
from privfunnel import release
from privfunnel.data import tables
from privfunnel.errors import InvalidInputError
from privfunnel.reductions.earlier_releases import EARLIER
from privfunnel.release.earlier import attach_redrawn, attach_released
from privfunnel.release.ledger import Ledger
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.sequels import Sequel

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROLES: dict[str, Any] = {"private": ["sick"], "public": ["town", "member"]}


def rows() -> Any:
    rng = np.random.default_rng(2)
    town, member = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    sick = rng.random(300) < 0.2 + 0.4 * town + 0.2 * member
    texts = {"town": ["north", "south"], "member": ["no", "yes"], "sick": ["no", "yes"]}
    columns = {"town": town, "member": member, "sick": sick.astype(int)}
    made = {name: [texts[name][i] for i in values] for name, values in columns.items()}
    return pa.table({"id": [f"{i:03d}" for i in range(300)], **made})


@pytest.fixture(scope="module")
def counts() -> tables.Counts:
    return tables.count(rows(), **ROLES)


@pytest.fixture(scope="module")
def first(counts: tables.Counts) -> Mechanism:
    return mechanism_of(counts, np.random.default_rng(5).dirichlet(np.full(3, 0.5), counts.n_x))


@pytest.fixture(scope="module")
def ledger(counts: tables.Counts, first: Mechanism) -> Ledger:
    return Ledger(counts.problem()).with_release(first, draw="one")


@pytest.fixture(scope="module")
def made(ledger: Ledger) -> Sequel:
    return ledger.next_release(leakage="80%", gap=1e-2)


@pytest.fixture(scope="module")
def following(ledger: Ledger, made: Sequel, counts: tables.Counts) -> Mechanism:
    return ledger.next_mechanism(made, counts)


def test_a_mechanism_that_follows_promises_what_all_releases_tell(
    made: Sequel, following: Mechanism, tmp_path: Path
) -> None:
    assert following.leakage == pytest.approx(made.leakage, abs=1e-9)
    assert following.promise["budget"] == pytest.approx(0.8 * made.problem.leakage_ceiling)
    assert following.published == (EARLIER,)
    assert following.follows == "one"
    following.save(tmp_path / "m.json")
    assert Mechanism.load(tmp_path / "m.json").fingerprint == following.fingerprint


def test_the_ledger_counts_a_draw_that_follows_with_the_one_it_follows(
    ledger: Ledger, made: Sequel, following: Mechanism, tmp_path: Path
) -> None:
    both = ledger.with_release(following, draw="two")
    assert both.leakage == pytest.approx(made.leakage, abs=1e-9)
    assert both.problem.evaluate(both.told[0]).disclosure == pytest.approx(made.disclosure, abs=1e-9)
    assert (len(both.draws), list(both.standing)) == (2, ["two"])
    assert both.together(following).leakage == both.leakage
    assert [each.follows for each in both.together(following).listed] == [False, True]
    both.save(tmp_path / "l.json")
    again = Ledger.load(tmp_path / "l.json")
    assert again.entries == both.entries
    # A repetition adds nothing, an independent draw beside it does.
    assert again.with_release(following, draw="two").leakage == both.leakage
    assert again.next_release(leakage="90%", gap=0.05).before.leakage == pytest.approx(both.leakage)


def test_a_draw_is_followed_once_and_only_where_it_is_known(
    ledger: Ledger, made: Sequel, following: Mechanism, first: Mechanism, counts: tables.Counts
) -> None:
    both = ledger.with_release(following, draw="two")
    with pytest.raises(InvalidInputError, match="another release follows the draw one already"):
        both.with_release(following, draw="three")
    with pytest.raises(InvalidInputError, match="follows the draw one, which this ledger does not have"):
        Ledger(ledger.problem).with_release(following)
    other = mechanism_of(counts, np.full((counts.n_x, 1), 1.0))
    with pytest.raises(InvalidInputError, match="does not know every public value and symbol"):
        Ledger(ledger.problem).with_release(other, draw="one").with_release(following)
    # One public value has a symbol that the following one has not heard of; all others are as they were.
    part = np.pad(np.asarray(first.channel), ((0, 0), (0, 1)))
    part[-1] = [0.0, 0.0, 0.0, 1.0]
    with pytest.raises(InvalidInputError, match="does not know every public value and symbol"):
        Ledger(ledger.problem).with_release(mechanism_of(counts, part), draw="one").with_release(following)
    with pytest.raises(InvalidInputError, match="2 independent draws stand"):
        ledger.with_release(first).next_mechanism(made, counts)
    with pytest.raises(InvalidInputError, match="another table"):
        made.mechanism(tables.count(rows().slice(1), **ROLES), "one")
    with pytest.raises(InvalidInputError, match="known= does not go with earlier releases"):
        pf.sequel(ledger.problem, [first], leakage="50%", known=["town"])
    data = json.loads(json.dumps(both.to_dict()))
    data["entries"][1]["follows"] = "nowhere"
    with pytest.raises(InvalidInputError, match="malformed"):
        Ledger.from_dict(data)


def test_the_symbols_of_a_sticky_release_are_drawn_again(first: Mechanism, tmp_path: Path) -> None:
    key, out, table = tmp_path / "k.key", tmp_path / "may.csv", rows()
    sticky = {"sticky": key, "series": "m", "id": "id"}
    release.write(table, first, out, form="symbols", **sticky)  # type: ignore[arg-type]
    assert attach_redrawn(table, first, tmp_path / "again.parquet", **sticky) == 300  # type: ignore[arg-type]
    order = tmp_path / "may.order"
    assert attach_released(table, first, tmp_path / "same.csv", released=out, order=order) == 300
    same = pa_csv.read_csv(tmp_path / "same.csv")
    again = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "again.parquet")
    assert again.column_names == [*table.column_names, EARLIER]
    assert again[EARLIER].to_pylist() == same[EARLIER].to_pylist()
    assert (tmp_path / "same.csv").stat().st_mode & 0o077 == 0
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"source": again}, "already: rename it"),
        ({"source": table.slice(1)}, "is of 300 rows and the table has 299"),
        ({"name": "y"}, "has no column 'y'"),
        (
            {"mechanism": replace(first, channel=first.channel[:, :1], p_s_given_y=first.p_s_given_y[:, :1])},
            "no symbol",
        ),
    ]
    for change, words in wrong:
        asked = {
            "source": table,
            "mechanism": first,
            "out": tmp_path / "x.csv",
            "released": out,
            "order": order,
        }
        with pytest.raises(InvalidInputError, match=words):
            attach_released(**(asked | change))
    with pytest.raises(InvalidInputError, match="there is no key file"):
        attach_redrawn(table, first, tmp_path / "x.csv", sticky=tmp_path / "none.key", series="m", id="id")
    assert not (tmp_path / "x.csv").exists()


def test_the_commands_lead_from_one_release_to_the_next(first: Mechanism, tmp_path: Path) -> None:
    pa_csv.write_csv(rows(), tmp_path / "t.csv")
    first.save(tmp_path / "m.json")
    book, again, key = tmp_path / "l.json", tmp_path / "again.csv", tmp_path / "k.key"
    sticky = ("--sticky", key, "--series", "m", "--id", "id")
    by = ("--mechanism", tmp_path / "m.json")
    done = run("release", tmp_path / "t.csv", *by, "-o", tmp_path / "may.csv", "--ledger", book, *sticky)
    assert done.exit_code == 0, done.output
    roles = ("--private", "sick", "--public", "town,member", "--option", "gap=0.01")
    done = run(
        "solve", tmp_path / "t.csv", *roles, "--ledger", book, "--leakage", "90%", "--out", tmp_path / "next"
    )
    assert done.exit_code == 0, done.output
    assert "privfunnel ledger earlier" in done.stdout
    attach = ("ledger", "earlier", book, tmp_path / "t.csv", *by, "-o", again)
    assert_one_line_error(run(*attach), "say how the rows were drawn")
    assert_one_line_error(
        run(*attach, *sticky[:2], "--series", "other", *sticky[4:]), "no draw of the ledger"
    )
    done = run(*attach, *sticky)
    assert done.exit_code == 0, done.output
    follow = ("release", again, "--mechanism", tmp_path / "next" / "mechanism.json", "--ledger", book)
    assert_one_line_error(
        run(*follow, "-o", tmp_path / "june.csv", "--budget", "10%"), "more than the budget"
    )
    done = run(*follow, "-o", tmp_path / "june.csv", "--budget", "91%", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["ledger"]
    assert told["releases"][1]["follows"] == told["releases"][0]["draw"]
    assert told["leakage"] <= 0.9 * told["leakage_ceiling"] + 1e-9
    assert "follows" in run("ledger", "show", book).stdout
    # The rows that the next release was designed on prove nothing about others, though a column was added to them.
    judged = run("audit", follow[1], *follow[2:4], "--bootstrap", 20)
    assert judged.exit_code == 0, judged.output
    assert "Rows of this table were used in the design" in judged.stdout
    assert "In the population" not in judged.stdout
    assert_one_line_error(run(*follow, "-o", tmp_path / "july.csv"), "follows the draw")
