"""The work of one version for :mod:`benchmarks.versions`: reads names of cases, writes seconds and leakages as JSON.

It uses what every version has: ``solve``, ``trace``, the packaged instances and options that kept their names.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import privfunnel as pf

AEM = {"solver": "aem", "threads": 1}
#: A limit that no case meets, so that no answer depends on the machine.
LONG = 600.0
#: CPU seconds for which a case is repeated, so that the clock's own grain does not matter, and in a rehearsal.
LEAST, LEAST_REHEARSED = 0.25, 0.01

load = pf.instances.load


def cases(quick: bool) -> dict[str, Callable[[], list[float]]]:
    """What to measure, each returning the leakages found, in nats."""
    pf.Global().warm_up()  # compiled, whether these small tables pay for it or not
    uniform, skewed = load("synthetic-uniform"), load("synthetic-skewed")
    small: dict[str, Callable[[], list[float]]] = {
        "aem, synthetic, 8 points": lambda: curve(uniform, 8, **AEM),
        "global, synthetic-skewed, 20 points": lambda: curve(skewed, 20, solver="global", time_limit=LONG),
    }
    heart = load("heart-failure")
    rng = np.random.default_rng(11)
    table, share = rng.integers(1, 40, (3, 40)), rng.random(40)
    kept = np.stack([share, 1.0 - share]) * table.sum(axis=0)
    useful = pf.Problem(table, p_ux={"task": kept / kept.sum()})
    small |= {
        "guarded, heart failure, R = 0.8 H(X)": lambda: point(
            heart, 0.8, known=[["anaemia"]], time_limit=LONG
        ),
        "task, 3 × 40, half of what is useful": lambda: [
            pf.solve(useful, utility=0.5 * useful.utility_ceiling, time_limit=LONG).leakage
        ],
        "binary, 2 × 20 000, R = 0.9 H(X)": lambda: point(wide(), 0.9, time_limit=LONG),
    }
    if quick:
        return small
    census = load("census-income")
    perturbed = load("heart-failure", perturbation="probabilities")
    dense = pf.Problem(np.random.default_rng(0).dirichlet(np.ones(120)).reshape(6, 20))
    proved = pf.trace(heart, points=20, solver="global", time_limit=LONG)
    proofs = list({id(s.certificate): s.certificate for s in proved.solutions if s.certificate}.values())

    def check() -> list[float]:
        for proof in proofs:
            replace(proof).verify(heart)  # a copy has not been verified yet
        return [proof.lower_bound(0.8 * heart.disclosure_ceiling) for proof in proofs]

    return small | {
        "aem, heart failure, 20 points": lambda: curve(perturbed, 20, **AEM),
        "aem, heart failure, 20 points, plain": lambda: curve(perturbed, 20, **AEM, accelerate=False),
        "aem, census, R = 0.6 H(X)": lambda: point(census, 0.6, **AEM),
        "auto, heart failure, 20 points": lambda: curve(heart, 20, time_limit=LONG),
        "global, heart failure +1e-3, 20 points": lambda: curve(
            perturbed, 20, solver="global", time_limit=LONG
        ),
        "global, census, R = 0.6 H(X), gap 1e-5": lambda: point(
            census, 0.6, solver="global", gap=1e-5, time_limit=LONG
        ),
        "global, dense 6 × 20, R = 0.55 H(X), gap 1e-7": lambda: point(
            dense, 0.55, solver="global", gap=1e-7, time_limit=LONG
        ),
        "check the proofs of heart failure": check,
    }


def wide() -> pf.Problem:
    """Two private symbols and many public ones."""
    return pf.Problem(np.random.default_rng(5).integers(1, 1000, (2, 20_000)))


def curve(problem: pf.Problem, points: int, **options: object) -> list[float]:
    """Leakages of a traced curve."""
    return [float(leakage) for leakage in pf.trace(problem, points=points, **options).leakage]


def point(problem: pf.Problem, share: float, **options: object) -> list[float]:
    """Leakage of one point."""
    return [pf.solve(problem, disclosure=share * problem.disclosure_ceiling, **options).leakage]


def main() -> None:
    """Say what there is to measure, then measure what is asked for until nothing more is."""
    warnings.simplefilter("ignore")
    quick = "--quick" in sys.argv
    work, least = cases(quick), LEAST_REHEARSED if quick else LEAST
    print(json.dumps({"version": pf.__version__, "cases": list(work)}), flush=True)
    for line in sys.stdin:
        began, seconds, runs = time.process_time(), 0.0, 0
        leakages: list[float] = []
        while seconds < least:
            leakages = work[line.strip()]()
            seconds, runs = time.process_time() - began, runs + 1
        print(json.dumps({"seconds": seconds / runs, "leakages": leakages}), flush=True)


if __name__ == "__main__":
    main()
