"""Nothing that a file holds or is called reaches a terminal as a command to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import privfunnel.app.cli
from helpers_cli import QUICK, assert_one_line_error, run
from privfunnel.app.cli._screen import console, printable

RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Clear the screen, set the title, C1's own escape, turn the direction, go back, ring.
EVIL = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb\x08\x7f\r"


def test_controls_are_written_out_and_other_text_is_left_alone() -> None:
    assert printable(EVIL) == r"a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb\x08\x7f\r"
    assert printable("naïve, 日本 👍\tR₀\n") == "naïve, 日本 👍\tR₀\n"
    assert printable("two\nlines", one_line=True) == r"two\nlines"
    assert printable("half \ud800") == r"half \ud800"


def test_tables_hold_no_controls_but_their_own_colours(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    screen = console()
    screen.print(table)
    screen.print(EVIL)
    assert not RAW.search(capsys.readouterr().out)


def joint(folder: Path) -> Path:
    path = folder / "evil.csv"
    label = EVIL.rstrip("\r")
    path.write_text(f"S,x{label},y\n{label},3,1\nb,1,3\n", encoding="utf-8")
    return path


def test_labels_are_shown_and_change_nothing_on_the_screen(tmp_path: Path) -> None:
    path = joint(tmp_path)
    for command in (("solve", path, "--disclosure", "50%"), ("curve", path, *QUICK)):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert not RAW.search(result.stdout + result.stderr)


def test_errors_and_warnings_name_odd_paths_without_obeying_them(tmp_path: Path) -> None:
    for name in ("\x1b[2Jabsent.csv", "new\nline.csv", "\u202evsc.live.csv"):
        result = run("solve", tmp_path / name, "--disclosure", "50%")
        assert_one_line_error(result)
        assert not RAW.search(result.stderr)
        assert len(result.stderr.strip().splitlines()) == 1
    result = run("solve", joint(tmp_path), "--disclosure", "\x1b[2J50")
    assert_one_line_error(result)
    assert not RAW.search(result.stderr)
    result = run("solve", joint(tmp_path), "--\x1b[2Jbad")
    assert not RAW.search(result.stderr)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("solve", "TABLE", "--disclosure", "50%", "--out", ""), "--out"),
        (("curve", "TABLE", "--out", ""), "--out"),
        (("solve", "TABLE", "--disclosure", "50%", "--out", "n" * 400), "name"),
        (("solve", "n" * 400, "--disclosure", "50%"), "no such file"),
        (("verify", "n" * 400, "TABLE"), "n" * 30),
        (("solve", "TABLE", "--disclosure", "50%", "--option", "seed=1"), "seed"),
        (("solve", "TABLE", "--disclosure", "50%", "--option", "=1"), "--option"),
        (("example", "n" * 400), "n" * 30),
        (("example", ""), "name"),
    ],
)
def test_odd_arguments_are_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "t.csv"
    table.write_text("S,x,y\na,3,1\nb,1,3\n")
    result = run(*(table if argument == "TABLE" else argument for argument in arguments))
    assert_one_line_error(result)
    assert word in result.stderr


def test_nothing_else_in_the_command_line_writes_to_the_screen() -> None:
    folder = Path(privfunnel.app.cli.__file__).parent
    for path in folder.glob("*.py"):
        if path.name != "_screen.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search(
                r"\becho\(|\bprint\(|sys\.stdout\.write|sys\.stderr\.write", text.replace(".print(", "")
            )
