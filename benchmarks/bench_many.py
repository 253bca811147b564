"""Many private symbols: where proofs end, and what cost depends on.

    python -m benchmarks.bench_many [--quick] [--adult adult.data] [eight | growth | census | line | upper …]

*Eight*: eight private symbols and some thousand classes, ``auto`` beside AEM with 30 restarts of 500 steps. *Growth*:
the gap that ``auto`` leaves in a few seconds, by the numbers of private symbols and of classes. *Census*: the census
with 1e-3 added to every probability, one component of 160 public symbols, point by point. *Line*: twenty points of UCI
Adult, income and sex private, seven public columns, from the file ``adult.data``, as ``trace`` places them; *upper*:
twenty points between what is free and H(X). Other tables are those of :mod:`benchmarks.bench_large`; limits count CPU
time, and compilation is not counted. Parts that are not named keep the results they have.
"""

from __future__ import annotations

import argparse
import csv
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import privfunnel as pf
from benchmarks import harness
from benchmarks.bench_large import survey, timed
from privfunnel.algorithms.columns.plain import clique_pricing as cliqued
from privfunnel.algorithms.columns.plain import support_pricing as supported
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.model.equal_symbols import lumping_of
from privfunnel.model.problem import Problem
from privfunnel.solving.free_disclosure import free_disclosure_bounds

#: Public symbols and people whose surveys have about a thousand classes of eight private symbols.
EIGHT, EIGHT_QUICK = (2_150, 51_000), (70, 80)
#: Shares of the way from R0 to H(X): the upper half.
SHARES = (0.75, 0.625, 0.5)
#: Private symbols; public symbols and people, for about 100, 300 and 1000 classes of three private symbols.
PRIVATE = (2, 3, 4, 8)
TABLES = ((250, 2_500), (700, 20_000), (2_000, 120_000))
GROWTH_SECONDS = 5.0
#: Shares of H(X).
CENSUS = (0.95, 0.9, 0.85, 0.8, 0.7)
#: Columns of adult.data, those that are public as they are, and where bands of hours and of age begin.
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital", "occupation", "relationship", "race", "sex",
    "gain", "loss", "hours", "country", "income",
)  # fmt: skip
AS_THEY_ARE = ("workclass", "marital", "occupation", "race", "country")
HOURS, AGES = (20, 35, 40, 41, 50, 60), tuple(range(22, 92, 5))
#: Points of a curve, and the CPU seconds of each between what is free and H(X).
LINE_POINTS, UPPER_SECONDS = 20, 15.0


def answered(problem: Problem, disclosure: float, **options: Any) -> dict[str, Any]:
    """What ``auto`` gives, beside the closed form: leakages in nats."""
    answer, seconds = timed(lambda: pf.solve(problem, disclosure=disclosure, throw=False, **options))
    return {
        "share": disclosure / problem.disclosure_ceiling, "status": answer.status.value, "leakage": answer.leakage,
        "lower_bound": answer.lower_bound, "closed_form": float(problem.lower_bound(disclosure)),
        "cpu_seconds": seconds,
    }  # fmt: skip


def eight(quick: bool) -> dict[str, Any]:
    """Eight private symbols beside AEM."""
    n_x, people = EIGHT_QUICK if quick else EIGHT
    problem = survey(8, n_x, people)
    bounds, seconds = timed(lambda: free_disclosure_bounds(problem))
    points = []
    effort = {"restarts": 2, "max_steps": 20} if quick else {"restarts": 30, "max_steps": 500}
    for share in SHARES:
        disclosure = bounds[0] + share * (problem.disclosure_ceiling - bounds[0])
        row = answered(problem, disclosure)
        print(row, flush=True)
        aem, taken = timed(
            lambda disclosure=disclosure: pf.solve(
                problem, disclosure=disclosure, solver="aem", throw=False, threads=1, **effort
            )
        )
        points.append({**row, "way": share, "aem": aem.leakage, "aem_seconds": taken})
        print(points[-1], flush=True)
    return {
        "n_x": n_x, "n_classes": lumping_of(problem).n_classes, "h_x": problem.disclosure_ceiling,
        "leakage_ceiling": problem.leakage_ceiling, "free": bounds, "free_seconds": seconds, "points": points,
    }  # fmt: skip


