"""The ledger of a table: what all its releases tell together."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import privfunnel as pf
from funnels import count_people, people, random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.release import ledger as ledgers
from privfunnel.release.ledger import Ledger
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROWS = people(400, seed=5)
ENTRY = {"mechanism": "unknown", "draw": "a", "series": None, "date": "2026-05-31"}


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    return count_people(pa.table(ROWS)).problem()


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return random_mechanism(count_people(pa.table(ROWS)))


@pytest.fixture(scope="module")
def redesigned() -> Mechanism:
    return random_mechanism(count_people(pa.table(ROWS)), n_y=4, seed=7)


@pytest.fixture
def folder(mechanism: Mechanism, redesigned: Mechanism, tmp_path: Path) -> Path:
    pa_csv.write_csv(pa.table(ROWS), tmp_path / "t.csv")
    mechanism.save(tmp_path / "m.json")
    redesigned.save(tmp_path / "new.json")
    return tmp_path


def test_draws_tell_together_what_their_joint_channel_does(
    problem: pf.Problem, mechanism: Mechanism, redesigned: Mechanism
) -> None:
    ledger = Ledger.begin(pa.table(ROWS), mechanism)
    assert ledger.problem == problem
    assert ledger.leakage == 0.0
    for number, used in enumerate(([mechanism], [mechanism, mechanism], [mechanism, mechanism, redesigned])):
        ledger = ledger.with_release(used[-1])
        assert len(ledger.draws) == number + 1
        assert ledger.leakage == pytest.approx(pf.joint_leakage(problem, used), abs=1e-12)
    assert ledger.alone(ledger.entries[-1]) == pytest.approx(redesigned.leakage, abs=1e-12)


def test_releases_that_repeat_each_other_are_one_draw(mechanism: Mechanism, redesigned: Mechanism) -> None:
    once = Ledger.begin(pa.table(ROWS), mechanism).with_release(mechanism, draw="a", series="monthly")
    again = once.with_release(mechanism, draw="a", series="monthly")
    assert len(again.entries) == 2
    assert again.leakage == once.leakage
    assert again.with_release(redesigned, draw="b", series="monthly").leakage > once.leakage + 1e-3


def test_a_budget_is_a_budget_for_all_draws_together(mechanism: Mechanism) -> None:
    ledger = Ledger.begin(pa.table(ROWS), mechanism).with_release(mechanism)
    ledger.check(ledger.leakage)
    twice = ledger.with_release(mechanism)
    with pytest.raises(
        InfeasibleError, match=r"together \(2\) tell .* bits \(.* nats\), more than the budget"
    ):
        twice.check(ledger.leakage + 1e-6)


def test_a_ledger_is_the_same_after_it_was_saved(mechanism: Mechanism, tmp_path: Path) -> None:
    ledger = Ledger.begin(pa.table(ROWS), mechanism).with_release(mechanism, date="2026-05-31")
    ledger.save(tmp_path / "l.json")
    assert stat.S_IMODE((tmp_path / "l.json").stat().st_mode) == 0o600
    found = ledgers.opened(tmp_path / "l.json", "no such table", mechanism)
    assert found.entries == ledger.entries
    assert found.problem == ledger.problem
    assert found.leakage == pytest.approx(ledger.leakage, abs=1e-12)


@pytest.mark.parametrize(
    "damage",
    [
        {"entries": [ENTRY | {"files": []}]},
        {"entries": [{"mechanism": "unknown"}]},
        {"entries": [ENTRY | {"state": "lost"}]},
        {"entries": [ENTRY | {"files": [3]}]},
        {"version": 2},
        {"channels": {"f": [[0.5, 0.2]]}},
        {"problem": {}},
        {"schema": "privfunnel/problem"},
    ],
)
def test_a_ledger_that_was_changed_is_refused(mechanism: Mechanism, damage: dict[str, Any]) -> None:
    data = json.loads(json.dumps(Ledger.begin(pa.table(ROWS), mechanism).with_release(mechanism).to_dict()))
    Ledger.from_dict(data)
    with pytest.raises(InvalidInputError):
        Ledger.from_dict(data | damage)


def test_a_mechanism_for_other_symbols_is_refused(mechanism: Mechanism) -> None:
    ledger = Ledger.begin(pa.table(ROWS), mechanism)
    other = people(400, seed=5)
    other["town"] = ["west" if town == "north" else town for town in other["town"]]
    with pytest.raises(InvalidInputError, match=r"does not know the symbol .*town=north"):
        ledger.with_release(random_mechanism(count_people(pa.table(other))))


def test_symbols_are_matched_by_name(mechanism: Mechanism, problem: pf.Problem) -> None:
    """A mechanism that lists the public symbols in another order has the same channel in the ledger."""
    alphabet = replace(mechanism.x_alphabet, codes=mechanism.x_alphabet.codes[::-1])
    turned = replace(
        mechanism, x_alphabet=alphabet, channel=mechanism.channel[::-1].copy(), p_x=mechanism.p_x[::-1].copy()
    )
    assert turned.x_labels == mechanism.x_labels[::-1]
    ledger = Ledger(problem).with_release(turned)
    assert ledger.leakage == pytest.approx(mechanism.leakage, abs=1e-12)


def test_the_release_is_refused_beyond_the_budget_before_anything_is_written(
    folder: Path, mechanism: Mechanism, problem: pf.Problem
) -> None:
    book = folder / "ledger.json"
    asked = (
        "release",
        folder / "t.csv",
        "--mechanism",
        folder / "m.json",
        "--as",
        "symbols",
        "--ledger",
        book,
    )
    budget = 0.5 * (mechanism.leakage + pf.joint_leakage(problem, [mechanism, mechanism]))
    done = run(*asked, "-o", folder / "may.csv", "--budget", f"{budget:.9f}")
    assert done.exit_code == 0, done.output
    assert "releases 1, draws 1:" in done.stdout
    before = book.read_bytes()
    done = run(*asked, "-o", folder / "june.csv", "--budget", f"{budget:.9f}")
    assert_one_line_error(done, "together (2) tell", "repeat an earlier draw (--sticky,")
    assert not (folder / "june.csv").exists()
    assert book.read_bytes() == before
    done = run(*asked, "-o", folder / "june.csv", "--json")
    told = json.loads(done.stdout)["ledger"]
    assert told["leakage"] == pytest.approx(pf.joint_leakage(problem, [mechanism, mechanism]), abs=1e-12)
    assert [release["leakage"] for release in told["releases"]] == pytest.approx([mechanism.leakage] * 2)
    done = run(*asked[:-2], "-o", folder / "july.csv", "--budget", "0.1")
    assert_one_line_error(done, "--budget 0.1 is for all draws of a ledger")
    done = run(*asked, "-o", folder / "july.csv", "--codebook", book, "--force")
    assert_one_line_error(done, "is the ledger: it is never overwritten")


def test_sticky_releases_go_on_within_the_budget_and_a_redesign_is_told(
    folder: Path, mechanism: Mechanism, redesigned: Mechanism, problem: pf.Problem
) -> None:
    book, key = folder / "ledger.json", folder / "k.key"
    asked = ("release", folder / "t.csv", "--as", "symbols", "--ledger", book, "--sticky", key, "--id", "id")
    asked += ("--series", "monthly", "--mechanism")
    budget = ("--budget", f"{mechanism.leakage + 1e-6:.9f}")
    for month in ("may", "june", "july"):
        done = run(*asked, folder / "m.json", "-o", folder / f"{month}.csv", *budget)
        assert done.exit_code == 0, done.output
    assert "releases 3, draws 1:" in done.stdout
    done = run(*asked, folder / "new.json", "-o", folder / "august.csv", *budget)
    assert_one_line_error(done, "more than the budget")
    done = run(*asked, folder / "new.json", "-o", folder / "august.csv", "--units", "nats")
    together = pf.joint_leakage(problem, [mechanism, redesigned])
    assert f"releases 4, draws 2: together they tell at most {together:.4f} nats." in done.stdout


@pytest.mark.parametrize("other", ["id2", "padded", "changed"])
def test_only_what_repeats_itself_is_no_further_draw(
    folder: Path, mechanism: Mechanism, problem: pf.Problem, other: str
) -> None:
    """Other ids, other texts for the same ids, and other public values are other draws of the same people."""
    numbers = [str(i) for i in range(400)]
    table = pa.table({**ROWS, "id": numbers, "id2": numbers[::-1]})
    pa_csv.write_csv(table, folder / "t.csv")
    changed = {
        "id2": {},
        "padded": {"id": [number.zfill(5) for number in numbers]},
        "changed": {"age": [*ROWS["age"][1:], ROWS["age"][0]]},
    }[other]
    for name, column in changed.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    pa_csv.write_csv(table, folder / "other.csv")
    book, sticky = folder / "ledger.json", ("--sticky", folder / "k.key", "--series", "monthly")
    common = (
        "--mechanism",
        folder / "m.json",
        "--as",
        "symbols",
        "--ledger",
        book,
        *sticky,
        "--unseen",
        "nearest",
    )
    budget = ("--budget", f"{mechanism.leakage + 1e-6:.9f}")
    for month in ("may", "june"):
        done = run("release", folder / "t.csv", *common, "--id", "id", "-o", folder / f"{month}.csv", *budget)
        assert done.exit_code == 0, done.output
    assert "draws 1:" in done.stdout
    assert "may tell more" not in done.stdout
    second = ("release", folder / "other.csv", *common, "--id", "id2" if other == "id2" else "id")
    assert_one_line_error(run(*second, "-o", folder / "july.csv", *budget), "together (2) tell")
    assert not (folder / "july.csv").exists()
    done = run(*second, "-o", folder / "july.csv", "--units", "nats")
    together = pf.joint_leakage(problem, [mechanism, mechanism])
    assert f"releases 3, draws 2: together they tell at most {together:.4f} nats. Rows whose" in done.stdout
    # A release that was made without the ledger is told by its rows, too.
    add = ("ledger", "add", book, folder / "t.csv", "--mechanism", folder / "m.json", *sticky, "--id", "id")
    assert "releases 4, draws 2:" in run(*add).stdout


def test_the_command_shows_and_adds(folder: Path, mechanism: Mechanism, problem: pf.Problem) -> None:
    book = folder / "ledger.json"
    asked = ("ledger", "add", book, folder / "t.csv", "--mechanism", folder / "m.json")
    for _ in range(2):
        done = run(*asked)
        assert done.exit_code == 0, done.output
    together = pf.joint_leakage(problem, [mechanism, mechanism])
    done = run("ledger", "show", book, "--units", "nats")
    assert f"releases 2, draws 2: together they tell at most {together:.4f} nats." in done.stdout
    assert mechanism.fingerprint[:12] in done.stdout
    assert json.loads(run("ledger", "show", book, "--json").stdout)["draws"] == 2
    done = run("ledger", "show", book, "--budget", f"{mechanism.leakage:.9f}")
    assert done.exit_code == 2
    assert "more than the budget" in done.stderr
    before = book.read_bytes()
    for more, words in (
        (("--budget", "0"), "together (3) tell"),
        (("--series", "monthly"), "give both --sticky and --series"),
        (("--series", "monthly", "--sticky", folder / "k.key"), "there is no key file"),
        (("--released", folder / "none.csv"), "there is no file"),
    ):
        assert_one_line_error(run(*asked, *more), words)
    assert_one_line_error(run("ledger", "show", folder / "m.json"), "not a privfunnel/ledger file")
    assert book.read_bytes() == before
