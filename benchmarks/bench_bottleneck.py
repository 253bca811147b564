"""The information bottleneck: ABP against Blahut-Arimoto at given rates, and what a proof costs.

    python -m benchmarks.bench_bottleneck [--quick]

The census table, one thread, no restarts, tolerance 1e-9, taking turns. Blahut-Arimoto is given the rate, for which it
searches the multiplier, as ``bottleneck.solve`` does. The values are compared at ABP's own multiplier: Blahut-Arimoto
goes on from ABP's answer until it stands still to 1e-12, and what I(X;Y) − β I(S;Y) loses by that is the difference.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from benchmarks import harness
from privfunnel.data import instances
from privfunnel.neighbours import bottleneck

INSTANCE = "census-income"
SHARES = (0.36, 0.4, 0.5, 0.6, 0.7, 0.8)


def point(share: float, repeats: int) -> dict[str, Any]:
    """One rate, by both methods and with a proof."""
    problem = instances.load(INSTANCE)
    rate = share * problem.disclosure_ceiling
    answers: dict[str, Any] = {}
    works = {
        "blahut_arimoto": lambda: bottleneck.solve(problem, rate=rate, restarts=0),
        "abp": lambda: bottleneck.solve(problem, rate=rate, restarts=0, method="abp"),
        "proved": lambda: bottleneck.prove(problem, rate),
    }
    seconds = harness.interleaved(
        {
            name: partial(lambda name, work: answers.update({name: work()}), name, work)
            for name, work in works.items()
        },
        repeats,
    )
    searched, found, proved = (answers[name] for name in works)
    beta = 1.0 / found.slope
    converged, _ = bottleneck.iterate(problem, found.channel, beta, tolerance=1e-12, max_steps=50_000)
    after = problem.evaluate(converged)
    lost = (found.disclosure - beta * found.leakage) - (after.disclosure - beta * after.leakage)
    return {
        "share": share,
        "rate": rate,
        "seconds": seconds,
        "ratio": seconds["abp"] / seconds["blahut_arimoto"],
        "blahut_arimoto": searched.leakage,
        "abp": found.leakage,
        "difference": abs(lost) / beta,
        "proved": proved.solution.leakage,
        "upper_bound": proved.upper_bound,
        "boxes": 0 if proved.certificate is None else proved.certificate.n_nodes,
    }


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one rate, one repeat")
    quick = parser.parse_args().quick
    points = []
    for share in SHARES[1:2] if quick else SHARES:
        points.append(point(share, 1 if quick else 2))
        print(points[-1], flush=True)
    harness.save("bottleneck", {"machine": harness.machine(), "instance": INSTANCE, "points": points})


if __name__ == "__main__":
    main()
