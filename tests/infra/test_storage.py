"""Files are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from privfunnel.errors import InvalidInputError
from privfunnel.infra import storage
from privfunnel.infra.storage import (
    PRIVATE,
    Stored,
    check_schema,
    output_folder,
    read_json,
    whole_files,
    write_json,
    write_text,
    write_whole,
)
from privfunnel.model.problem import Problem
from privfunnel.neighbours.bottleneck import BottleneckCurve
from privfunnel.neighbours.guessing_funnel import GuessingCurve
from privfunnel.release import order as orders
from privfunnel.release.ledger import Ledger
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.curve import Curve
from privfunnel.solving.solution import Solution
from privfunnel.studies.comparison import Comparison


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    with output_folder(target) as folder:
        (folder / "one.txt").write_text("1")
        (folder / "sub").mkdir()
        (folder / "sub" / "two.txt").write_text("2")
        assert not target.exists()
    assert (target / "one.txt").read_text() == "1"
    assert (target / "sub" / "two.txt").read_text() == "2"
    with output_folder(target) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "three.txt").write_text("3")
    assert [path.name for path in (target / "sub").iterdir()] == ["three.txt"]
    assert (target / "one.txt").exists()


def test_a_failed_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), output_folder(tmp_path / "a") as folder:  # noqa: PT012
        (folder / "one.txt").write_text("1")
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_becomes_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot write to"), output_folder(tmp_path / "a") as folder:  # noqa: PT012
        (folder / "one.txt").write_text("1")
        (tmp_path / "a").write_text("in the way")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_json_round_trip_and_errors(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [1.5]})
    assert read_json(tmp_path / "a.json") == {"x": [1.5]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(InvalidInputError, match="cannot write"):
        write_json(tmp_path / "no" / "a.json", {})
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_json(tmp_path / "no.json")
    with pytest.raises(InvalidInputError, match="found 'list'"):
        check_schema([], "privfunnel/x")
    for version in (0, 2, True, "1", None):
        told = f"privfunnel/x version {version!r} cannot be read .*: write the file again with this release$"
        with pytest.raises(InvalidInputError, match=told):
            check_schema({"schema": "privfunnel/x", "version": version}, "privfunnel/x")


@pytest.mark.parametrize(
    "kind", [Problem, Solution, Curve, Mechanism, Ledger, Comparison, BottleneckCurve, GuessingCurve]
)
def test_every_kind_of_file_is_read_in_one_version(kind: type[Stored]) -> None:
    assert kind.heading() == {"schema": kind.schema, "version": 1}
    for version in (0, 2, 3, 4):
        with pytest.raises(InvalidInputError, match=f"version {version} cannot be read"):
            kind.from_dict(kind.heading() | {"version": version})


def test_a_folder_in_the_way_of_a_file_stops_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "two.txt").mkdir()
    with pytest.raises(InvalidInputError, match="a folder of that name"), output_folder(tmp_path) as folder:  # noqa: PT012
        (folder / "one.txt").write_text("1")
        (folder / "two.txt").write_text("2")
    assert [path.name for path in tmp_path.iterdir()] == ["two.txt"]


def test_an_empty_name_is_told() -> None:
    with pytest.raises(InvalidInputError, match="is empty"), output_folder(""):
        pass


def test_what_an_earlier_run_left_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    owned = ("proof.npz", "solution.json")
    with output_folder(tmp_path / "out", owned) as folder:
        (folder / "proof.npz").write_text("old")
        (folder / "solution.json").write_text("old")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with output_folder(tmp_path / "out", owned) as folder:
        (folder / "solution.json").write_text("new")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["notes.txt", "solution.json"]
    assert (tmp_path / "out" / "solution.json").read_text() == "new"


def test_a_signal_just_after_the_folder_was_made_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[Path] = []
    mkdir = Path.mkdir

    def struck(self: Path, mode: int = 0o777) -> None:
        mkdir(self, mode)
        made.append(self)
        raise SystemExit(143)

    monkeypatch.setattr(Path, "mkdir", struck)
    with pytest.raises(SystemExit), output_folder(tmp_path / "out"):
        pass
    assert [path.parent for path in made] == [tmp_path]
    assert list(tmp_path.iterdir()) == []


def test_a_signal_before_the_block_took_hold_leaves_nothing(tmp_path: Path) -> None:
    # The exception strikes between the context manager's entry and its registration, and every frame is kept alive, so
    # that no generator is closed on the way: the end of the program has to clean up.
    program = f"""