def growth(quick: bool) -> list[dict[str, Any]]:
    """Gaps after a few seconds at 90 % of H(X)."""
    found = []
    for n_s in PRIVATE[: 2 if quick else None]:
        for n_x, people in TABLES[: 1 if quick else None]:
            problem = survey(n_s, n_x, people)
            limit = 0.1 if quick else GROWTH_SECONDS
            row = answered(problem, 0.9 * problem.disclosure_ceiling, time_limit=limit)
            sizes = {"n_s": n_s, "n_x": n_x, "n_classes": lumping_of(problem).n_classes}
            found.append({**sizes, "leakage_ceiling": problem.leakage_ceiling, **row})
            print(found[-1], flush=True)
    return found


def census(quick: bool) -> dict[str, Any]:
    """The census with 1e-3 on every probability."""
    name = "heart-failure" if quick else "census-income"
    problem = pf.instances.load(name, perturbation="probabilities")
    found = []
    for share in CENSUS[: 1 if quick else None]:
        found.append(answered(problem, share * problem.disclosure_ceiling))
        print(found[-1], flush=True)
    return {
        "n_s": problem.n_s,
        "n_x": problem.n_x,
        "leakage_ceiling": problem.leakage_ceiling,
        "points": found,
    }


def adult(path: Path) -> Problem:
    """UCI Adult: income and sex private, seven public columns."""
    lines = csv.reader(path.read_text("utf-8").splitlines(), skipinitialspace=True)
    table = dict(zip(ADULT, np.array([row for row in lines if len(row) == len(ADULT)]).T, strict=True))
    public = [np.unique(table[name], return_inverse=True)[1] for name in AS_THEY_ARE]
    public += [np.digitize(table[name].astype(float), at) for name, at in (("hours", HOURS), ("age", AGES))]
    x = np.unique(np.column_stack(public), axis=0, return_inverse=True)[1].ravel()
    private = np.column_stack([table["income"], table["sex"]])
    s = np.unique(private, axis=0, return_inverse=True)[1].ravel()
    counts = np.zeros((int(s.max()) + 1, int(x.max()) + 1))
    np.add.at(counts, (s, x), 1.0)
    return pf.Problem(counts)


def line(quick: bool, path: Path | None, *, upper: bool) -> dict[str, Any] | None:
    """Twenty points of one curve, all of it or its upper part; None without the file."""
    if path is None and not quick:
        return None
    problem = survey(3, 90, 400) if path is None or quick else adult(path)
    asked: dict[str, Any] = {"points": 4 if quick else LINE_POINTS}
    if upper:
        ends = pf.free_disclosure(problem), problem.disclosure_ceiling
        asked = {"disclosures": np.linspace(*ends, asked["points"] + 1)[1:], "time_limit": UPPER_SECONDS}
    curve, seconds = timed(lambda: pf.trace(problem, **asked, throw=False))
    points = [
        {"share": point.disclosure / problem.disclosure_ceiling, "status": point.status.value,
         "leakage": point.leakage, "lower_bound": point.lower_bound}
        for point in curve.solutions
    ]  # fmt: skip
    return {
        "n_s": problem.n_s, "n_x": problem.n_x, "n_classes": lumping_of(problem).n_classes, "cpu_seconds": seconds,
        "points": points,
    }  # fmt: skip


PARTS: dict[str, Callable[[bool], Any]] = {"eight": eight, "growth": growth, "census": census}
CURVES = {"line": False, "upper": True}


def main() -> None:
    """Measure and write results/many.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables only")
    parser.add_argument("--adult", type=Path, help="the file adult.data, for the parts line and upper")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join((*PARTS, *CURVES))}; all by default")
    options = parser.parse_args()
    parts = PARTS | {
        name: functools.partial(line, path=options.adult, upper=upper) for name, upper in CURVES.items()
    }
    warnings.simplefilter("ignore")
    small = survey(3, 90, 400)
    pf.solve(small, disclosure=0.9 * small.disclosure_ceiling)  # compile
    supported.load_kernels()
    cliqued.load_kernels()
    for part in options.parts or parts:
        with cpu_clock():
            found = parts[part](options.quick)
        if found is None:
            print(f"{part} needs --adult: it keeps the result it has")
            continue
        known = harness.load("many") or {}
        harness.save("many", {**known, "machine": harness.machine(), part: found})
    print(harness.results() / "many.json")


if __name__ == "__main__":
    main()
