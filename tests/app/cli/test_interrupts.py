"""Ctrl-C and requests to terminate are answered soon in every phase of a real command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from helpers_signals import hang_up
from privfunnel.algorithms.columns.plain import branching
from privfunnel.algorithms.columns.plain.search_trees import Tree
from privfunnel.app.cli import main

#: A program that says when it has come to the phase in question, and would then work for minutes.
PROGRAM = """
import sys, threading
from privfunnel.infra import signals
from privfunnel.__main__ import run

def tell():
    print("working", file=sys.stderr, flush=True)

{prepare}
sys.argv[1:] = {arguments!r}
run()
"""
#: Lets it say so when the function is first called; ``{0}`` is its module, ``{1}`` its name.
TOLD = """
import {0} as module
inner = module.{1}
def told(*args, **named):
    threading.Timer(0.3, tell).start()
    module.{1} = inner
    return inner(*args, **named)
module.{1} = told
"""
#: Seconds that are waited for it to end. It is a second on an idle machine, and without a signal an hour.
LONGEST = 120.0
#: The limit that lets it work for so long.
HOUR = ["--option", "time_limit=3600"]


def joint(path: Path, n_s: int, n_x: int) -> str:
    table = np.random.default_rng(0).dirichlet(np.full(n_s * n_x, 0.5)).reshape(n_s, n_x)
    rows = [",".join(["", *(f"x{x}" for x in range(n_x))])]
    rows += [",".join([f"s{s}", *map(repr, map(float, table[s]))]) for s in range(n_s)]
    path.write_text("\n".join(rows))
    return str(path)


def strike(prepare: str, arguments: list[str], number: int) -> tuple[int, str]:
    """Run, wait until it works, send a signal: exit code, and what it said."""
    program = PROGRAM.format(prepare=prepare, arguments=arguments)
    # As a module, as the command is: only then does Python look at its end at what became of a Ctrl-C.
    command = [sys.executable, "-m", "struck"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        Path(folder, "struck.py").write_text(program)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *filter(None, sys.path)])}
        process = stack.enter_context(
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hang_up, env=environment)
        )
        assert process.stderr is not None
        said = ""
        while "working" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(number)
        try:
            _, rest = process.communicate(timeout=LONGEST)
        finally:
            process.kill()
        return process.returncode, said + rest


PHASES = {
    "perfect": ("privfunnel.algorithms.perfect", "best_private_mixture", 8, 60, "perfect", "20%"),
    "branch and bound": (
        "privfunnel.algorithms.columns.plain.branching",
        "branch_and_bound",
        20,
        60,
        "global",
        "85%",
    ),
    "AEM": ("privfunnel.algorithms.aem", "best_runs", 200, 300, "aem", "80%"),
}


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_is_answered_while_solving(tmp_path: Path, phase: str) -> None:
    module, function, n_s, n_x, solver, disclosure = PHASES[phase]
    table = joint(tmp_path / "table.csv", n_s, n_x)
    asked = [
        "solve",
        table,
        "--disclosure",
        disclosure,
        "--solver",
        solver,
        *HOUR,
        "--out",
        str(tmp_path / "out"),
    ]
    code, said = strike(TOLD.format(module, function), asked, signal.SIGINT)
    assert code == 130, said
    assert "interrupted: nothing was finished" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_counting_in_duckdb_is_called_off(tmp_path: Path, number: signal.Signals) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs the extra 'tables'")
    connection = duckdb.connect(str(tmp_path / "big.duckdb"))
    connection.execute(
        "CREATE VIEW big AS SELECT (i * 7919) % 3 AS s, (i * 31) % 11 AS x FROM range(20000000000) t(i)"
    )
    connection.close()
    asked = [
        "solve",
        str(tmp_path / "big.duckdb::big"),
        "--private",
        "s",
        "--public",
        "x",
        "--disclosure",
        "50%",
    ]
    told = TOLD.format("privfunnel.data.engines.readers", "interrupting")
    code, said = strike(told, asked, number)
    assert code == 128 + number, said
    assert "Traceback" not in said


def test_a_compiled_library_has_no_last_word_after_an_interrupt() -> None:
    program = (
        "import atexit, privfunnel.__main__ as begin, privfunnel.app.cli as cli\n"
        "class Held:\n    def __del__(self): print('leaked 28 instances')\n"
        "held = Held()\n"
        "def main(**_):\n    print('said before', end='')\n    raise SystemExit({code})\n"
        "atexit.register(print, ', cleaned up')\n"
        "cli.main = main\nbegin.run()\n"
    )
    for code, end in ((130, ""), (143, ""), (2, "leaked 28 instances\n")):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("{code}", str(code))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (code, f"said before, cleaned up\n{end}"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_still_being_loaded_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    """A module that takes an hour to import stands for a slow disk."""
    (tmp_path / "slow_to_import.py").write_text(
        "import sys, time\nprint('working', file=sys.stderr, flush=True)\n"
        "end = time.monotonic() + 3600\nwhile time.monotonic() < end: time.sleep(0.01)\n"
    )
    prepare = (
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import privfunnel.app.cli.example as module\n"
        "def load(**_):\n    import slow_to_import\nmodule.command.callback = load\n"
    )
    code, said = strike(prepare, ["example", str(tmp_path / "x.csv")], number)
    assert code == 128 + number, said


def test_ctrl_c_in_the_text_of_a_program_ends_with_130_too() -> None:
    """Python would end itself by the signal where the exception came out of such a text, as dataclasses run some."""
    prepare = (
        "import privfunnel.app.cli.example as module\n"
        "def work(**_):\n    threading.Timer(0.3, tell).start()\n"
        "    exec('import time\\nfor _ in range(3600): time.sleep(1)')\n"
        "module.command.callback = work\n"
    )
    code, said = strike(prepare, ["example", "x.csv"], signal.SIGINT)
    assert code == 130, said
    assert "interrupted: nothing was finished" in said


def test_ctrl_c_that_a_library_swallowed_writes_nothing_and_ends_with_130(tmp_path: Path) -> None:
    prepare = (
        "import os, signal, time\nimport privfunnel.data.instances as module\ninner = module.load\n"
        "def load(*args, **named):\n    try:\n        threading.Timer(0.3, tell).start()\n        time.sleep(3600)\n"
        "    except KeyboardInterrupt:\n        pass\n    return inner(*args, **named)\n"
        "module.load = load\n"
    )
    asked = ["solve", "synthetic-uniform", "--disclosure", "60%", "--out", str(tmp_path / "out")]
    code, said = strike(prepare, asked, signal.SIGINT)
    assert code == 130, said
    assert list(tmp_path.iterdir()) == []


def test_who_interrupts_after_the_files_were_written_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("privfunnel.app.cli.solve.show", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(["solve", "synthetic-skewed", "--disclosure", "60%", "--out", str(tmp_path / "out")])
    assert ended.value.code == 128 + signal.SIGINT
    assert f"interrupted: {tmp_path / 'out'} was written before" in capsys.readouterr().err
    assert (tmp_path / "out" / "solution.json").exists()
    with pytest.raises(SystemExit):
        main(["solve", "synthetic-skewed", "--disclosure", "60%"])
    assert "nothing is written" in capsys.readouterr().err


def test_the_search_hands_its_state_over_without_running_python() -> None:
    """A signal is heard where Python runs, and inside numba that crashes: named tuples are made outside."""
    table = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(3, 4)
    columns = np.ascontiguousarray((table / table.sum(axis=0)).T)
    pricing = branching.Pricing(columns, np.zeros(4), 0.5)
    state = branching.begin(pricing, 10)
    made = branching.advance(pricing, np.zeros((4, 4), dtype=np.uint8), None, state, 0.0, 5, 0.5, 3)
    assert type(made) is type(made[0]) is tuple
    assert Tree(*made[0]).nu.shape == state.tree.nu.shape