import contextlib, sys
from privfunnel.infra.storage import output_folder
kept = []
def struck(self, manager, leave):
    kept.append(manager)
    assert len(list(__import__("pathlib").Path({str(tmp_path)!r}).iterdir())) == 1
    raise SystemExit(143)
contextlib.ExitStack._push_cm_exit = struck
with contextlib.ExitStack() as stack:
    stack.enter_context(output_folder({str(tmp_path / "out")!r}))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_ends_early_leaves_nothing(tmp_path: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), output_folder(tmp_path / "out") as folder:
        (folder / "half.txt").write_text("1")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fill(stream: BinaryIO) -> None:
        stream.write(b"new")
        assert target.read_text() == "old"

    write_whole(target, fill)
    assert target.read_text() == "new"
    assert leftovers(tmp_path) == ["a.txt"]


def test_a_file_whose_writing_fails_stays_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fill(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_whole(target, fill)
    assert target.read_text() == "old"
    assert leftovers(tmp_path) == ["a.txt"]


def test_a_private_file_is_private_from_the_first_byte(tmp_path: Path) -> None:
    modes = []

    def fill(stream: BinaryIO) -> None:
        modes.append(stat.S_IMODE(os.fstat(stream.fileno()).st_mode))

    write_whole(tmp_path / "a.txt", fill, mode=PRIVATE)
    assert modes == [0o600]
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o600


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("theirs")
    (tmp_path / "a.txt").symlink_to(tmp_path / "theirs.txt")
    write_text(tmp_path / "a.txt", "ours")
    assert not (tmp_path / "a.txt").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "ours"
    assert (tmp_path / "theirs.txt").read_text() == "theirs"


def test_without_force_files_come_all_or_none(tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    with (  # noqa: PT012
        pytest.raises(InvalidInputError, match=r"b.txt' appeared in the meantime"),
        whole_files(paths, force=False) as streams,
    ):
        for stream in streams:
            stream.write(b"ours")
        paths[1].write_text("theirs")
    assert leftovers(tmp_path) == ["b.txt"]
    assert paths[1].read_text() == "theirs"


def test_an_interrupt_between_two_names_leaves_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = storage._claim

    def struck(temporary: Path, target: Path) -> None:
        claim(temporary, target)
        if target.name == "b.txt":  # it has its name, and whoever gave it does not know it yet
            raise KeyboardInterrupt

    monkeypatch.setattr(storage, "_claim", struck)
    (tmp_path / "theirs.txt").write_text("theirs")
    with (
        pytest.raises(KeyboardInterrupt),
        whole_files([tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"], force=False),
    ):
        pass
    assert leftovers(tmp_path) == ["theirs.txt"]


def test_an_error_names_the_file_that_cannot_be_written(tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "no" / "b.txt"]
    with (
        pytest.raises(InvalidInputError, match=r"cannot write .*b\.txt.*choose a folder"),
        whole_files(paths),
    ):
        pass
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("what", ["pipe", "device", "endless"])
def test_what_has_no_end_is_not_read(tmp_path: Path, what: str) -> None:
    path = tmp_path / "odd.json"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    words = "read of such a file" if what == "endless" else "not a file but a pipe or a device"
    with pytest.raises(InvalidInputError, match=rf"odd\.json.*{words}"):
        read_json(path)
    with pytest.raises(InvalidInputError, match=words):
        orders.load(path)
