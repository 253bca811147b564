"""Simulate the population bounds where the truth is known: ``docs/coverage.md``.

    python papers/population_bounds.py [--tables 10000] [--ball-tables 100] [--out out/coverage] [--quick]

Draws tables of held-out rows from known joints and counts how often each 95 % bound holds. Searching a divergence ball
takes long; it can fail only where the true joint lies outside the ball, since the bound is no less than the value at
any joint inside. So on the first tables every ball is searched, on the others those that do not hold the truth. Every
finished part is kept, and an interrupted run goes on where it stopped; ``--quick`` rehearses it on a few tables and
prints the page.
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
from privfunnel import measures
from privfunnel.data import instances
from privfunnel.data.population import bounds as population
from privfunnel.data.population.intervals import divergence_radius
from privfunnel.measures import Array
from privfunnel.model import attackers

DOCS = Path(__file__).resolve().parents[1] / "docs"
CONFIDENCE = 0.95
SEED = 20_240


@dataclass(frozen=True)
class Population:
    """A joint of which the tables are drawn: p(s, y), p(u, y) for what is kept, p(s, y, a) for who knows A."""

    name: str
    p_sy: Array
    p_uy: Array
    p_sya: Array
    rows: tuple[int, ...]


def released(name: str, share: float, solver: str, **options: int) -> tuple[Array, Array, Array]:
    """p(s, y), p(x, y), p(s, y, a) of a mechanism for a packaged instance, its table being the population.

    A is the first public column.
    """
    problem = instances.load(name)
    channel = pf.solve(
        problem, disclosure=share * problem.disclosure_ceiling, solver=solver, seed=0, throw=False, **options
    ).channel
    known = attackers.few_columns(problem.public_columns, 1)[0]
    informed = [problem.p_sx[:, group] @ channel[group] for group in known.groups()]
    return problem.p_sx @ channel, problem.p_sx.sum(axis=0)[:, None] * channel, np.stack(informed, axis=2)


def populations() -> Iterator[Population]:
    """The joints: two from data, one with nearly empty cells, and releases that say nothing."""
    yield Population("heart failure", *released("heart-failure", 0.5, "greedy"), (100, 300, 1000, 10_000))
    yield Population("census income", *released("census-income", 0.5, "greedy"), (1000, 10_000, 30_000))
    rng = np.random.default_rng(SEED)
    sparse = rng.dirichlet(np.full(36, 0.08)).reshape(3, 12)
    yield Population("nearly empty cells", sparse, sparse, sparse.reshape(3, 6, 2), (100, 1000, 10_000))
    for outputs in (8, 16, 32):
        alone = np.outer([0.24, 0.76], np.full(outputs, 1.0 / outputs))
        kept = np.kron(np.eye(2), np.full((1, outputs // 2), 1.0 / outputs)) * 0.8 + 0.1 / outputs
        yield Population(
            f"independent S, {outputs} outputs", alone, kept, alone.reshape(2, -1, 2), (300, 10_854)
        )


@dataclass(frozen=True)
class Row:
    """Coverage of every bound for one population and number of rows, their medians, and the CPU seconds it took."""

    population: Population
    n: int
    coverage: dict[str, float]
    median: dict[str, float]
    seconds: float


def known_leakage(each: Population) -> float:
    """I(S;Y|A) of the population, nats."""
    p_a = each.p_sya.sum(axis=(0, 1))
    by_a = measures.mutual_information(np.moveaxis(each.p_sya / p_a, 2, 0))
    return float(np.sum(p_a / p_a.sum() * by_a))


def draw(p: Array, n: int, tables: int, rng: np.random.Generator) -> Iterator[Array]:
    """Tables of n rows from a joint, one by one: many large ones would not fit into memory."""
    for _ in range(tables):
        yield rng.multinomial(n, p.ravel() / p.sum()).reshape(p.shape)


def outside(counts: Array, p: Array, miss: float) -> bool:
    """Whether the ball of confidence 1 − miss around a table does not hold the joint that it was drawn from."""
    n = float(counts.sum())
    divergence = float(measures.kl_divergence((counts / n).ravel(), p.ravel() / p.sum()))
    return n * divergence > divergence_radius(p.size - 1, miss)


def least_of(method: str, counts: Array, p: Array) -> float:
    """The upper bound of I(S;Y) without the search of a ball that holds the truth; infinite where nothing else is."""
    shares, miss = population.SHARES if method == "best" else {method: 1.0}, 1.0 - CONFIDENCE
    found = (
        population.population_bound(counts, 1.0 - share * miss, method=name).upper
        for name, share in shares.items()
        if name != "ball" or outside(counts, p, share * miss)
    )
    return min(found, default=np.inf)


def leakages(method: str, drawn: list[Array], p: Array, searched: int) -> Array:
    """Upper bounds of I(S;Y), of each table."""
    whole = (
        population.population_bound(counts, CONFIDENCE, method=method).upper for counts in drawn[:searched]
    )
    return np.array([*whole, *(least_of(method, counts, p) for counts in drawn[searched:])])


def disclosures(drawn: Iterator[Array], p: Array, searched: int) -> Array:
    """Lower bounds of I(X;Y), of each table; by tilting alone where a ball that holds the truth is not searched."""
    miss = (1.0 - CONFIDENCE) / 2.0
    return np.array(
        [
            population.population_lower_bound(counts, CONFIDENCE).lower
            if number < searched or outside(counts, p, miss)
            else population.tilted_lower_bound(counts, miss)
            for number, counts in enumerate(drawn)
        ]
    )


def simulate(each: Population, n: int, tables: int, ball_tables: int) -> Row:
    """Draw tables of n rows and judge every bound by the truth."""
    start = time.process_time()
    rng = np.random.default_rng([SEED, n, each.p_sy.size])
    leakage, kept = (float(measures.mutual_information(p / p.sum())) for p in (each.p_sy, each.p_uy))
    seen = each.p_sy.sum(axis=0) > 0.0
    lift = float(np.log(measures.lift(each.p_sy[:, seen]).max()))
    gain = float(measures.guessing_accuracy(each.p_sy) - each.p_sy.sum(axis=1).max())
    drawn = list(draw(each.p_sy, n, tables, rng))
    found = {
        method: leakages(method, drawn, each.p_sy, ball_tables)
        for method in ("intervals", "ball", "tilting", "best")
    }
    found["lift"] = np.array([population.population_lift(counts, CONFIDENCE) for counts in drawn])
    found["guess"] = np.array([population.population_guessing(counts, CONFIDENCE).gain for counts in drawn])
    found["kept"] = -disclosures(draw(each.p_uy, n, tables, rng), each.p_uy, ball_tables)
    found["known"] = np.array(
        [
            population.population_bound(counts, CONFIDENCE, method="tilting").upper
            for counts in draw(each.p_sya, n, tables, rng)
        ]
    )
    truth = {"lift": lift, "guess": gain, "kept": -kept, "known": known_leakage(each)}
    return Row(
        each,
        n,
        {name: float(np.mean(bounds >= truth.get(name, leakage) - 1e-12)) for name, bounds in found.items()},
        {name: float(np.median(np.abs(bounds[:ball_tables]))) for name, bounds in found.items()},
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
        "were drawn; the share in which each 95 % bound holds has to be at least 95 %. The bounds are proved",
        "for every population and every number of rows (`population.tilting`, `ball`, `confidence_limits`), so they",
        "hold more often than they have to; what matters beside it is how close to the truth they are.",
        "",
        "All columns are shares of all tables. A divergence ball, which is part of *ball*, *best* and *I(X;Y)*, was",
        f"searched on the first {ball_tables} tables and wherever it does not hold the joint that the table was drawn",
        "from; a ball that holds it gives a bound no less than its value, whatever the search finds.",
        "",
        "## How often they hold",
        "",
        "| population | rows | K × N | intervals | ball | tilting | best | largest lift | guessing gain | I(X;Y) | "
        "I(S;Y\\|A) |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
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
        f"Medians over the first {ball_tables} tables, nats. I(X;Y) is that of the release; for *nearly empty cells*",
        "and *independent S* it is that of another pair, to have something to bound from below. A is the first",
        "public column, for the invented joints every second output; I(S;Y\\|A) is bounded by tilting.",
        "",
        "| population | rows | I(S;Y) | intervals | ball | tilting | best | I(X;Y) | its lower bound | "
        "I(S;Y\\|A) | its bound |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        leakage, kept = (
            float(measures.mutual_information(p)) for p in (row.population.p_sy, row.population.p_uy)
        )
        medians = (f"{row.median[name]:.4f}" for name in ("intervals", "ball", "tilting", "best"))
        lines.append(
            f"| {row.population.name} | {row.n} | {leakage:.4f} | {' | '.join(medians)} | {kept:.3f} | "
            f"{row.median['kept']:.3f} | {known_leakage(row.population):.4f} | {row.median['known']:.4f} |"
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
    parser.add_argument("--ball-tables", type=int, default=100, help="tables on which every ball is searched")
    parser.add_argument("--out", type=Path, default=Path("out/coverage"), help="folder for finished parts")
    parser.add_argument("--quick", action="store_true", help="a rehearsal: 2 tables, printed, no page")
    given = parser.parse_args()
    sizes = (2, 1) if given.quick else (given.tables, min(given.ball_tables, given.tables))
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
