"""What an attacker and a task get out of each method's release, on held-out rows: ``docs/frontiers.md``.

    python papers/frontiers.py [--adult adult.data] [--out out/frontiers] [--quick]

Methods learn from one half of the rows. The other half is released through them, and judged by models that were trained
on the first half's release: one that guesses S, the attacker, and one that predicts U, the task. Releases that depend
on the record alone are placed beside the proved least leakage for what they disclose. ``--quick`` rehearses on a small
table and prints the page.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from frontier_methods import METHODS, Release
from frontier_tables import Rows, Table, adult, compas_like
from prose import wrapped
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import privfunnel as pf
from privfunnel.data.population.bounds import population_bound
from privfunnel.measures import Array

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEED = 20_417
#: Rows of the table that is made like COMPAS.
ROWS = 12_000


@dataclass(frozen=True)
class Point:
    """One release, judged; information in nats, NaN where the release is no channel.

    Attributes:
        table: The table.
        method: The method, and ``setting`` the place of its knob.
        attack: How often the better attacker of two guesses S right; ``attack_auc`` its AUC.
        task: How often the better model of two predicts U right; ``task_auc`` its AUC.
        disclosure: I(X;Y) on the train rows, ``leakage`` I(S;Y), ``proved`` the least leakage for that disclosure.
        population: What held-out rows prove about the leakage in the population at 95 % confidence.
    """

    table: str
    method: str
    setting: str
    attack: float
    attack_auc: float
    task: float
    task_auc: float
    disclosure: float
    leakage: float
    proved: float
    population: float


def judged(table: Table, release: Release, quick: bool) -> Point:
    """One release, judged on the test rows."""
    rng = np.random.default_rng(SEED)
    (known, labels), (asked, _) = (release.draw(rows, rng) for rows in (table.train, table.test))
    attack = predicted(known, table.train.s, asked, table.test.s, quick)
    task = predicted(known, labels, asked, table.test.u, quick)
    facts = [float("nan")] * 4
    if release.channel is not None:
        point = table.problem.evaluate(release.channel)
        best = pf.solve(table.problem, disclosure=point.disclosure, throw=False)
        facts = [
            point.disclosure,
            point.leakage,
            best.lower_bound,
            provable(release.channel, table.test, rng),
        ]
    return Point(table.name, release.method, release.setting, *attack, *task, *facts)


def provable(channel: Array, test: Rows, rng: np.random.Generator) -> float:
    """What the test rows prove about I(S;Y) in the population, in nats: outputs are counted, none left out."""
    y = (rng.random((len(test.x), 1)) > np.cumsum(channel, axis=1)[test.x, :-1]).sum(axis=1)
    counts = np.zeros((2, channel.shape[1]))
    np.add.at(counts, (test.s, y), 1.0)
    return float(population_bound(counts, 0.95).upper)


def predicted(known: Array, labels: Array, asked: Array, truth: Array, quick: bool) -> tuple[float, float]:
    """Accuracy and AUC of the better of a linear model and boosted trees."""
    if len(np.unique(labels)) < 2 or not np.ptp(known, axis=0).any():
        return float((truth == np.round(labels.mean())).mean()), 0.5
    models = [LogisticRegression(max_iter=500)]
    models += [] if quick else [HistGradientBoostingClassifier(max_iter=60, random_state=0)]
    found = []
    for model in models:
        chance = model.fit(known, labels).predict_proba(asked)[:, 1]
        found.append((float(((chance > 0.5) == truth).mean()), float(roc_auc_score(truth, chance))))
    return max(accuracy for accuracy, _ in found), max(auc for _, auc in found)


def points(table: Table, folder: Path, quick: bool) -> list[Point]:
    """Every release of every method, judged; those of a method that finished earlier are read."""
    found: list[Point] = []
    for method in METHODS:
        kept = folder / f"{slug(table.name)}-{method.__name__}.json"
        if not quick and kept.exists():
            found += [Point(**each) for each in json.loads(kept.read_text("utf-8"))]
            continue
        own = [judged(table, release, quick) for release in method(table, None if quick else folder)]
        if not quick and own:
            kept.write_text(json.dumps([asdict(each) for each in own]), encoding="utf-8")
        found += own
    return found


def page(found: Sequence[Point], tables: Sequence[Table]) -> str:
    """The page as Markdown."""
    lines = [
        "# Frontiers: what an attacker and a task get",
        "",
        "Made by `python papers/frontiers.py --adult adult.data`. Every method learns from one half of the rows; the "
        "other half is released through it. A model trained on the first half's release guesses S (the attacker), "
        "another predicts U (the task), each the better of a linear model and boosted trees. Up and to the left is "
        "better.",
        "",
        "*I(X;Y)* and *I(S;Y)* are those of the release on the rows it was made for, in nats, and *least* is the "
        "proved least leakage of any release that discloses as much: what a method has above it, it gives away for "
        "nothing, as far as information goes. *Population* is what the held-out rows prove about I(S;Y) at 95 % "
        "confidence. Methods that are given S or U of the rows that they release are no channels from X and have no "
        "such numbers.",
        "",
    ]
    for table in tables:
        own = [point for point in found if point.table == table.name]
        lines += [
            f"## {table.name}",
            "",
            f"{len(table.train.x):,} rows to learn from, {len(table.test.x):,} to judge by "
            f"({100 * table.left_out:.1f} % more have records that were not seen); {len(table.records)} records of "
            f"{', '.join(table.columns)}; H(X) = {table.problem.disclosure_ceiling:.4f}, "
            f"I(S;X) = {table.problem.leakage_ceiling:.4f} nats.",
            "",
            f"![Attacker and task on {table.name}](figures/frontiers-{slug(table.name)}.png)",
            "",
            "| method | setting | attacker | AUC | task | AUC | I(X;Y) | I(S;Y) | least | population |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
            *(_row(point) for point in own),
            "",
        ]
    lines += [
        "## What the methods are",
        "",
        "- *funnel*, *task funnel*, *distortion*: this library's, for I(X;Y), for I(U;Y) and for records; proved "
        "optimal for what they minimise, which is not the accuracy of a model.",
        "- *suppression*, *generalisation*: the best way to drop, or to coarsen, columns.",
        "- *anjana*: k-anonymity, l-diversity and t-closeness by the library of that name, without leaving rows out.",
        "- *LFR*: learning fair representations (Zemel et al. 2013), five prototypes, from the paper.",
        "- *fair tree*: the tree of FARE (Jovanović et al. 2023), its Gini criterion from the paper; the "
        "finite-sample certificate is the column *population*.",
        "- *correlation remover*: what S explains of each feature in a linear model is taken away. It needs S of "
        "every row.",
        "- *optimised pre-processing* (Calmon et al. 2017): the linear program of the paper with the total variation "
        "as its distance. It makes labels independent of S, and does not hide S in the records; it needs S and U of "
        "every row.",
        "",
        "Numbers can give away more than they seem to: a remover shifts the features of each group, and "
        "LFR's memberships tell records apart, so that trees read from them what a linear model does not see. What "
        "bounds every attacker is I(S;Y), and that of a one-to-one function of the record is I(S;X).",
        "",
        f"Seed {SEED}.",
        "",
    ]
    return wrapped("\n".join(lines))


def slug(name: str) -> str:
    """A table's name in that of a file."""
    return name.lower().replace(" ", "-")


