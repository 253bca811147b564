"""Where a step of AEM spends its time, beside the exponentials: its parts, one by one, on a census-sized run.

    python -m benchmarks.bench_parts [--quick]

Nanoseconds of one thread for one entry of the M × N table, all arrays in the core's own cache, taking turns.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numba import njit

from benchmarks import harness
from privfunnel import instances
from privfunnel.measures import Array
from privfunnel.solvers.aem import kernel_math, kernel_plain, kernel_root
from privfunnel.solvers.aem.kernel_groups import Exponents, KernelTables, Outputs, Rows
from privfunnel.solvers.aem.starts import Starts
from privfunnel.solvers.aem.state import CUT, Tables, log_of


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


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure, and return the numbers."""
    problem = instances.load("census-income")
    plain = Tables.of(problem.p_sx)
    tables, n_y = KernelTables.of(plain), problem.n_x + 1
    start = Starts(plain, n_y, 0).channels([0], np.array([0.6 * problem.disclosure_ceiling]))[0]
    log_u = log_of(problem.p_x[:, None] * start)
    shape, n_x, n_s = log_u.shape, problem.n_x, problem.n_s
    rows = Rows(np.exp(log_u), np.ones(n_x), np.zeros(n_x), np.ones(n_x), np.zeros(n_x))
    outputs = Outputs(np.empty((n_s, n_y)), np.empty((n_s, n_y)), np.empty(n_y))
    kernel_plain.find_outputs(tables, rows, outputs)
    log_w = log_u - outputs.log_r
    exponents = Exponents(log_u.copy(), log_w)
    spare = Rows(np.empty(shape), np.ones(n_x), np.zeros(n_x), np.ones(n_x), np.zeros(n_x))
    kept = Exponents(np.empty(shape), np.empty(shape))

    def copies() -> None:
        np.copyto(kept.base, log_u)
        np.copyto(kept.log_w, log_w)

    def exponents_from_copies() -> None:
        copies()
        kernel_plain._next_exponents(tables, outputs, kept, rows, 0.0)

    times = 20 if quick else 200
    works = {
        "exponentials": lambda: _exponentials(log_u, spare.weight),
        "evaluation": lambda: kernel_root.evaluate(exponents, spare, tables.p_x, 0.05),
        "renewal": lambda: kernel_root.renew(exponents, spare, tables.p_x, 1e-6),
        "sums of an evaluation": lambda: _sums(rows.weight, log_w, log_u),
        "outputs": lambda: kernel_plain.find_outputs(tables, rows, outputs),
        "exponents": exponents_from_copies,
        "two copies": copies,
    }

    def many(work: Any) -> Any:
        return lambda: [work() for _ in range(times)]

    taken = harness.interleaved({name: many(work) for name, work in works.items()}, 3 if quick else 15)
    cost = {name: 1e9 * seconds / times / log_u.size for name, seconds in taken.items()}
    cost["exponents"] -= cost.pop("two copies")
    stored = harness.load("step")
    counted = {"kernel": 2.4, "renewals": 1.3} if stored is None else stored["evaluations_a_step"]
    return {
        "machine": harness.machine(),
        "evaluations": counted["kernel"],
        "renewals": counted["renewals"],
        "ns_an_entry": cost,
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
