"""Simulate designs on samples of known populations, and hold Adult rows out: ``docs/coverage-designs.md``.

    python papers/population_designs.py [--tables 40] [--adult adult.data] [--out out/designs] [--quick]

A mechanism designed on a sample leaks more in the population than on its rows. For three populations that are known,
samples are drawn, designs made on them and judged as ``audit`` judges them; the truth is computed from the population.
With ``--adult`` the UCI file is split 20 times. Finished parts are kept; ``--quick`` rehearses on a few tables and
prints the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from adult_splits import adult_lines

import privfunnel as pf
from privfunnel import measures
from privfunnel.audit import cross_fit
from privfunnel.data import instances
from privfunnel.measures import Array

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEED = 20_241
ROWS = (100, 300, 1000, 3000, 10_000, 30_000)
#: What is asked of a design: nothing leaks on its rows, or it discloses 60 % of its H(X).
DESIGNS: dict[str, dict[str, Any]] = {
    "free": {"leakage": 0.0},
    "60 %": {"disclosure": 0.6, "solver": "greedy"},
}


def populations() -> Iterator[tuple[str, Array]]:
    """Known joints p(s, x): patients, people of the census with income private, and one with nearly empty cells."""
    yield "heart failure, 4 × 16", instances.load("heart-failure").p_sx
    census = instances.load("census-income")
    rich = np.array([">50K" in label for label in census.s_labels])
    yield (
        "census income, 2 × 156",
        np.stack([census.p_sx[~rich].sum(axis=0), census.p_sx[rich].sum(axis=0)]),
    )
    rng = np.random.default_rng(SEED)
    yield "nearly empty cells, 3 × 16", rng.dirichlet(np.full(48, 0.25)).reshape(3, 16)


@dataclass(frozen=True)
class Row:
    """Averages over tables, nats: what was promised, what is true, estimated and proved, and how often that holds."""

    population: str
    n: int
    design: str
    ceiling: float
    promised: float
    truth: float
    estimated: float
    proved: float
    covered: float
    seconds: float


def simulate(name: str, p_sx: Array, n: int, design: str, tables: int) -> Row:
    """Design on samples of n rows and judge every design by the population."""
    started = time.process_time()
    rng = np.random.default_rng([SEED, n, p_sx.size, len(design)])
    asked = dict(DESIGNS[design])
    found = []
    for trial in range(tables):
        problem = pf.Problem(rng.multinomial(n, p_sx.ravel() / p_sx.sum()).reshape(p_sx.shape))
        if "disclosure" in asked:
            asked["disclosure"] = DESIGNS[design]["disclosure"] * problem.disclosure_ceiling
        truth, judged = [], []
        for fitted, each in cross_fit.judged(problem, seed=trial, **asked):
            full = np.tile(problem.p_x @ fitted.channel, (p_sx.shape[1], 1))
            full[problem.kept_x] = fitted.channel  # tables this small have a row a symbol
            truth.append(float(measures.mutual_information(p_sx @ full)))
            judged.append(each)
        population = cross_fit.beyond.average(judged, 0.95)
        interval = population.leakage
        holds = interval.low - 1e-12 <= np.mean(truth) <= interval.high + 1e-12
        estimated = np.mean([each.estimated for each in judged])
        found.append((population.promised, np.mean(truth), estimated, interval.high, holds))
    promised, true, estimated, proved, holds = np.mean(np.array(found, dtype=np.float64), axis=0).tolist()
    ceiling = float(measures.mutual_information(p_sx / p_sx.sum()))
    seconds = time.process_time() - started
    return Row(name, n, design, ceiling, promised, true, estimated, proved, holds, seconds)


def resumed(name: str, p_sx: Array, n: int, design: str, tables: int, folder: Path) -> Row:
    """The same, unless it was done."""
    part = folder / f"{name.split(',')[0].replace(' ', '-')}-{n}-{design.split()[0]}-{tables}.json"
    if part.exists():
        return Row(**json.loads(part.read_text("utf-8")))
    row = simulate(name, p_sx, n, design, tables)
    folder.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(asdict(row)), "utf-8")
    return row


def page(rows: list[Row], tables: int, options: str) -> str:
    """The page, as Markdown."""
    seconds = sum(row.seconds for row in rows)
    lines = [
        "# Designs on a sample, judged by the population",
        "",
        f"Made by `python papers/population_designs.py --tables {tables}{options}` in",
        f"{seconds / 60:.0f} CPU minutes. For each known population and number of rows, {tables} samples were drawn;",
        "on each, designs were made on one half and judged by the other, in turn (`audit.cross_fitted`, what `audit`",
        "does for small tables). *Promised* is what leaks on the design's own rows, *truth* what the same mechanism",
        "leaks in the population; *holds* is the share of samples in which the truth lies between the printed ends: at",
        "least 95 %, if these are right. Averages, in nats.",
        "",
        "| population | rows | design | promised | truth | of I(S;X) | estimated | proved ≤ | holds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.population} | {row.n} | {row.design} | {row.promised:.4f} | {row.truth:.4f} | "
            f"{100 * row.truth / row.ceiling:.0f} % | {row.estimated:.4f} | {row.proved:.4f} | "
            f"{100 * row.covered:.0f} % |"
        )
    lines += [
        "",
        "What is promised on the design's own rows is far below the truth for free designs on few rows, and no",
        "interval around it could hold. The estimate is right on average where the rows are many for the cells, and",
        "too high where they are few; the bound holds everywhere.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Simulate and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tables", type=int, default=40, help="samples for each population and number of rows"
    )
    parser.add_argument("--adult", type=Path, help="the file adult.data of UCI")
    parser.add_argument("--out", type=Path, default=Path("out/designs"), help="folder for finished parts")
    parser.add_argument("--quick", action="store_true", help="a rehearsal: 2 samples of few rows, printed")
    given = parser.parse_args()
    sizes, tables = (ROWS[:1], 2) if given.quick else (ROWS, given.tables)
    rows = []
    for name, p_sx in populations():
        for design in DESIGNS:
            for n in sizes:
                rows.append(resumed(name, p_sx, n, design, tables, given.out))
                told = f"{name}, {n} rows, {design}: holds in {100 * rows[-1].covered:.0f} %"
                print(f"{told}, {rows[-1].seconds:.0f} s", flush=True)
    text = page(rows, tables, "" if given.adult is None else " --adult adult.data")
    if given.adult is not None:
        text += "\n".join(["", *adult_lines(given.adult, 2 if given.quick else 20)])
    if given.quick:
        print(text)
    else:
        (DOCS / "coverage-designs.md").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
