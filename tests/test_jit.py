"""Compiled kernels: the cache on disk never serves code that is older than what it was made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers_kernels import plain
from privfunnel.jit import compiled, compiles, compiling, fingerprint
from privfunnel.solvers.posteriors.boxes import plogp

CALLER = """
from below import double
from privfunnel.jit import compiled

@compiled
def quadruple(x):
    return double(double(x))

print(quadruple(3.0), sum(quadruple.stats.cache_hits.values()))
"""

CALLED = """
from privfunnel.jit import compiled

FACTOR = {factor}

@compiled
def double(x):
    return {body}
"""


def test_seconds_of_compiling_are_told_apart_from_those_of_the_work() -> None:
    numba = pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    kernel = numba.njit(lambda x: np.sort(x)[::-1].sum())
    with compiling() as first:
        kernel(np.ones(3))
    with compiling() as second:
        kernel(np.ones(3))
    assert first() > 0.0
    assert second() == 0.0


def test_without_numba_or_where_it_is_forbidden_kernels_stay_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not compiles()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not compiles()
    assert compiled(abs) is abs

    class Hidden:
        def find_spec(self, name: str, *_: object) -> None:
            raise ModuleNotFoundError(name, name=name)

    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    assert not compiles()


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_was_edited(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    (tmp_path / "above.py").write_text(CALLER)

    def run(factor: float, body: str) -> list[str]:
        (tmp_path / "below.py").write_text(CALLED.format(factor=factor, body=body))
        path = os.pathsep.join([str(tmp_path), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", "import above"],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "0"},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return done.stdout.split()

    assert run(2.0, "FACTOR * x") == ["12.0", "0"]
    assert run(2.0, "FACTOR * x") == ["12.0", "1"]  # nothing was edited: from the cache
    assert run(2.0, "FACTOR * x + 1.0") == ["15.0", "0"]
    assert run(5.0, "FACTOR * x + 1.0") == ["81.0", "0"]  # a constant counts as well


def test_a_fingerprint_is_the_same_for_the_same_source_only() -> None:
    def one(x: float) -> float:
        return plogp(x) + 1.0

    def two(x: float) -> float:
        return plogp(x) + 2.0

    def other(x: float) -> float:
        return float(np.sqrt(x)) + 1.0

    assert len({fingerprint(kernel) for kernel in (one, two, other)}) == 3
    assert fingerprint(one) == fingerprint(one)


def test_options_are_handed_on() -> None:
    pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    kernel = compiled(nogil=True)(plain(plogp))
    assert kernel.targetoptions["nogil"]
    assert kernel.targetoptions["error_model"] == "numpy"
    assert kernel(0.5) == plogp(0.5)
