"""Releases of the page in a ledger: entered once, refused where the budget is spent, drawn as before with a key."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

from helpers_cli import assert_one_line_error, run
from privfunnel.app import explorer
from privfunnel.app.explorer import Limits
from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.app.explorer.sessions import Sessions
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.locking import open_lock
from privfunnel.release.ledger import Entering, Ledger

LITTLE, ALL = 0.2, 1.0  # disclosures in nats; all of X leaks all that there is


def opened(folder: Path, keeping: Keeping) -> Workspace:
    """A tab of an explorer with a curve of a small table, whose rows have names."""
    folder.mkdir()
    lines = [f"{i},{'ab'[i % 3 == 0 or i % 7 == 0]},{'xyz'[i % 3]}" for i in range(90)]
    (folder / "t.csv").write_text("\n".join(["who,s,x", *lines]) + "\n")
    keeping.checked().leave_in(folder)
    workspace = Workspace(folder, emit=lambda event: None)
    tasks.inspect(workspace, str(folder / "t.csv"), "t.csv")
    tasks.roles(workspace, private=["s"], public=["x"], bins={})
    tasks.trace(workspace, points=3, solver="greedy")
    return workspace


def test_a_release_is_entered_once_and_another_one_is_refused_as_on_the_command_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.json"
    workspace = opened(tmp_path / "tab", Keeping(ledger=str(path), budget="60%"))
    before = tasks.ledger(workspace, LITTLE)
    assert (before["entered"], before["refused"]) == (False, "")
    assert before["words"].startswith("releases 0, draws 0")
    mechanism = tasks.export(workspace, "mechanism.json", ALL)
    assert not path.exists()  # nothing is drawn for it
    for name in ("release.csv", "symbols.csv", "release.csv"):
        tasks.export(workspace, name, LITTLE)
    assert len(Ledger.load(path).entries) == 1
    assert tasks.ledger(workspace, LITTLE)["entered"]
    told = tasks.ledger(workspace, ALL)["refused"]
    assert told.startswith("all draws of these rows together (2) tell ")
    with pytest.raises(InfeasibleError, match="more than the budget"):
        tasks.export(workspace, "release.csv", ALL)
    with pytest.raises(InfeasibleError, match="more than the budget"):
        tasks.audit(workspace, ALL, "records")
    assert not (Path(mechanism).parent / "release.csv").exists()
    assert len(Ledger.load(path).entries) == 1
    source = workspace.setting().source
    asked = ("--mechanism", mechanism, "-o", tmp_path / "r.csv", "--ledger", path, "--budget", "60%")
    refused = run("release", source, *asked)
    assert_one_line_error(refused, "more than the budget")
    assert told.partition(" tell ")[0] in refused.stderr
    command = tasks.point(workspace, disclosure=LITTLE)["command"]
    assert f"--ledger {path}" in command
    assert "--budget 60%" in command


def test_sticky_draws_of_the_page_repeat_themselves_and_count_once(tmp_path: Path) -> None:
    keeping = Keeping(str(tmp_path / "l.json"), "", str(tmp_path / "key"), "monthly", "who")
    drawn = []
    for month in ("may", "june"):
        path = Path(tasks.export(opened(tmp_path / month, keeping), "symbols.csv", 0.5))
        drawn.append(sorted(path.read_text().splitlines()))
    assert drawn[0] == drawn[1]
    found = Ledger.load(tmp_path / "l.json")
    assert (len(found.entries), len(found.draws)) == (2, 1)


def test_a_budget_needs_a_ledger_and_a_series_a_key() -> None:
    with pytest.raises(InvalidInputError, match=r"name it, e\.g\. --ledger"):
        Keeping(budget="5%").checked()
    with pytest.raises(InvalidInputError, match="name a key file too"):
        Keeping(series="monthly").checked()
    assert_one_line_error(run("explore", "heart-failure", "--budget", "5%"), "name it, e.g. --ledger")


def test_what_cannot_be_kept_account_in_is_refused_before_the_page_opens(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("s,x\na,b\n")
    (tmp_path / "t.csv").chmod(0o600)
    ledger, missing = str(tmp_path / "l.json"), str(tmp_path / "none" / "l.json")
    for keeping, words in (
        (Keeping(ledger=ledger, budget="much"), "cannot be read"),
        (Keeping(ledger=ledger, budget="-3"), "is negative"),
        (Keeping(ledger=missing), "does not exist"),
        (Keeping(ledger=str(tmp_path / "t.csv")), "is not a JSON file"),
        (Keeping(sticky=missing, series="monthly"), "does not exist"),
        (Keeping(sticky=str(tmp_path / "t.csv"), series="monthly"), "is not a JSON file"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            keeping.checked()
    assert not Path(ledger).exists()


def test_the_page_says_why_a_ledger_of_another_table_takes_no_release(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    workspace = opened(tmp_path / "tab", Keeping(ledger=str(path)))
    tasks.export(workspace, "symbols.csv", LITTLE)
    tasks.roles(workspace, private=["x"], public=["s"], bins={})
    tasks.trace(workspace, points=3, solver="greedy")
    found = tasks.ledger(workspace, LITTLE)
    assert found["kept"]
    assert "columns" in found["refused"]
    with pytest.raises(InvalidInputError, match="columns"):
        tasks.export(workspace, "symbols.csv", LITTLE)


def test_another_person_is_another_release_though_the_channel_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    workspace = opened(tmp_path / "tab", Keeping(ledger=str(path)))
    drawn = [tasks.export(workspace, "symbols.csv", LITTLE)]
    for person in ("who", ""):
        tasks.roles(workspace, private=["s"], public=["x"], bins={}, person=person)
        tasks.trace(workspace, points=3, solver="greedy")
        drawn.append(tasks.export(workspace, "symbols.csv", LITTLE))
    assert drawn[0] != drawn[1]  # rows of one person share a draw in the second only
    assert drawn[0] == drawn[2]
    assert len(Ledger.load(path).entries) == 2


def test_a_ledger_that_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    first = opened(tmp_path / "first", Keeping(ledger=str(path)))
    assert "It is new, and knows of no earlier release." in tasks.ledger(first, LITTLE)["words"]
    tasks.export(first, "symbols.csv", LITTLE)
    second = opened(tmp_path / "second", Keeping(ledger=str(path)))  # another tab, which finds it there
    assert "It is new" not in tasks.ledger(second, LITTLE)["words"]
    path.rename(tmp_path / "elsewhere.json")
    for workspace, disclosure in ((first, ALL), (second, LITTLE)):
        assert "is gone" in tasks.ledger(workspace, disclosure)["refused"]
        with pytest.raises(InvalidInputError, match=r"is gone, .* put it back"):
            tasks.export(workspace, "symbols.csv", disclosure)
    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(InvalidInputError, match="is a link to"):
        Keeping(ledger=str(tmp_path / "link.json")).checked()
    (tmp_path / "elsewhere.json").rename(path)
    tasks.export(first, "symbols.csv", ALL)
    assert len(Ledger.load(path).entries) == 2
    linked = Keeping(ledger=str(tmp_path / "link.json")).checked()
    assert linked.ledger == str(path)


def test_a_release_of_the_page_that_was_interrupted_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    workspace = opened(tmp_path / "tab", Keeping(ledger=str(path)))

    def stop(self: Entering) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Entering, "_confirm", stop)
        with pytest.raises(KeyboardInterrupt):
            tasks.export(workspace, "symbols.csv", LITTLE)
    (entry,) = Ledger.load(path).entries
    assert entry.state == "intended"
    assert {"release.csv", "symbols.csv"} <= {Path(file).name for file in entry.files}
    assert all(Path(file).exists() for file in entry.files)
    told = tasks.ledger(workspace, LITTLE)["words"]
    assert told.startswith("releases 1, draws 1")
    assert f"privfunnel ledger settle {path} 1 --released" in told
    tasks.export(workspace, "symbols.csv", LITTLE)  # the files are there, and are what was intended
    (entry,) = Ledger.load(path).entries
    assert entry.state == "confirmed"


def test_the_page_says_on_the_terminal_what_waits_or_that_the_ledger_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    monkeypatch.setattr(explorer, "serve", lambda *data, announce, **options: announce("here"))
    assert "so a new ledger is begun" in run("explore", "--ledger", path).stderr
    workspace = opened(tmp_path / "tab", Keeping(ledger=str(path)))
    tasks.export(workspace, "symbols.csv", LITTLE)
    assert run("explore", "--ledger", path).stderr == ""
    held = Ledger.load(path)
    entry = replace(held.entries[0], state="intended")
    replace(held, entries=(entry,)).save(path)
    assert f"privfunnel ledger settle {path} 1 --released" in run("explore", "--ledger", path).stderr


def test_the_lock_of_a_process_that_was_ended_goes_with_the_server(tmp_path: Path) -> None:
    """A working process that is ended in the middle of a release cannot remove it."""
    path = tmp_path / "ledger.json"
    open_lock(tmp_path / ".ledger.json.lock", os.O_CREAT).close()
    Sessions(Limits(), keeping=Keeping(str(path))).shutdown()
    assert list(tmp_path.iterdir()) == []
