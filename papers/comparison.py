"""Compare all methods on the four packaged problems: ``docs/comparison.md``.

    python papers/comparison.py [--out out/comparison] [--time-limit 30] [--jobs 1] [--only heart-failure] [--quick]

Each comparison is saved when it is finished, and an interrupted run goes on where it stopped; ``--write`` makes the
page from what is there, ``--quick`` rehearses it on one small problem and prints that part of the page. The words are
in ``comparison.template.md``; every number in them is filled in from the run.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from prose import wrapped

import privfunnel as pf
from privfunnel.data import instances
from privfunnel.report import plot
from privfunnel.studies.comparison import Comparison

DOCS = Path(__file__).resolve().parents[1] / "docs"
POINTS = 11

#: What a label stands for, as its authors would say it.
METHODS = {
    "auto": "This package's default: closed forms, perfect privacy, then column generation with exact pricing; proved.",
    "aem": "AEM, best of 30 random starts of at most 500 steps each.",
    "drs-published": "Douglas-Rachford splitting with its authors' constants and sweep: c = 1024, step 1e-3, 30 values "
    "of β in [1, 20], N = M … 2, 80 runs of each of two kinds of start; runs that pass its stopping test are kept.",
    "drs-repaired": "The same splitting with log-domain descent steps, an exact second copy, and stationarity as the "
    "stopping test; 30 values of β in [1, 1000], N = M + 1.",
    "dca-published": "The difference-of-convex method with its authors' sweep: 20 values of β in [0.01, 10], 16 of the "
    "ridge weight in [0.01, 10], N = 2 … max(M, K) + 1, 20 runs each.",
    "dca-sparse": "The same with its sparse regression (1-norm) instead of ridge.",
    "dca-repaired": "The same difference of convex functions, its convex subproblem solved instead of regressed; 30 "
    "values of β in [1, 1000], N = M + 1.",
    "greedy": "Greedy merging of pairs of outputs (Makhdoumi et al. 2014).",
    "submodular": "Merging of subsets by a difference of submodular functions (Ding, Sadeghi 2019), 30 multipliers.",
    "deterministic": "The best deterministic map of all, by trying every partition (10 public symbols at most).",
    "sdp": "The local approximation (Bu, Wang, Wornell 2021): posteriors along all principal directions of X, "
    "and X itself, mixed by a linear program.",
    "perfect": "The most that can be released without any leakage (Calmon, Makhdoumi, Médard 2015), up to R0.",
    "suppression": "Drop public columns: of all ways that keep R, the one that leaks least.",
    "generalisation": "Coarsen or drop public columns: the best of the lattice.",
    "slsqp": "SciPy's SLSQP on the channel with exact gradients, N = M + 1, up to 30 random starts.",
    "ipopt": "IPOPT on the channel with exact Hessians, its own defaults, N = M + 1, up to 30 random starts.",
    "control-maps": "Control: 4800 random deterministic maps, time-shared.",
    "control-starts": "Control: the best of 30 random feasible starts, no iteration.",
    "guessing": "Another problem: most right guesses of X for at most so many of S (Asoodeh et al. 2019), exactly; 12 "
    "values of the latter.",
    "distortion": "Another problem: least I(S;Y) where at most so many records change (Calmon, Fawaz 2012), proved; 12 "
    "shares.",
    "bottleneck-blahut-arimoto": "The opposite problem: most I(S;Y) at the rate R (Tishby, Pereira, Bialek 1999), one "
    "start.",
    "bottleneck-abp": "The opposite problem by ABP (Chen et al. 2024).",
    "bottleneck-agglomerative": "The opposite problem by merging (Slonim, Tishby 1999).",
    "lip-vertex": "Another problem: most I(X;Y) where no lift leaves [e^−ε, e^ε], all vertices listed; 12 values of ε.",
    "lip-watchdog": "The same by merging all symbols that exceed ε (Hsu, Asoodeh, Calmon 2019).",
    "lip-subset-merging": "The same by merging them in groups (Zarrabian, Ding, Sadeghi 2022).",
    "lip-max-lift": "The same by merging the worst output again and again (after Ding, Sadeghi).",
    "lip-randomised-response": "The same by Y = X or a fresh draw from p(x), the odds by ε.",
}


def run(name: str, folder: Path, limit: float, jobs: int = -1, points: int = POINTS) -> None:
    """Compare all methods on one instance, unless that was done."""
    target = folder / f"{name}.json"
    if target.exists():
        print(f"{name}: done before")
        return
    print(f"{name}: {limit:g} CPU seconds a method", flush=True)
    result = pf.compare(
        instances.load(name),
        points=points,
        time_limit=limit,
        jobs=jobs,
        progress=lambda news: print(" ", news.message, flush=True),
    )
    result.save(target)


def number(value: float | None, digits: int = 5) -> str:
    """A leakage in nats; a dash where there is none."""
    return "–" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def small(value: float | None) -> str:
    """A small number in nats."""
    return "–" if value is None else f"{value:.1e}"


def percent(value: float | None, digits: int = 0) -> str:
    """A share."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def section(name: str, result: Comparison) -> list[str]:
    """The part of the page about one instance."""
    problem = result.problem
    shares = [f"{100 * r / problem.disclosure_ceiling:.0f} %" for r in result.disclosure]
    lines = [
        f"## {instances.describe(name).title}",
        "",
        f"{problem.n_s} private × {problem.n_x} public symbols, H(X) = {problem.disclosure_ceiling:.6f}, I(S;X) = "
        f"{problem.leakage_ceiling:.6f} nats.",
        "",
        f"![All methods on {name}](figures/comparison-{name}.png)",
        "",
        "| method | excess | time-shared | relative | best at | CPU s | runs | converged | KKT |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['solver']} | {small(row['mean_excess'])} | {small(row['mean_excess_shared'])} | "
        f"{percent(row['median_relative_excess'], 1)} | {percent(row['share_best'])} | {row['cpu_seconds']:.1f} | "
        f"{row['runs'] or '–'} | {percent(row['converged'])} | {small(row['kkt_residual'])} |"
        for row in result.summary()
    ]
    lines += ["", "Leakage in nats at each share of H(X):", ""]
    lines += ["| method | " + " | ".join(shares) + " |", "|---" * (len(shares) + 1) + "|"]
    lines += [
        f"| {e.label} | " + " | ".join(number(v) for v in e.leakage.tolist()) + " |" for e in result.entries
    ]
    lines.append(
        "| **proved ≥** | " + " | ".join(f"**{number(v)}**" for v in result.lower_bound.tolist()) + " |"
    )
    silent = [
        f"`{e.label}` ({e.message.removeprefix(f'{e.name}: ')})" for e in result.entries if not e.answered
    ]
    if silent:
        lines += ["", "No answer: " + "; ".join(silent) + "."]
    return [*lines, ""]


