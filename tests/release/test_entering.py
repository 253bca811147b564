"""Releases on their way into a ledger: entered before they are written, whatever happens then, and in one ledger."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import privfunnel as pf
from funnels import count_people, people, random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import release
from privfunnel.app.explorer import ledger_entries as pages
from privfunnel.errors import InvalidInputError
from privfunnel.infra.locking import locked
from privfunnel.release import ledger as ledgers
from privfunnel.release.ledger import Entering, Ledger
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROWS = people(400, seed=5)
#: Runs the command line, and sends itself a signal at one of two moments: when rows are being drawn, or when the
#: release has its name.
KILLED = """
import os, sys
from privfunnel import release
from privfunnel.app.cli import main
from privfunnel.release import table_files as writing

def killing(function, after):
    def called(*arguments, **options):
        if after:
            function(*arguments, **options)
        os.kill(os.getpid(), int(sys.argv[1]))
    return called

if sys.argv[2] == "drawing":
    writing._stream = killing(writing._stream, False)
else:
    release.write = killing(writing.write, True)
main(sys.argv[3:])
"""


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return random_mechanism(count_people(pa.table(ROWS)))


@pytest.fixture
def folder(mechanism: Mechanism, tmp_path: Path) -> Path:
    pa_csv.write_csv(pa.table(ROWS), tmp_path / "t.csv")
    mechanism.save(tmp_path / "m.json")
    return tmp_path


def asked(folder: Path, out: str = "r.csv", ledger: str = "l.json") -> list[str]:
    """The command that releases the table."""
    table, mechanism = folder / "t.csv", folder / "m.json"
    said = ["release", table, "--mechanism", mechanism, "--as", "symbols", "-o", folder / out]
    return [str(each) for each in (*said, "--ledger", folder / ledger)]


def killed(number: int, moment: str, folder: Path) -> int:
    """The exit code of a release that gets a signal at a moment."""
    command = [sys.executable, "-c", KILLED, str(int(number)), moment, *asked(folder)]
    return subprocess.run(command, check=False, capture_output=True, timeout=120).returncode


def states(folder: Path) -> list[str]:
    return [entry.state for entry in Ledger.load(folder / "l.json").entries]


def only(folder: Path, *names: str) -> bool:
    """Whether the folder holds these files and no others, locks aside, which end with who held them."""
    return {each.name for each in folder.iterdir() if not each.name.endswith(".lock")} == {*names}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_release_that_is_killed_before_it_is_confirmed_counts(
    number: signal.Signals, folder: Path, mechanism: Mechanism, problem: pf.Problem
) -> None:
    assert killed(number, "written", folder) != 0
    assert (folder / "r.csv").exists()
    assert states(folder) == ["intended"]
    shown = run("ledger", "show", folder / "l.json")
    assert "releases 1, draws 1:" in shown.stdout
    assert f"1 (intended): {folder / 'r.csv'}" in shown.stdout
    refused = run(*asked(folder, "again.csv"), "--budget", f"{mechanism.leakage + 1e-6:.9f}")
    assert_one_line_error(refused, "together (2) tell")
    done = run("ledger", "settle", folder / "l.json", 1, "--released")
    assert done.exit_code == 0, done.output
    assert states(folder) == ["confirmed"]
    assert run("ledger", "show", folder / "l.json").stderr == ""


def test_a_release_that_is_killed_before_it_has_its_name_counts_until_it_is_withdrawn(folder: Path) -> None:
    killed(signal.SIGKILL, "drawing", folder)
    assert not (folder / "r.csv").exists()
    assert states(folder) == ["intended"]
    settle = ("ledger", "settle", folder / "l.json", 1, "--withdrawn")
    left = list(folder.glob(".r.csv.*.partial"))
    assert len(left) == 1
    assert_one_line_error(run(*settle), str(left[0]), "remove the file first")
    left[0].rename(folder / "r.csv")
    assert_one_line_error(run(*settle), "r.csv' is there, so release 1 may have been made")
    (folder / "r.csv").unlink()
    done = run(*settle)
    assert "releases 0, draws 0:" in done.stdout
    assert_one_line_error(run(*settle), "release 1 of the ledger does not wait to be settled")
    assert_one_line_error(run(*settle[:3], 7, "--released"), "there is nothing to settle")
    assert_one_line_error(run(*settle[:4]), "say what became of release 1")
    assert "releases 1, draws 1:" in run(*asked(folder)).stdout
    assert states(folder) == ["withdrawn", "confirmed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_release_that_ends_by_itself_takes_its_entry_back(number: signal.Signals, folder: Path) -> None:
    assert killed(number, "drawing", folder) != 0
    assert only(folder, "t.csv", "m.json")
    run(*asked(folder))
    before = (folder / "l.json").read_bytes()
    pa_csv.write_csv(pa.table(ROWS | {"town": ["nowhere"] * 400}), folder / "t.csv")
    assert_one_line_error(run(*asked(folder, "s.csv")), "nowhere")
    assert (folder / "l.json").read_bytes() == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks the system for the name of an open file")
def test_a_full_disk_leaves_no_release_without_its_entry(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def full_for(name: str, time: int) -> None:
        """Let the disk be full when a file of this name is written for the n-th time."""
        left = [time]

        def fsync(file: int) -> None:
            left[0] -= f".{name}." in str(Path(f"/proc/self/fd/{file}").readlink())
            if left[0] == 0:
                left[0] = -1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(file)

        monkeypatch.setattr(os, "fsync", fsync)

    for name in ("r.csv", "l.json"):
        full_for(name, 1)
        assert_one_line_error(run(*asked(folder)), "No space left")
        assert only(folder, "t.csv", "m.json")
    full_for("l.json", 2)
    assert_one_line_error(run(*asked(folder)), "No space left", "settle", "1 --released")
    assert (folder / "r.csv").exists()
    assert states(folder) == ["intended"]


def test_what_is_entered_is_on_the_disk_before_the_release_and_confirmed_after(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(file: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        sync(file)

    def move(self: Path, target: Path) -> Path:
        done.append(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", move)
    assert run(*asked(folder), "--force").exit_code == 0
    ledger = ["file", "l.json", "folder"]
    release = ["file"] * 3 + ["r.csv", "r.codebook.json", "r.order", "folder"]
    assert done == [*ledger, *release, *ledger]


@pytest.fixture
def interrupted(folder: Path) -> Path:
    """A folder with a ledger of two releases, the second one unconfirmed."""
    assert run(*asked(folder)).exit_code == 0
    held = Ledger.load(folder / "l.json")
    used = Mechanism.load(folder / "m.json")
    held.with_release(used, files=[folder / "s.csv"], state="intended").save(folder / "l.json")
    return folder


def test_every_command_that_opens_a_ledger_says_what_waits_to_be_settled(interrupted: Path) -> None:
    table, book, used = interrupted / "t.csv", interrupted / "l.json", ("--mechanism", interrupted / "m.json")
    roles = ("--private", "sick,smoker", "--public", "age,town,member", "--bin", "age=edges:18,40,60,80")
    attach = ("--released", interrupted / "r.csv", "--order", interrupted / "r.order")
    commands: list[tuple[Any, ...]] = [
        ("ledger", "show", book),
        ("ledger", "show", book, "--json"),
        ("ledger", "add", book, table, *used),
        ("ledger", "earlier", book, table, *used, *attach, "-o", interrupted / "again.csv"),
        ("audit", table, *used, "--ledger", book, "--bootstrap", 20),
        ("solve", table, *roles, "--ledger", book, "--leakage", "99%", "--option", "gap=0.5"),
        asked(interrupted, "third.csv"),
    ]
    for command in commands:
        done = run(*command)
        for words in ("2 (s.csv, ", f"privfunnel ledger settle {book} 2 --released", "2 --withdrawn"):
            assert words in done.stderr, command
    waiting = json.loads(run("ledger", "show", book, "--json").stdout)["releases"]
    assert [each["state"] for each in waiting] == ["confirmed", "intended", "confirmed", "confirmed"]


def test_an_unconfirmed_release_counts_for_audits_and_for_the_next_release(
    interrupted: Path, mechanism: Mechanism, problem: pf.Problem
) -> None:
    held = Ledger.load(interrupted / "l.json")
    twice = pf.joint_leakage(problem, [mechanism, mechanism])
    assert held.leakage == pytest.approx(twice, abs=1e-12)
    assert held.together(mechanism).draws == 2
    assert len(held.told) == 2
    after = held.settled(2, released=False)
    assert after.leakage == pytest.approx(mechanism.leakage, abs=1e-12)
    assert (after.together(mechanism).draws, after.together(mechanism).releases) == (1, 1)
    after.save(interrupted / "l.json")
    assert Ledger.load(interrupted / "l.json").entries == after.entries


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    return count_people(pa.table(ROWS)).problem()


# --- one ledger -----------------------------------------------------------------------------------------------------


def test_a_link_to_a_ledger_is_that_ledger(folder: Path) -> None:
    (folder / "books").mkdir()
    (folder / "link.json").symlink_to(folder / "books" / "l.json")
    nowhere = run(*asked(folder, ledger="link.json"))
    assert_one_line_error(nowhere, "is a link to", "which is not there")
    assert_one_line_error(
        run("ledger", "show", folder / "link.json"), "put the ledger back, or remove the link"
    )
    names = ("books/l.json", "link.json", "books/l.json")
    for number, name in enumerate(names, 1):
        done = run(*asked(folder, f"{number}.csv", name))
        assert f"releases {number}, draws {number}:" in done.stdout, done.output
    assert (folder / "link.json").is_symlink()
    assert "releases 3, draws 3:" in run("ledger", "show", folder / "link.json").stdout
    with locked(folder / "link.json"):
        assert (folder / "books" / ".l.json.lock").exists()
    (folder / "circle.json").symlink_to(folder / "circle.json")
    assert_one_line_error(run(*asked(folder, "4.csv", "circle.json")), "circle.json")


def test_a_ledger_that_is_begun_is_said_to_be_new(folder: Path) -> None:
    done = run(*asked(folder))
    assert "there is no such file, so a new ledger is begun, which knows of no earlier release" in done.stderr
    assert f"Ledger: {folder / 'l.json'} (new), releases 1" in done.stdout
    done = run(*asked(folder, "s.csv"))
    assert "new" not in done.stderr + done.stdout
    told = json.loads(run(*asked(folder, "t2.csv", "other.json"), "--json").stdout)["ledger"]
    assert (told["new"], told["file"]) == (True, str(folder / "other.json"))
    assert_one_line_error(run("ledger", "show", folder / "none.json"), "cannot read")


def test_a_ledger_names_the_files_of_its_releases(folder: Path) -> None:
    run(*asked(folder))
    add = ("ledger", "add", folder / "l.json", folder / "t.csv", "--mechanism", folder / "m.json")
    run(*add, "--released", folder / "r.csv", "--released", folder / "r.codebook.json")
    run(*add)
    lines = run("ledger", "show", folder / "l.json").stdout.splitlines()
    assert f"1: {folder / 'r.csv'}" in lines
    assert f"2: {folder / 'r.csv'}, {folder / 'r.codebook.json'}" in lines
    assert "3: no file is named" in lines


def test_the_page_names_its_command_for_what_waits(interrupted: Path) -> None:
    keeping = pages.Keeping(ledger=str(interrupted / "l.json"))
    told = pages._unsettled(Ledger.load(interrupted / "l.json"), keeping)
    assert told[0].startswith("Releases that were begun and not confirmed: 2 (s.csv, ")


def test_files_that_were_finished_without_a_word_are_entered_as_what_was_intended(
    folder: Path, mechanism: Mechanism
) -> None:
    out, book = folder / "r.csv", folder / "l.json"

    def entering() -> Entering:
        return Entering(book, mechanism, [out])

    first = entering()
    first.open(folder / "t.csv")
    release.write(folder / "t.csv", mechanism, out, enter=first.intend)  # and nobody confirms
    assert states(folder) == ["intended"]
    for _ in range(2):
        again = entering()
        with again.alone():
            again.open(folder / "t.csv")
            again.adopt()
        assert states(folder) == ["confirmed"]
    other = Entering(book, mechanism, [folder / "s.csv"])
    with other.alone():
        other.open(folder / "t.csv")
        other.adopt()
    assert states(folder) == ["confirmed", "confirmed"]


def test_a_draw_that_is_followed_was_made(mechanism: Mechanism) -> None:
    held = Ledger.begin(pa.table(ROWS), mechanism).with_release(mechanism, draw="a", state="intended")
    entry = held.entries[0]
    follower = ledgers.Entry(entry.mechanism, "b", None, entry.date, follows="a")
    both = ledgers.Ledger(held.problem, (entry, follower), held.channels)
    with pytest.raises(InvalidInputError, match="follows the draw of release 1"):
        both.settled(1, released=False)
    assert both.settled(1, released=True).entries[0].state == "confirmed"
