"""The score funnel on UCI Adult: what held-out rows say of its class symbol, and attackers of its released records.

    python papers/deep_score.py --adult adult.data      # docs/score-funnel.md
    python papers/deep_score.py --quick --out folder    # a rehearsal on rows drawn at random

Score classes and their zero-leakage mechanism are made on two thirds of the rows. The others are classed by the same
rule and released as a table of their own: every row as a list of its own record and a decoy, coupled among the held-out
records. Attackers are the judge's of ``privfunnel.learning.deep``, on the lists.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from prose import wrapped

import privfunnel as pf
from privfunnel import measures
from privfunnel.audit import population as beyond
from privfunnel.audit.held_out import split_rows
from privfunnel.data import tables
from privfunnel.data.population.bounds import population_bound
from privfunnel.data.score_classes import ScoreClasses, score_classes
from privfunnel.infra.storage import write_json
from privfunnel.learning.deep.judge import Attack, judge
from privfunnel.measures import Array
from privfunnel.model.coupling import couple
from privfunnel.release.sampler import Cumulative

ROOT = Path(__file__).parents[1]
NAMES = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
         "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income")  # fmt: skip
#: Public columns, as they are; the private one of the last two is left out.
PUBLIC = ("age", "workclass", "education", "marital-status", "occupation", "race", "capital-gain", "hours-per-week",
          "native-country", "income", "sex")  # fmt: skip
SIZES = (8, 16, 64)
JUDGED_SIZE = 16
MOST_ROWS = 10_000


INTRODUCTION = """# The score funnel, judged

The proposal of this project for tables [too wide to estimate](wide-tables.md): score classes, the exact funnel of the
classes, decoys. Made by `python papers/deep_score.py` in {seconds:.0f} s of a CPU: UCI Adult, ten public columns as
they are ({symbols} combinations in {rows} rows), {splits} random splits, whose means are shown; classes and mechanism
from two thirds of the rows, designed to leak nothing; the other {held_out} rows are classed by the same rule and
released. {new:.0f} % of these have combinations that the design rows never show.

## The class symbol

*Classes tell* is I(S;T) of the held-out rows, what a release of the class would leak; *leaks* is I(S;Y) of the released
class symbol, with the exact channel, less the bias of so many rows, and before that correction; *at most* is the 95 %
bound for the population.

| private | classes | X lost, bits | classes tell, nats | leaks | uncorrected | at most, 95 % |
|---|---|---|---|---|---|---|"""

ATTACKERS = """
## The records that are really released

A row is released as its own record and a decoy with their weights, coupled among the held-out records. The attackers of
[the deep page](deep.md) (logistic regression, nearest neighbours, gradient boosting, a neural network) see the whole
list; half of up to {most} rows trains them, the other half scores the one that cross-validation chooses. *Shown* is
H(S) + E log q(s|y) of the attacker who shows most, in nats: one who finds nothing comes out at 0 or below. *With the
score* is the same of an attacker who needs no training: who has the models of the mechanism, and weighs their p̂(s|x)
of the candidates."""

END = """Attackers are a lower bound: they show that a release leaks, never that it does not. What is proved is the
bound of the class symbol. A list is about two records at most, of which one is a person's own: hiding S is not hiding
who is in the table ([decoys](decoys.md))."""


class Rows(NamedTuple):
    """Held-out rows one by one: private symbol, public symbol, and the class of each public symbol."""

    s: Any
    x: Any
    of_x: Any


class Design(NamedTuple):
    """Score classes of the design rows, their zero-leakage channel p(y|t), and H(T) − I(T;Y) in nats."""

    scores: ScoreClasses
    channel: Array
    lost: float


def adult(path: Path | None, rows: int = 1500) -> pa.Table:
    """The table; without a file, rows drawn at random in which some columns depend on others."""
    if path is None:
        rng = np.random.default_rng(0)
        s = rng.integers(0, 2, rows)
        made = {name: rng.integers(0, 6, rows) for name in NAMES}
        made |= {"income": s, "sex": rng.integers(0, 2, rows), "age": rng.integers(0, 30, rows) + 10 * s}
        return pa.table(made)
    with path.open(encoding="utf-8") as file:
        found = [[cell.strip() for cell in row] for row in csv.reader(file) if len(row) == len(NAMES)]
    columns = dict(zip(NAMES, map(list, zip(*found, strict=True)), strict=True))
    numbers = {"age", "capital-gain", "hours-per-week"}
    return pa.table(
        {k: [int(v) for v in values] if k in numbers else values for k, values in columns.items()}
    )


def counted(table: pa.Table, private: str) -> tables.Counts:
    """Counts of ten public columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        public = [name for name in PUBLIC if name != private]
        return tables.count(table, private=private, public=public, max_levels=1000)