def _row(point: Point) -> str:
    informations = (point.disclosure, point.leakage, point.proved, point.population)
    cells = [f"{value:.4f}" if np.isfinite(value) else "–" for value in informations]
    shown = [
        f"{100 * point.attack:.1f} %",
        f"{point.attack_auc:.3f}",
        f"{100 * point.task:.1f} %",
        f"{point.task_auc:.3f}",
    ]
    return "| " + " | ".join([point.method, point.setting, *shown, *cells]) + " |"


def draw(found: Sequence[Point], table: Table, path: Path) -> None:
    """The frontier plot of one table."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    ax = figure.add_subplot()
    own = [point for point in found if point.table == table.name]
    for i, method in enumerate(dict.fromkeys(point.method for point in own)):
        mine = sorted((point.attack, point.task) for point in own if point.method == method)
        style = "-" if method in ("funnel", "task funnel", "distortion") else ":"
        ax.plot(
            *np.array(mine).T * 100, ls=style, marker="osD^vP*Xhd<>"[i % 12], ms=4.5, lw=1.0, label=method
        )
    ax.set_xlabel("attacker guesses S right, held-out rows [%]")
    ax.set_ylabel("model predicts U right, held-out rows [%]")
    ax.legend(fontsize=7, frameon=False, loc="lower right")
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adult", type=Path, help="the file adult.data of UCI; without it Adult is left out")
    parser.add_argument(
        "--out", type=Path, default=Path("out/frontiers"), help="where finished numbers are kept"
    )
    parser.add_argument("--quick", action="store_true", help="a few settings on a small table, printed only")
    options = parser.parse_args(arguments)
    tables = [compas_like(1200 if options.quick else ROWS, SEED)]
    if options.adult is not None and not options.quick:
        tables.append(adult(options.adult, SEED))
    options.out.mkdir(parents=True, exist_ok=True)
    found = [point for table in tables for point in points(table, options.out, options.quick)]
    text = page(found, tables)
    if options.quick:
        print(text)
        return
    with (options.out / "points.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(asdict(found[0])))
        writer.writeheader()
        writer.writerows(asdict(point) for point in found)
    for table in tables:
        draw(found, table, DOCS / "figures" / f"frontiers-{slug(table.name)}.png")
    (DOCS / "frontiers.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
