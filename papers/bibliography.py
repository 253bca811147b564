# ruff: noqa: E501 -- the page's own sentences
"""Run every method of the paper's bibliography for a known discrete distribution: ``docs/bibliography.md``.

    python papers/bibliography.py [--out out/bibliography] [--time-limit 10] [--quick]

Each problem is saved when it is finished, and an interrupted run goes on where it stopped; ``--write`` makes the page
from what is there. ``--quick`` rehearses it on the smallest problem and leaves ``docs/`` alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from prose import wrapped

import privfunnel as pf
from privfunnel.data import instances
from privfunnel.model.problem import Problem

DOCS = Path(__file__).resolve().parents[1] / "docs"

#: Rates of the bottleneck, as shares of H(X), and disclosures of the funnel: so many, uniform inside (0, H(X)).
RATES = (0.2, 0.4, 0.6, 0.8)
POINTS = 6
#: Shares of the way from what is known of S anyway to what X tells.
GUESSES = 6
#: Shares of the distortion at which nothing more is gained.
DISTORTIONS = (0.25, 0.5, 0.75)
#: The χ² relaxation is solved for as many public symbols at most.
MOST_CHI_SQUARED = 60


@dataclass(frozen=True)
class Row:
    """A reference: who, what it does, our name for it, the key of its measurement, and its label in comparisons."""

    reference: str
    what: str
    name: str
    key: str
    entrant: str


ROWS = (
    Row("Calmon, Fawaz 2012", "least I(S;Y) for a bounded distortion; convex", "`pf.distortion`", "distortion", "distortion"),
    Row("Makhdoumi, Salamatian, Fawaz, Médard 2014", "the privacy funnel; greedy merging of pairs", "`greedy`", "greedy", "greedy"),
    Row("Calmon, Makhdoumi, Médard 2015", "the most disclosure without leakage, a linear program", "`perfect`", "perfect", "perfect"),
    Row("du Pin Calmon et al. 2017", "principal inertia components, the spectrum of (S, X)", "`pf.inertia`", "inertia", "sdp"),
    Row("Asoodeh, Diaz, Alajaji, Linder 2019", "right guesses of X against right guesses of S, a linear program",
        "`pf.guessing_funnel`", "guessing", "guessing"),
    Row("Bu, Wang, Wornell 2021", "the local approximation, a semidefinite program", "`sdp`", "sdp", "sdp"),
    Row("Bu, Wang, Wornell 2021, completed", "doubly nonnegative bound of the χ² funnel", "`pf.chi_squared_funnel`", "chi", ""),
    Row("Blahut 1972; Tishby, Pereira, Bialek 1999", "the bottleneck by alternating steps for a multiplier",
        '`pf.bottleneck`, `"blahut-arimoto"`', "blahut-arimoto", "bottleneck-blahut-arimoto"),
    Row("Chen, Wu, Ye, Wu, Zhang, Wu 2024", "ABP: the bottleneck at a given rate", '`pf.bottleneck`, `"abp"`', "abp", "bottleneck-abp"),
    Row("Chen et al. 2024, with proof", "ABP, improved until it is proved", "`pf.bottleneck.prove`", "proved", "bottleneck-abp"),
    Row("Slonim, Tishby 1999", "the bottleneck by merging", '`pf.bottleneck`, `"agglomerative"`', "agglomerative", "bottleneck-agglomerative"),
    Row("Wu et al. 2023, after Blahut 1972", "rate distortion, the distortion funnel with S = X", "`pf.distortion`",
        "rate-distortion", ""),
    Row("Ding, Sadeghi 2019", "merging of subsets, a difference of submodular functions", "`submodular`", "submodular", "submodular"),
    Row("Huang, El Gamal, El Gamal 2022", "Douglas-Rachford splitting, as published", "`drs`", "drs-published", "drs-published"),
    Row("the same, repaired", "with descent and a test of stationarity", "`drs-repaired`", "drs-repaired", "drs-repaired"),
    Row("Huang, El Gamal 2024", "difference of convex functions, as published", "`dca`", "dca-published", "dca-published"),
    Row("the same, repaired", "its convex subproblem solved", "`dca-repaired`", "dca-repaired", "dca-repaired"),
    Row("the paper itself", "AEM, 30 starts", "`aem`", "aem", "aem"),
    Row("this package", "column generation with exact pricing, proved", "`auto`", "auto", "auto"),
)  # fmt: skip

#: References that are no method for a known distribution, and what there is of them.
OTHERS = """Of the references that learn from samples instead of a known distribution, `pf.deep` has Tripathy, Wang and Ishwar 2019, Bertran et
al. 2019, Rodríguez-Gálvez, Thobaben and Skoglund 2021, Razeghi et al. 2023 and 2024, and the part of Huang and El Gamal 2024
for unknown distributions; Romanelli et al. 2019 and Kolchinsky, Tracey and Wolpert 2019 are not here. The LM rate (Ye et al.
2022) is about a given code for a channel: it has neither a private variable nor a release to choose. Gupta and Chen 2011 explain
the EM algorithm, Blake 1998 is the source of the data.

