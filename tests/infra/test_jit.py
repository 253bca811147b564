"""Compiled kernels: the cache on disk never serves code that is older than what it was made of."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from helpers_kernels import plain
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.posteriors.boxes import plogp
from privfunnel.infra import jit
from privfunnel.infra.jit import compiled, compiles, compiling, fingerprint

CALLER = """
from below import double
from privfunnel.infra.jit import compiled

@compiled
def quadruple(x):
    return double(double(x))

print(quadruple(3.0), sum(quadruple.stats.cache_hits.values()))
"""

CALLED = """
from privfunnel.infra.jit import compiled

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


@compiled(later=True)
def halved(x: float) -> float:
    """A kernel that waits."""
    return 0.5 * x


@compiled
def quartered(x: float) -> float:
    """A kernel that calls one that waits."""
    return 0.5 * halved(x)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> jit.Kernel:
    """A kernel that waits and is not in the cache, in a process that asked for nothing yet."""
    pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    monkeypatch.setattr(jit, "_FAMILY", jit._Family())
    kernel = jit.Kernel(plain(halved), {}, inner=False)
    monkeypatch.setattr(jit.Kernel, "cached", False)
    return kernel


def test_a_kernel_waits_until_what_is_foreseen_and_done_pays(waiting: jit.Kernel) -> None:
    assert not jit.pays(1.0, waiting)
    assert waiting(3.0) == 1.5
    assert not waiting.signatures
    room = jit.left()
    jit.spend(room / 2.0)
    assert jit.left() == room / 2.0
    assert not jit.pays(room / 4.0, waiting)
    assert jit.pays(room / 2.0, waiting)
    assert waiting(3.0) == 1.5
    assert len(waiting.signatures) == 1
    assert jit.left() == np.inf
    assert jit.pays(0.0, waiting)  # for good


def test_a_kernel_waits_no_longer_where_enough_was_spent_or_it_is_told_to(
    waiting: jit.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not jit.pays(0.0, waiting)
    jit.spend(jit.left())
    assert jit.pays(0.0, waiting)
    monkeypatch.setattr(jit, "_FAMILY", jit._Family())
    jit.wait_no_longer()
    assert jit.pays(0.0, waiting)
    monkeypatch.setattr(jit, "_FAMILY", jit._Family())
    monkeypatch.setattr(jit.Kernel, "cached", True)
    assert jit.pays(0.0, waiting)


def test_kernels_call_one_that_waits() -> None:
    assert quartered(3.0) == 0.75


def test_compiling_is_announced_once_and_no_deadline_pays_for_it() -> None:
    numba = pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    assert compiled(plain(halved)) is not None  # numba tells from now on
    said: list[str] = []
    jit.announce(lambda: said.append("compiling"))
    before = {clock: jit.seconds_compiling(clock) for clock in ("wall", "cpu")}
    begun = time.monotonic(), time.thread_time()
    deadline, cpu = Deadline(clock="wall"), Deadline(clock="cpu")
    numba.njit(lambda x: np.sort(x)[::-1].sum())(np.ones(3))
    numba.njit(lambda x: np.sort(x)[::2].sum())(np.ones(3))
    took = {clock: jit.seconds_compiling(clock) - before[clock] for clock in before}
    assert said == ["compiling"]
    assert min(took.values()) > 0.0
    assert deadline.elapsed() <= time.monotonic() - begun[0] + 1e-6 - took["wall"]
    assert cpu.elapsed() <= time.thread_time() - begun[1] + 1e-6 - took["cpu"]


FIRST = """
import sys
import numpy as np
import privfunnel as pf
from privfunnel.infra import jit
solution = pf.solve(pf.instances.load("heart-failure"), disclosure="60%")
np.save(sys.argv[1], np.append(solution.channel.ravel(), [solution.leakage, solution.lower_bound]))
jit.wait_no_longer()
print(jit.seconds_compiling("wall"))
"""


@pytest.mark.slow
def test_a_first_solve_of_a_small_table_compiles_nothing_and_finds_the_same(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(tmp_path / "first.npy")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == 0.0
    assert not list(tmp_path.rglob("*.nbc"))
    jit.wait_no_longer()
    solution = pf.solve(pf.instances.load("heart-failure"), disclosure="60%")
    first = np.load(tmp_path / "first.npy")
    assert np.abs(first[:-2] - solution.channel.ravel()).max() < 1e-6
    assert np.abs(first[-2:] - [solution.leakage, solution.lower_bound]).max() < 1e-9
