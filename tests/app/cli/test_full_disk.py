"""A disk that is full: one line, exit code 2, and nothing half-written."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_cli import assert_one_line_error, run
from privfunnel.app.cli import _Commands

resource = pytest.importorskip("resource", reason="only POSIX can make files small")
pytest.importorskip("duckdb", reason="needs the extra 'tables'")

COLUMNS = ("--private", "s", "--public", "x")
RELEASE = ("release", "t.csv", "--mechanism", "d/mechanism.json", "-o")
COMMANDS: dict[str, tuple[str, ...]] = {
    "solve": ("solve", "t.csv", *COLUMNS, "--disclosure", "50%", "--out", "o"),
    "curve": ("curve", "t.csv", *COLUMNS, "--points", "3", "--out", "o"),
    "release as CSV": (*RELEASE, "n.csv"),
    "release as Parquet": (*RELEASE, "n.parquet"),
    "release with a ledger": (*RELEASE, "n.csv", "--ledger", "l.json"),
    "ledger": ("ledger", "add", "l.json", "t.csv", "--mechanism", "d/mechanism.json"),
    "guess": ("guess", "synthetic-uniform", "--points", "3", "--out", "o"),
}


@contextlib.contextmanager
def full_at(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``size`` bytes: the system refuses as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("s,x\n" + "a,1\nb,2\na,3\n" * 20)
    for made in ((*COMMANDS["solve"][:-1], "d"), (*RELEASE, "r.csv", "--as", "symbols")):
        assert run(*made).exit_code == 0
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("size", [0, 200])
def test_a_full_disk_is_one_line_and_leaves_nothing(folder: Path, command: str, size: int) -> None:
    before = sorted(folder.rglob("*"))
    with full_at(size):
        result = run(*COMMANDS[command])
    assert_one_line_error(result, "cannot write", "(File too large)", "has room")
    assert ".partial" not in result.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_output_that_cannot_be_written_is_one_line(more: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "privfunnel", "solve", "synthetic-uniform", "--disclosure", "60%", *more]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "error: the system refused (No space left on device): make room or give access, and try again\n"
    )


def test_what_the_system_refuses_elsewhere_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28), "/tmp/spill")

    monkeypatch.setattr(_Commands, "invoke", refuse)
    assert_one_line_error(run("solve", "synthetic-uniform"), "refused at '/tmp/spill'", os.strerror(28))
