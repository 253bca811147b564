"""Simulate the population bounds where the truth is known: ``docs/coverage.md``.

    python papers/population_bounds.py [--tables 10000] [--ball-tables 1000] [--out out/coverage] [--quick]

Draws tables of held-out rows from known joints and counts how often each 95 % bound holds. The ball, the best of all
and the lower bound are slower than the others and are tried on the first tables only. Every finished part is kept, and
an interrupted run goes on where it stopped; ``--quick`` rehearses it on a few tables and prints the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import privfunnel as pf
from privfunnel import instances, measures
from privfunnel.measures import Array
from privfunnel.population import bounds as population

DOCS = Path(__file__).resolve().parents[1] / "docs"
CONFIDENCE = 0.95
SEED = 20_240


@dataclass(frozen=True)
class Population:
    """A joint of which the tables are drawn: p(s, y), and p(x, y) or p(u, y) for what is kept."""

    name: str
    p_sy: Array
    p_uy: Array
    rows: tuple[int, ...]


def released(name: str, share: float, solver: str, **options: int) -> tuple[Array, Array]:
    """p(s, y) and p(x, y) of a mechanism for a packaged instance, its own table being the population."""
    problem = instances.load(name)
    channel = pf.solve(
        problem, disclosure=share * problem.disclosure_ceiling, solver=solver, seed=0, throw=False, **options
    ).channel
    return problem.p_sx @ channel, problem.p_sx.sum(axis=0)[:, None] * channel


def populations() -> Iterator[Population]:
    """The joints: two from data, one with nearly empty cells, and releases that say nothing."""
    heart_sy, heart_xy = released("heart-failure", 0.5, "greedy")
    yield Population("heart failure", heart_sy, heart_xy, (100, 300, 1000, 10_000))
    census_sy, census_xy = released("census-income", 0.5, "greedy")
    yield Population("census income", census_sy, census_xy, (1000, 10_000, 30_000))
    rng = np.random.default_rng(SEED)
    sparse = rng.dirichlet(np.full(36, 0.08)).reshape(3, 12)
    yield Population("nearly empty cells", sparse, sparse, (100, 1000, 10_000))
    for outputs in (8, 16, 32):
        alone = np.outer([0.24, 0.76], np.full(outputs, 1.0 / outputs))
        kept = np.kron(np.eye(2), np.full((1, outputs // 2), 1.0 / outputs)) * 0.8 + 0.1 / outputs
        yield Population(f"independent S, {outputs} outputs", alone, kept, (300, 10_854))


@dataclass(frozen=True)
class Row:
    """Coverage of every bound for one population and number of rows, their medians, and the CPU seconds it took."""

    population: Population
    n: int
    coverage: dict[str, float]
    median: dict[str, float]
    seconds: float


def simulate(each: Population, n: int, tables: int, ball_tables: int) -> Row:
    """Draw tables of n rows and judge every bound by the truth."""
    start = time.process_time()
    rng = np.random.default_rng([SEED, n, each.p_sy.size])
    drawn_sy, drawn_uy = (
        rng.multinomial(n, p.ravel() / p.sum(), size=tables).reshape(-1, *p.shape)
        for p in (each.p_sy, each.p_uy)
    )
    leakage, kept = (float(measures.mutual_information(p / p.sum())) for p in (each.p_sy, each.p_uy))
    seen = each.p_sy.sum(axis=0) > 0.0
    lift = float(np.log(measures.lift(each.p_sy[:, seen]).max()))
    gain = float(measures.guessing_accuracy(each.p_sy) - each.p_sy.sum(axis=1).max())
    found: dict[str, Array] = {}
    for method in ("intervals", "ball", "tilting", "best"):
        some = drawn_sy[:ball_tables] if method in {"ball", "best"} else drawn_sy
        found[method] = np.array(
            [pf.audit.population_bound(counts, CONFIDENCE, method=method).upper for counts in some]
        )
    found["lift"] = np.array([population.population_lift(counts, CONFIDENCE) for counts in drawn_sy])
    found["guess"] = np.array(
        [population.population_guessing(counts, CONFIDENCE).gain for counts in drawn_sy]
    )
    found["kept"] = -np.array(
        [population.population_lower_bound(c, CONFIDENCE).lower for c in drawn_uy[:ball_tables]]
    )
    truth = {"lift": lift, "guess": gain, "kept": -kept}
    return Row(
        each,
        n,
        {name: float(np.mean(bounds >= truth.get(name, leakage) - 1e-12)) for name, bounds in found.items()},
        {name: float(np.median(np.abs(bounds))) for name, bounds in found.items()},
        time.process_time() - start,
    )


def resumed(each: Population, n: int, sizes: tuple[int, int], folder: Path) -> Row:
    """The same, unless it was done."""
    part = folder / f"{each.name.replace(', ', '-').replace(' ', '-')}-{n}-{sizes[0]}-{sizes[1]}.json"
    if part.exists():
        return Row(each, n, **json.loads(part.read_text("utf-8")))
    row = simulate(each, n, *sizes)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {"coverage": row.coverage, "median": row.median, "seconds": row.seconds}
    part.write_text(json.dumps(kept), "utf-8")
    return row


def page(rows: list[Row], tables: int, ball_tables: int) -> str:
    """The page, as Markdown."""
    seconds = sum(row.seconds for row in rows)
    lines = [
        "# Coverage of the population bounds",
        "",
        f"Made by `python papers/population_bounds.py --tables {tables} --ball-tables {ball_tables}`",
        f"in {seconds / 60:.0f} CPU minutes. For each known joint and number of held-out rows, {tables} tables",
        f"were drawn ({ball_tables} for the ball, for the best of all and",
        "for I(X;Y)); the share in which each 95 % bound holds has to be at least 95 %. The bounds are proved",
        "for every population and every number of rows (`population.tilting`, `ball`, `confidence_limits`), so they",
        "hold more often than they have to; what matters beside it is how close to the truth they are.",
        "",
        "## How often they hold",
        "",
        "| population | rows | K × N | intervals | ball | tilting | best | largest lift | guessing gain | I(X;Y) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shares = (f"{100 * row.coverage[name]:.2f} %" for name in row.coverage)
        lines.append(
            f"| {row.population.name} | {row.n} | {size(row.population.p_sy)} | {' | '.join(shares)} |"
        )
    lines += [
        "",
        "## How close they are",
        "",
        "Medians over the tables, nats. I(X;Y) is that of the release; for *nearly empty cells* and *independent S* it",
        "is that of another pair, to have something to bound from below.",
        "",
        "| population | rows | I(S;Y) | intervals | ball | tilting | best | I(X;Y) | its lower bound |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        leakage, kept = (
            float(measures.mutual_information(p)) for p in (row.population.p_sy, row.population.p_uy)
        )
        medians = (f"{row.median[name]:.4f}" for name in ("intervals", "ball", "tilting", "best"))
        lines.append(
            f"| {row.population.name} | {row.n} | {leakage:.4f} | {' | '.join(medians)} | {kept:.3f} | "
            f"{row.median['kept']:.3f} |"
        )
    lines += ["", "## Outputs that can be guaranteed", "", *guaranteed()]
    return "\n".join(lines) + "\n"


def guaranteed() -> list[str]:
    """How many outputs so many rows can guarantee."""
    targets = (0.1, 0.03, 0.01, 0.003)
    lines = [
        "The most outputs for which so many held-out rows typically prove at most so much leakage with 95 %",
        "confidence, if the release in truth says nothing about a balanced binary S (`pf.audit.guaranteed_outputs`).",
        "",
        "| rows | " + " | ".join(f"{target} nats" for target in targets) + " |",
        "|---" * (1 + len(targets)) + "|",
    ]
    for n in (100, 300, 1000, 3000, 10_000, 30_000):
        at = (str(population.guaranteed_outputs(n, target)) for target in targets)
        lines.append(f"| {n} | {' | '.join(at)} |")
    return lines


def size(table: Array) -> str:
    """Shape of a table, K × N."""
    return f"{table.shape[0]} × {table.shape[1]}"


def main() -> None:
    """Simulate and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tables", type=int, default=10_000, help="tables for each population and number of rows"
    )
    parser.add_argument("--ball-tables", type=int, default=1000, help="tables for what is slower")
    parser.add_argument("--out", type=Path, default=Path("out/coverage"), help="folder for finished parts")
    parser.add_argument("--quick", action="store_true", help="a rehearsal: 10 tables, printed, no page")
    given = parser.parse_args()
    sizes = (10, 2) if given.quick else (given.tables, min(given.ball_tables, given.tables))
    rows = []
    for each in populations():
        for n in each.rows:
            rows.append(resumed(each, n, sizes, given.out))
            print(f"{each.name}, {n} rows: best holds in {100 * rows[-1].coverage['best']:.2f} %", flush=True)
    text = page(rows, *sizes)
    if given.quick:
        print(text)
    else:
        (DOCS / "coverage.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
