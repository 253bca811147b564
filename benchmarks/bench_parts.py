"""Where steps of AEM, plain and accelerated, spend their time beside the exponentials: part by part, on census.

    python -m benchmarks.bench_parts [--quick]

Nanoseconds of one thread for one entry of the M × N table, all arrays in the core's own cache, taking turns. What it
costs to call a part from Python, measured on a table of four entries, is taken off. Then the drawing of starts, with
numba and without.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numba import njit

from benchmarks import harness
from benchmarks.counting import Place, counting
from privfunnel import Problem
from privfunnel.algorithms.aem import kernel_accelerated, kernel_math, kernel_plain, kernel_root, starts
from privfunnel.algorithms.aem.kernel_groups import Exponents, KernelTables, Outputs, Rows
from privfunnel.algorithms.aem.starts import Starts
from privfunnel.algorithms.aem.state import CUT, Tables, log_of
from privfunnel.data import instances
from privfunnel.measures import Array

Work = Callable[..., Any]

#: Whole steps that are measured and whose parts are counted.
STEPS = 40
#: Starts that are drawn for a solve.
RESTARTS = 30


@njit(error_model="numpy", fastmath=kernel_math.SUMS)
def _exponentials(base: Array, weight: Array) -> None:
    """The exponentials alone."""
    for i in range(base.shape[0]):
        for j in range(base.shape[1]):
            d = base[i, j]
            weight[i, j] = kernel_math.exp_(d if d > CUT else CUT)


@njit(error_model="numpy", fastmath=kernel_math.SUMS)
def _sums(weight: Array, log_w: Array, base: Array) -> float:
    """What an evaluation adds up, without its exponentials: the exponent, and four moments."""
    value = 0.0
    for i in range(weight.shape[0]):
        zeroth = first = second = third = 0.0
        for j in range(weight.shape[1]):
            w = log_w[i, j]
            e = weight[i, j] + 0.05 * w + base[i, j]
            zeroth += e
            first += e * w
            second += e * w * w
            third += e * w * w * w
        value += zeroth + first + second + third
    return value


class Setting(NamedTuple):
    """A run of AEM somewhere on its way, and the problem that it belongs to.

    Attributes:
        tables: The problem's tables.
        log_u: log p(x, y), shape (M, N).
        target: R − H(X), nats.
    """

    tables: KernelTables
    log_u: Array
    target: float

    @classmethod
    def of(cls, problem: Problem) -> Setting:
        """A random start after a few plain steps: the first ones have to find λ from nothing."""
        plain = Tables.of(problem.p_sx)
        tables, disclosure = KernelTables.of(plain), 0.6 * problem.disclosure_ceiling
        start = Starts(plain, problem.n_x + 1, 0).channels([0], np.array([disclosure]))[0]
        log_u, target = log_of(problem.p_x[:, None] * start), disclosure - plain.h_x
        kernel_plain.run(tables, log_u, 0.5, target, 20, 0.0)
        return cls(tables, log_u, target)


def _parts(setting: Setting) -> dict[str, Work]:
    """The parts of both steps, each to be done alone."""
    tables, log_u, _ = setting
    (n_x, n_y), n_s = log_u.shape, len(tables.log_p_s)

    def rows(weight: Array) -> Rows:
        return Rows(weight, np.ones(n_x), np.zeros(n_x), np.ones(n_x), np.zeros(n_x))

    def outputs() -> Outputs:
        return Outputs(np.empty((n_s, n_y)), np.empty((n_s, n_y)), np.empty(n_y))

    point, spare, here, after = rows(np.exp(log_u)), rows(np.exp(log_u)), outputs(), outputs()
    kernel_plain.find_outputs(tables, point, here)
    log_w = log_u - here.log_r
    exponents, kept = Exponents(log_u.copy(), log_w), Exponents(log_u.copy(), log_w.copy())
    buffers = kernel_accelerated.Buffers(log_u, log_u.copy(), log_u.copy(), log_w.copy())

    def copies() -> None:
        np.copyto(kept.base, log_u)
        np.copyto(kept.log_w, log_w)

    def exponents_from_copies() -> None:
        copies()
        kernel_plain._next_exponents(tables, here, kept, point, 0.0)

    def one_copy() -> None:
        np.copyto(buffers.base, log_u)

    def write_from_copy() -> None:
        one_copy()
        kernel_accelerated._write(tables, buffers, point, here, 0.0)

    return {
        "exponentials": lambda: _exponentials(log_u, spare.weight),
        "evaluation": lambda: kernel_root.evaluate(exponents, spare, tables.p_x, 0.05),
        "renewal": lambda: kernel_root.renew(exponents, spare, tables.p_x, 1e-6),
        "sums of an evaluation": lambda: _sums(point.weight, log_w, log_u),
        "outputs": lambda: kernel_plain.find_outputs(tables, point, after),
        "exponents": exponents_from_copies,
        "two copies": copies,
        "shift": lambda: kernel_accelerated._shift(tables, buffers, 0.5, spare),
        "accelerated exponents": lambda: kernel_accelerated._exponents(
            tables, here, buffers, point, 0.5, 2.0
        ),
        "write": write_from_copy,
        "copy": one_copy,
        "excess": lambda: kernel_accelerated._excess(after, here),
    }


def _plain(setting: Setting, run_: Work = kernel_plain.run) -> None:
    """Plain steps."""
    run_(setting.tables, setting.log_u.copy(), 0.05, setting.target, STEPS, 0.0)


def _accelerated(setting: Setting, run_: Work = kernel_accelerated.run) -> None:
    """Accelerated steps."""
    points = kernel_accelerated.Points(setting.log_u.copy(), setting.log_u.copy())
    state = kernel_accelerated.RunState(0.05, 1.0, 0.0, setting.tables.root_tolerance, np.inf, np.inf)
    run_(setting.tables, points, state, setting.target, STEPS, 0.0)


def _times(setting: Setting) -> dict[str, dict[str, float]]:
    """How often a step of either kind does each of its parts."""
    search: list[Place] = [(kernel_root, "evaluate"), (kernel_root, "renew")]
    own = ("_shift", "find_outputs", "_exponents", "_write", "_excess")
    with counting(
        [*search, (kernel_plain, "find_outputs")], [(kernel_root, "moved"), (kernel_plain, "root")]
    ) as plain:
        _plain(setting, kernel_plain.run.py_func)
    callers: list[Place] = [
        (kernel_root, "moved"),
        (kernel_accelerated, "root"),
        (kernel_accelerated, "try_step"),
    ]
    with counting([*search, *((kernel_accelerated, name) for name in own)], callers) as accelerated:
        _accelerated(setting, kernel_accelerated.run.py_func)
    return {
        kind: {name.removeprefix("_"): number / STEPS for name, number in sorted(count.items())}
        for kind, count in (("plain", plain), ("accelerated", accelerated))
    }


def _nanoseconds(setting: Setting, *, quick: bool) -> dict[str, float]:
    """What the parts and whole steps cost for an entry, without what it costs to call them from Python."""
    often = 20 if quick else 200
    tiny = _parts(Setting.of(Problem(np.array([[0.3, 0.1], [0.2, 0.4]]))))

    def many(work: Work) -> Work:
        return lambda: [work() for _ in range(often)]

    works = {("part", name): many(work) for name, work in _parts(setting).items()}
    works |= {("call", name): many(work) for name, work in tiny.items()}
    works |= {
        ("step", "plain"): lambda: _plain(setting),
        ("step", "accelerated"): lambda: _accelerated(setting),
    }
    taken = harness.interleaved(works, 3 if quick else 25, of=min)
    cost = {
        name: 1e9 * (taken["part", name] - taken["call", name]) / often / setting.log_u.size for name in tiny
    }
    cost["exponents"] -= cost.pop("two copies")
    cost["write"] -= cost["copy"]
    for name in ("plain", "accelerated"):
        cost[f"{name} step"] = 1e9 * taken["step", name] / STEPS / setting.log_u.size
    return cost


def _starts(problem: Problem, *, quick: bool) -> dict[str, float]:
    """CPU seconds in which the starts of a solve are drawn and lifted to R, with numba and without."""
    tables, disclosures = Tables.of(problem.p_sx), np.full(RESTARTS, 0.6 * problem.disclosure_ceiling)

    def draw(*, with_numba: bool) -> None:
        with mock.patch.object(starts, "COMPILED", with_numba):
            Starts(tables, problem.n_x + 1, 0).channels(range(RESTARTS), disclosures)

    works = {
        "with numba": lambda: draw(with_numba=True),
        "without": lambda: draw(with_numba=False),
    }
    return harness.interleaved(works, 3 if quick else 25, of=min)


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure, and return the numbers."""
    setting = Setting.of(instances.load("census-income"))
    return {
        "machine": harness.machine(),
        "times": _times(setting),
        "ns_an_entry": _nanoseconds(setting, quick=quick),
        "starts": {
            name: _starts(instances.load(name), quick=quick) for name in ("heart-failure", "census-income")
        },
    }


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats")
    result = run(quick=parser.parse_args().quick)
    print(result)
    harness.save("parts", result)


if __name__ == "__main__":
    main()
