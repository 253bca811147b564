"""Some thousand damaged files and odd options, always the same ones: an answer or one line, never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("python_calamine")

import fuzzing

#: Kinds whose readers are compiled code that a damaged file might bring down: in a process of their own.
COMPILED = ("arrow", "parquet", "duckdb", "sqlite", "xlsx", "ods", "json")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in fuzzing.SIZES if kind not in COMPILED])
def test_odd_inputs_are_answered_or_refused_in_one_line(kind: str) -> None:
    outcomes = fuzzing.fuzz({kind: fuzzing.SIZES[kind]}, seed=0)[kind]
    assert outcomes.total() == fuzzing.SIZES[kind]
    assert (outcomes["read"] > 0) is (kind != "device")


@pytest.mark.slow
def test_damaged_files_never_bring_the_process_down(tmp_path: Path) -> None:
    log = tmp_path / "case"
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)  # what it runs of the package is traced elsewhere
    done = subprocess.run(
        [sys.executable, fuzzing.__file__, "--kinds", ",".join(COMPILED), "--log", str(log)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, f"{log.read_text()}: {done.stderr[-2000:]}"
    outcomes = json.loads(done.stdout)
    for kind in COMPILED:
        assert sum(outcomes[kind].values()) == fuzzing.SIZES[kind]
        assert min(outcomes[kind].get(what, 0) for what in ("read", "refused")) > 0


def test_a_case_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privfunnel.data.tables.count", lambda *_args, **_options: 1 // 0)
    with pytest.raises(AssertionError, match=r"case csv 0 0: ZeroDivisionError"):
        fuzzing.fuzz({"csv": 1}, seed=0)