def designed(counts: tables.Counts, size: int, seed: int) -> Design:
    """Classes of some rows and the channel that leaks nothing of them."""
    scores = score_classes(counts.x_alphabet, counts.table(), size, seed)
    problem = pf.Problem(scores.table)
    solution = pf.solve(problem, leakage=0.0)
    return Design(scores, np.asarray(solution.channel), problem.disclosure_ceiling - solution.disclosure)


def held_out(
    design: tables.Counts, rest: tables.Counts, scores: ScoreClasses, rng: np.random.Generator
) -> Rows:
    """The rows, in random order."""
    of_x = scores.of_alphabet(rest.x_alphabet, design.x_alphabet, design.x_alphabet.places(rest.x_alphabet))
    order = rng.permutation(rest.n)
    s, x = (np.repeat(cell, rest.cell_n)[order] for cell in (rest.cell_s, rest.cell_x))
    return Rows(s, x, of_x)


def released(
    rest: tables.Counts, rows: Rows, made: Design, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Rows coupled among themselves: lists as features of an attacker, class symbols, and what the score believes."""
    p_x = rest.table().sum(axis=0) / rest.n
    used, classes = np.unique(rows.of_x, return_inverse=True)
    coupled = couple(classes.reshape(-1), p_x, made.channel[used])
    y = Cumulative(coupled.channel.tocsr()).draw(rows.x, rng.random(len(rows.x)))
    joint = coupled.channel.multiply(p_x[:, None]).tocsc()
    pairs, weights = np.zeros((len(y), 2), dtype=np.int64), np.ones(len(y))
    for i, symbol in enumerate(y.tolist()):
        at = slice(joint.indptr[symbol], joint.indptr[symbol + 1])
        order = np.argsort(rows.of_x[joint.indices[at]], kind="stable")
        found, weight = joint.indices[at][order], joint.data[at][order]
        pairs[i], weights[i] = (found[0], found[-1]), weight[0] / weight.sum()
    symbols = coupled.outputs[y]
    codes, score = rest.x_codes, made.scores.estimate(rest.x_codes, rest.public)
    believed = weights[:, None] * score[pairs[:, 0]] + (1.0 - weights)[:, None] * score[pairs[:, 1]]
    return np.column_stack([codes[pairs[:, 0]], codes[pairs[:, 1]], weights, symbols]), symbols, believed


def part(table: pa.Table, private: str, seed: int, quick: bool) -> dict[str, Any]:
    """What is found for one private column and one split of the rows; JSON-ready."""
    counts, rng = counted(table, private), np.random.default_rng(seed)
    design, rest = split_rows(counts, 1 / 3, rng)
    found: dict[str, Any] = {"rows": counts.n, "symbols": counts.n_x, "held_out": rest.n}
    places = design.x_alphabet.places(rest.x_alphabet)
    found["new"] = float(rest.table()[:, places < 0].sum()) / rest.n
    for size in SIZES:
        made = designed(design, size, seed)
        rows = held_out(design, rest, made.scores, rng)
        lists, symbols, believed = released(rest, rows, made, rng)
        table_sy = np.zeros((2, made.channel.shape[1]))
        np.add.at(table_sy, (rows.s, symbols), 1.0)
        by_class = np.stack([np.bincount(rows.of_x, row, made.scores.n_classes) for row in rest.table()])
        found[str(size)] = {
            "lost": made.lost / np.log(2.0), "told": float(measures.mutual_information(by_class / rest.n)),
            "outputs": int(made.channel.shape[1]), "bound": population_bound(table_sy).upper,
            "symbol": beyond.estimate(by_class, made.channel),
            "exact": float(measures.mutual_information(by_class / rest.n @ made.channel)),
        }  # fmt: skip
        if size == JUDGED_SIZE or (size == SIZES[-1] and not quick):
            found[str(size)]["lists"] = attacked(lists, rows.s, believed, seed)
        if size == JUDGED_SIZE and not quick:
            score = made.scores.estimate(rest.x_codes, rest.public)
            found["X"] = attacked(rest.x_codes[rows.x], rows.s, score[rows.x], seed)
    return found


def attacked(features: Array, s: Any, believed: Array, seed: int) -> dict[str, Any]:
    """What the judge's best attacker gets out of a release, and one who believes p(s|y), (rows, K); JSON-ready."""
    log_q = np.log(np.clip(believed[np.arange(len(s)), s], 1e-6, 1.0))
    own, _ = measures.predicted_information(log_q, np.bincount(s) / len(s))
    told = judge(np.asarray(features, dtype=np.float64), s, seed=seed, most_rows=MOST_ROWS)
    best: Attack = told.best
    return {
        "prior": told.prior.value, "name": best.name, "right": best.accuracy.value,
        "ends": [best.accuracy.low, best.accuracy.high], "shown": best.information.value,
        "least": best.information.low, "most_shown": max(each.information.value for each in told.attacks),
        "own": float(own),
    }  # fmt: skip


def mean(found: list[dict[str, Any]], *path: str) -> float:
    """The mean over the splits of a number."""
    values = []
    for each in found:
        for name in path:
            each = each[name]
        values.append(float(each))  # type: ignore[arg-type]
    return float(np.mean(values))


def attack_row(found: list[dict[str, Any]], what: str, *path: str) -> str:
    """One line of the table of attackers."""
    right, prior, shown, own = (mean(found, *path, name) for name in ("right", "prior", "most_shown", "own"))
    return f"| {what} | {100 * right:.1f} % | {100 * prior:.1f} % | {shown:+.4f} | {own:+.4f} |"


def page(results: dict[str, list[dict[str, Any]]], seconds: float, quick: bool) -> str:
    """The page."""
    first = next(iter(results.values()))
    told = first[0] | {"seconds": seconds, "splits": len(first), "new": 100 * mean(first, "new")}
    lines = [INTRODUCTION.format(**told)]
    for private, found in results.items():
        for size in map(str, SIZES):
            names = ("lost", "told", "symbol", "exact", "bound")
            lost, told, symbol, exact, bound = (mean(found, size, name) for name in names)
            lines.append(
                f"| {private} | {size} | {lost:.2f} | {told:.4f} | {symbol:+.5f} | {exact:.5f} | {bound:.4f} |"
            )
    lines.append(ATTACKERS.format(most=MOST_ROWS))
    for private, found in results.items():
        lines += [
            "",
            f"Private: {private}.",
            "",
            "| release | right | without looking | shown | with the score |",
        ]
        lines.append("|---|---|---|---|---|")
        if not quick:
            lines.append(attack_row(found, "the records as they are", "X"))
        for size in [JUDGED_SIZE] if quick else [JUDGED_SIZE, SIZES[-1]]:
            lines.append(attack_row(found, f"{size} classes, own record and decoy", str(size), "lists"))
    return wrapped("\n".join([*lines, "", END, ""]))


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adult", type=Path, help="the file adult.data of UCI")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="rehearse on a few random rows")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "score-funnel")
    given = parser.parse_args()
    if given.adult is None and not given.quick:
        raise SystemExit("give --adult, the file adult.data of UCI")
    given.out.mkdir(parents=True, exist_ok=True)
    table = adult(None if given.quick else given.adult)
    results: dict[str, list[dict[str, Any]]] = {}
    for private in ("income",) if given.quick else ("income", "sex"):
        results[private] = []
        for seed in range(1 if given.quick else given.splits):
            kept = given.out / f"{private}-{seed}.json"
            if not kept.exists():
                begun = time.process_time()
                found = part(table, private, seed, given.quick)
                write_json(kept, found | {"seconds": time.process_time() - begun})
            results[private].append(json.loads(kept.read_text("utf-8")))
            print(private, seed, json.dumps(results[private][-1]), flush=True)
    seconds = sum(each["seconds"] for found in results.values() for each in found)
    target = (given.out if given.quick else ROOT / "docs") / "score-funnel.md"
    target.write_text(page(results, seconds, given.quick), encoding="utf-8")


if __name__ == "__main__":
    main()