def ranking(results: dict[str, Comparison]) -> list[str]:
    """Mean excess of every method on every instance, the best first."""
    table: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        for row in result.summary():
            table.setdefault(row["solver"], {})[name] = row["mean_excess_shared"]
    ceilings = {name: result.problem.leakage_ceiling for name, result in results.items()}

    def key(label: str) -> tuple[int, float]:
        values = [v / ceilings[name] for name, v in table[label].items() if v is not None]
        return (len(results) - len(values), sum(values) / max(len(values), 1))

    lines = ["| method | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for label in sorted(table, key=key):
        cells = [
            "–" if table[label].get(name) is None else percent(table[label][name] / ceilings[name], 3)
            for name in results
        ]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def fill(text: str, results: dict[str, Comparison]) -> str:
    """Replace ``{{what instance label share}}`` by the number of that run; the share is in percent of H(X)."""

    def index(result: Comparison, share: str) -> int:
        return int(
            np.argmin(np.abs(result.disclosure / result.problem.disclosure_ceiling - float(share) / 100.0))
        )

    def value(match: re.Match[str]) -> str:
        what, name, *rest = match[1].split()
        result = results[name]
        if what == "ceiling":
            return number(result.problem.leakage_ceiling)
        if what == "bound":
            return number(float(result.lower_bound[index(result, rest[0])]))
        entry = result[rest[0]]
        if what in ("leak", "over"):
            at = index(result, rest[1])
            leakage, bound = float(entry.leakage[at]), float(result.lower_bound[at])
            return number(leakage) if what == "leak" else small(leakage - bound)
        return {
            "cpu": f"{entry.cpu_seconds:.1f}",
            "runs": str(entry.runs),
            "converged": percent(entry.converged),
            "kkt": small(entry.kkt_residual),
            "reach": percent(
                max(point.disclosure for point in entry.points) / result.problem.disclosure_ceiling
            ),
        }[what]

    return re.sub(r"\{\{([a-z]+ [^{}]+)\}\}", value, text)


def write(folder: Path) -> None:
    """Write the page and its figures from the saved comparisons."""
    results = {name: Comparison.load(folder / f"{name}.json") for name in instances.names(task=False)}
    (DOCS / "figures").mkdir(parents=True, exist_ok=True)
    for name, result in results.items():
        plot.save(
            result.plot(title=instances.describe(name).title), DOCS / "figures" / f"comparison-{name}.png"
        )
    limit = next(iter(results.values())).time_limit
    text = (Path(__file__).parent / "comparison.template.md").read_text(encoding="utf-8")
    parts = {
        "LIMIT": f"{limit:g}",
        "NEIGHBOURS": "[neighbours](neighbours.md)",
        "BIBLIOGRAPHY": "[the bibliography, runnable](bibliography.md)",
        "METHODS": "\n".join(f"| `{label}` | {words} |" for label, words in METHODS.items()),
        "RANKING": "\n".join(ranking(results)),
        "SECTIONS": "\n".join(
            line for name, result in results.items() for line in section(name, result)
        ).rstrip(),
    }
    for key, value in parts.items():
        text = text.replace(f"{{{{{key}}}}}", value)
    (DOCS / "comparison.md").write_text(wrapped(fill(text, results)), encoding="utf-8")
    print(DOCS / "comparison.md")


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/comparison"))
    parser.add_argument("--time-limit", type=float, default=30.0, help="CPU seconds a method")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; −1 for as many as there are cores")
    parser.add_argument(
        "--only", choices=instances.names(task=False), help="one instance; the page is not written"
    )
    parser.add_argument("--write", action="store_true", help="only write the page")
    parser.add_argument("--quick", action="store_true", help="a rehearsal: one small problem, no page")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.quick:
        name = "synthetic-uniform"
        run(name, arguments.out, 0.2, arguments.jobs, points=4)
        result = Comparison.load(arguments.out / f"{name}.json")
        print(wrapped("\n".join([*ranking({name: result}), "", *section(name, result)])))
        return
    if not arguments.write:
        for name in instances.names(task=False) if arguments.only is None else (arguments.only,):
            run(name, arguments.out, arguments.time_limit, arguments.jobs)
    if arguments.only is None:
        write(arguments.out)


if __name__ == "__main__":
    main()