*In comparisons* is the label under which `privfunnel compare` and [every method, side by side](comparison.md) have a method: a
solver of the funnel, or one for another problem with what its channels disclose and leak. A bound has no channel, and where S = X
nothing is private. The worst-case baselines beside them (`lip-…`: watchdog, merging, vertices, randomised response) are
methods that the paper does not name."""

Measurement = dict[str, Any]


def timed(work: Callable[[], float | None]) -> Measurement:
    """What a piece of work measures, as a share, and its CPU seconds."""
    begin = time.process_time()
    distance = work()
    return {"distance": distance, "seconds": time.process_time() - begin}


def of_bottleneck(problem: Problem, rates: tuple[float, ...]) -> dict[str, Measurement]:
    """How far each method of the bottleneck is below the proved bound, as a share of I(S;X), the mean over rates."""
    wanted = [share * problem.disclosure_ceiling for share in rates]
    bounds: dict[float, float] = {}

    def below(values: list[float]) -> float:
        return (
            float(np.mean([bounds[r] - v for r, v in zip(wanted, values, strict=True)]))
            / problem.leakage_ceiling
        )

    def proving() -> float:
        points = [pf.bottleneck.prove(problem, rate) for rate in wanted]
        bounds.update(zip(wanted, (point.upper_bound for point in points), strict=True))
        return below([point.solution.leakage for point in points])

    found = {"proved": timed(proving)}
    for method in ("blahut-arimoto", "abp", "agglomerative"):
        found[method] = timed(
            lambda method=method: below(
                [pf.bottleneck.solve(problem, rate=r, restarts=0, method=method).leakage for r in wanted]
            )
        )
    return found


def of_neighbours(problem: Problem) -> dict[str, Measurement]:
    """What problems of their own are proved to, as a share of their scale."""

    def guessing() -> float:
        return max(point.gap for point in pf.guessing_funnel.trace(problem, points=GUESSES).points)

    def perfect() -> float:
        least, most = pf.free_disclosure_bounds(problem)
        return (most - least) / problem.disclosure_ceiling

    def distortion() -> float:
        free = pf.distortion.free_distortion(problem)
        points = [pf.distortion.solve(problem, distortion=share * free) for share in DISTORTIONS]
        return max(max(point.leakage - point.lower_bound, 0.0) for point in points) / problem.leakage_ceiling

    def rate_distortion() -> float:
        same = Problem(np.diag(problem.p_x))
        free = pf.distortion.free_distortion(same)
        points = [pf.distortion.solve(same, distortion=share * free) for share in DISTORTIONS]
        return max(max(point.leakage - point.lower_bound, 0.0) for point in points) / same.leakage_ceiling

    def spectrum() -> None:
        pf.inertia.components(problem)

    found = {"guessing": timed(guessing), "perfect": timed(perfect), "distortion": timed(distortion)}
    found |= {"inertia": timed(spectrum), "rate-distortion": timed(rate_distortion)}
    if problem.n_x <= MOST_CHI_SQUARED and importlib.util.find_spec("clarabel") is not None:

        def relaxation() -> float:
            asked = 0.7 * (problem.n_x - 1)
            bound = pf.chi_squared_funnel.lower_bound(problem, asked)
            table = problem.p_s_given_x
            reached = float(np.sum((table.T / problem.p_s) @ table * bound.matrix)) - 1.0
            return max(reached - bound.value, 0.0) / pf.inertia.components(problem).chi_squared

        found["chi"] = timed(relaxation)
    return found


def of_funnel(problem: Problem, limit: float, jobs: int) -> dict[str, Measurement]:
    """Mean leakage above the proved bound after time sharing, as a share of I(S;X)."""
    labels = [
        row.key
        for row in ROWS
        if row.name.strip("`") in pf.algorithms.registry.names() and row.key != "perfect"
    ]
    result = pf.compare(problem, solvers=labels, points=POINTS, time_limit=limit, jobs=jobs)
    return {
        row["solver"]: {
            "distance": None
            if row["mean_excess_shared"] is None
            else row["mean_excess_shared"] / problem.leakage_ceiling,
            "seconds": row["cpu_seconds"],
        }
        for row in result.summary()
    }


def measure(name: str, limit: float, jobs: int, rates: tuple[float, ...] = RATES) -> dict[str, Measurement]:
    """Everything on one packaged problem."""
    problem = instances.load(name)
    found = of_neighbours(problem) | of_bottleneck(problem, rates) | of_funnel(problem, limit, jobs)
    return {key: found[key] for key in (row.key for row in ROWS) if key in found}


def cell(found: Measurement | None) -> str:
    """Distance in percent and seconds, or a dash."""
    if found is None:
        return "–"
    distance = found["distance"]
    if distance is None:
        return f"({found['seconds']:.1f} s)"
    percent = 100 * distance
    told = "0" if percent < 1e-9 else f"{percent:.1e}" if percent < 0.01 else f"{percent:.2f}"
    return f"{told} % ({found['seconds']:.1f} s)"


def page(results: dict[str, dict[str, Measurement]], limit: float) -> str:
    """The page."""
    names = list(results)
    lines = [
        "# The bibliography, runnable", "",
        "Every reference of the paper that describes a method for a known discrete distribution, run on its four problems "
        f"by `papers/bibliography.py`. Each cell has the distance from the proved optimum and CPU seconds (one thread, {limit:g} s "
        "at most for a funnel solver).", "",
        f"- *Solvers of the funnel*: mean leakage above the proved bound at {POINTS - 2} disclosures, after time sharing, in percent of "
        "I(S;X).",
        f"- *The bottleneck*: mean relevance below the proved bound at {len(RATES)} rates, in percent of I(S;X), one start each.",
        "- *Problems of their own* (distortion, zero leakage, guessing, χ², rate distortion): what their own proof leaves open at "
        "most, in percent of I(S;X), H(X), all guesses, χ²(S;X), H(X). The spectrum is exact and has its time alone.",
        "- A dash: no answer within the limit, or more public symbols than the method takes.", "",
        "| reference | what it does | name here | in comparisons | " + " | ".join(names) + " |",
        "|---" * (len(names) + 4) + "|",
    ]  # fmt: skip
    for row in ROWS:
        cells = [cell(results[name].get(row.key)) for name in names]
        entrant = f"`{row.entrant}`" if row.entrant else "–"
        lines.append(f"| {row.reference} | {row.what} | {row.name} | {entrant} | " + " | ".join(cells) + " |")
    lines += ["", OTHERS, "", "[The funnel's neighbours](neighbours.md) and [the bottleneck](bottleneck.md) have the equations; "
              "[every method, side by side](comparison.md) compares the solvers of the funnel with more time."]  # fmt: skip
    return wrapped("\n".join(lines)) + "\n"


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/bibliography"))
    parser.add_argument("--time-limit", type=float, default=10.0, help="CPU seconds of a funnel solver")
    parser.add_argument("--jobs", type=int, default=1, help="processes of a comparison")
    parser.add_argument("--write", action="store_true", help="only write the page, from what is there")
    parser.add_argument("--quick", action="store_true", help="a rehearsal, whose page goes to OUT")
    options = parser.parse_args()
    names = instances.names(task=False)[: 1 if options.quick else None]
    limit = 0.1 if options.quick else options.time_limit
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in names:
        target = options.out / f"{name}.json"
        if not target.exists() and not options.write:
            target.write_text(
                json.dumps(
                    measure(name, limit, options.jobs, RATES[1:2] if options.quick else RATES), indent=1
                )
            )
            print(f"{name}: done", flush=True)
        results[name] = json.loads(target.read_text())
    where = options.out if options.quick else DOCS
    (where / "bibliography.md").write_text(page(results, limit), "utf-8")
    print(f"written: {where / 'bibliography.md'}")


if __name__ == "__main__":
    main()
