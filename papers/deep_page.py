"""Write ``docs/deep.md`` from what ``papers/deep.py`` trained: attackers, proved optima, tables and figures."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from deep import MIXING, PAIR, RATE, VARIANTS, dataset, symbols_of
from deep_judge import judged
from matplotlib.figure import Figure
from prose import wrapped

import privfunnel as pf
from privfunnel.learning.deep import closed_forms
from privfunnel.model.envelope import lower_envelope
from privfunnel.neighbours.gaussian import GaussianProblem
from privfunnel.report import plot

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHARES = (0.4, 0.6, 0.8, 0.9)
ADULTS = {"adult": "Income is private", "sex": "Sex is private"}
TABLES = {"heart": "Heart failure, 4 × 16", "binned": "A normal pair in bins, 4 × 12"}


class Results(NamedTuple):
    """Everything that was trained and judged, and the data."""

    runs: dict[str, dict[str, Any]]
    arrays: dict[str, Any]
    judged: dict[str, Any]
    folder: Path

    def of(self, data: str) -> dict[str, dict[str, Any]]:
        """The runs on one data set, by variant, in the order of the variants."""
        return {name: self.runs[f"{data}.{name}"] for name in VARIANTS if f"{data}.{name}" in self.runs}

    def points(self, data: str, variant: str) -> Any:
        """Disclosure, leakage and their standard errors, shape (strengths, seeds, 4)."""
        run = self.runs[f"{data}.{variant}"]
        return np.array(run["informations"]).reshape(len(run["strengths"]), len(run["seeds"]), 4)


def read(folder: Path, quick: bool) -> Results:
    """Read what is there; attackers run where they have not."""
    runs = {
        path.name.removesuffix(".json"): json.loads(path.read_text("utf-8"))
        for path in sorted(folder.glob("*.*.json"))
    }
    with np.load(folder / "data.npz") as stored:
        arrays = dict(stored)
    return Results(runs, arrays, judged(folder, quick), folder)


# --- tables ---------------------------------------------------------------------------------------------------------


def channels(results: Results, data: str, variant: str) -> Any:
    """The learnt channels in the order of the table's columns, rows normalised, (members, M, N)."""
    symbols, _ = symbols_of(dataset(results.arrays, data))
    with np.load(results.folder / f"{data}.{variant}.npz") as stored:
        found = stored["channel"].astype(np.float64)
    placed = np.empty_like(found)
    placed[:, symbols.argmax(axis=1)] = found
    return placed / placed.sum(axis=2, keepdims=True)


@cache
def proved(data: str, folder: Path) -> tuple[pf.Problem, pf.Curve]:
    """The table as a problem, and its certified curve."""
    with np.load(folder / "data.npz") as stored:
        problem = pf.Problem(stored[data])
    return problem, pf.trace(problem, points=41)


def evaluated(results: Results, data: str, variant: str) -> Any:
    """Disclosure and leakage of every member, recomputed from its channel, (members, 2)."""
    problem, _ = proved(data, results.folder)
    found = [problem.evaluate(channel) for channel in channels(results, data, variant)]
    return np.array([(point.disclosure, point.leakage) for point in found])


def table_lines(results: Results, data: str) -> list[str]:
    """The section of one table."""
    problem, curve = proved(data, results.folder)
    ceiling = problem.disclosure_ceiling
    lines = [
        f"### {TABLES[data]}", "",
        f"H(X) = {ceiling:.4f}, I(S;X) = {problem.leakage_ceiling:.4f} nats; listed symbols, one more than X has.", "",
        "| method | " + " | ".join(f"{100 * share:.0f} %" for share in SHARES) + " | median excess | least excess |",
        "|---" * (len(SHARES) + 3) + "|",
    ]  # fmt: skip
    for variant in results.of(data):
        at = evaluated(results, data, variant)
        ends = np.array([[0.0, 0.0], [ceiling, problem.leakage_ceiling]])
        every = np.concatenate([at, ends])
        hull = every[lower_envelope(every[:, 0], every[:, 1])]
        hull = hull[np.argsort(hull[:, 0])]
        cells = [f"{np.interp(share * ceiling, hull[:, 0], hull[:, 1]):.4f}" for share in SHARES]
        inner = at[(at[:, 0] > 0.3 * ceiling) & (at[:, 0] < 0.99 * ceiling)]
        over = inner[:, 1] - curve.proved(inner[:, 0])
        told = [f"{np.median(over):.4f}", f"{over.min():.4f}"] if len(over) else ["–", "–"]
        lines.append(f"| {variant} | " + " | ".join(cells + told) + " |")
    bound = curve.proved(np.array(SHARES) * ceiling)
    lines.append("| **proved ≥** | " + " | ".join(f"**{value:.4f}**" for value in bound) + " | | |")
    return [*lines, ""]


def marker(i: int) -> str:
    """A marker that goes with another colour when the colours begin again."""
    return plot.MARKERS[(i + i // len(plot.COLOURS)) % len(plot.MARKERS)]


def table_figure(results: Results, path: Path) -> None:
    """Every member on both tables, with the proved curve."""
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    for ax, data in zip(figure.subplots(1, 2), TABLES, strict=True):
        problem, curve = proved(data, results.folder)
        grid = np.linspace(0.0, problem.disclosure_ceiling, 200)
        ax.plot(grid, curve.proved(grid), color="black", lw=1.5, label="proved optimum")
        for i, variant in enumerate(results.of(data)):
            at = evaluated(results, data, variant)
            ax.plot(at[:, 0], at[:, 1], marker(i), ms=3.5, ls="",
                    color=plot.COLOURS[i % len(plot.COLOURS)], label=variant)  # fmt: skip
        ax.set(title=TABLES[data], xlabel="disclosure I(X;Y) [nats]", ylabel="leakage I(S;Y) [nats]")
    figure.axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def pair_lines(results: Results) -> list[str]:
    """PPAN on the symmetric pair."""
    run = results.runs["pair.ppan"]
    found = channels(results, "pair", "ppan")
    leakage = pf.measures.mutual_information(results.arrays["pair"] @ found)
    far = 1.0 - np.trace(found, axis1=1, axis2=2) / found.shape[1]
    best = np.array([closed_forms.symmetric_pair_leakage(*PAIR, float(value)) for value in far])
    size = len(run["seeds"])
    lines = [
        "| δ | P(Y ≠ X) | leakage | least for that distortion | median excess | largest |",
        "|---|---|---|---|---|---|",
    ]
    for i, budget in enumerate(run["strengths"]):
        own = slice(i * size, (i + 1) * size)
        over = leakage[own] - best[own]
        middle = int(np.argsort(over)[len(over) // 2]) + i * size
        lines.append(
            f"| {budget:g} | {far[middle]:.4f} | {leakage[middle]:.5f} | {best[middle]:.5f} | {np.median(over):.1e} | "
            f"{over.max():.1e} |"
        )
    return lines


def normal_lines(results: Results) -> list[str]:
    """Linear Gaussian encoders against the best Gaussian mechanism."""
    run = results.runs["normal.vpaf"]
    pair = GaussianProblem(MIXING @ MIXING.T + np.eye(len(MIXING)), MIXING, np.eye(MIXING.shape[1]))
    size = len(run["seeds"])
    lines = [
        "| γ | directions | I(X;Y) | I(S;Y) | best Gaussian | largest difference over seeds |",
        "|---|---|---|---|---|---|",
    ]
    for i, strength in enumerate(run["strengths"]):
        rows = []
        for j in range(i * size, (i + 1) * size):
            told, leaked = run["informations"][j][:2]
            released = int((np.array(run["variances"][j]) < 0.5).sum())
            floor = float(np.exp(-2.0 * told / max(released, 1)))
            rows.append((released, told, leaked, pair.funnel(told, resolution=min(floor, 0.99)).leakage))
        released, told, leaked, best = rows[0]
        apart = max(abs(row[2] - row[3]) for row in rows)
        lines.append(f"| {strength:g} | {released} | {told:.3f} | {leaked:.5f} | {best:.5f} | {apart:.1e} |")
    return lines


# --- rows -----------------------------------------------------------------------------------------------------------


@cache
def register(data: str, folder: Path) -> tuple[pf.Problem, float]:
    """Adult with one private column as a problem, and what of it can be disclosed without any leakage."""
    with np.load(folder / "data.npz") as stored:
        _, p_sx = symbols_of(dataset(dict(stored), data))
    problem = pf.Problem(p_sx)
    return problem, pf.free_disclosure(problem)


def adult_lines(results: Results, data: str) -> list[str]:
    """Every variant on Adult: exact informations, the proved optimum at the same disclosure, attackers."""
    problem, free = register(data, results.folder)
    ceiling = problem.disclosure_ceiling
    lines = [
        f"{problem.n_s} × {problem.n_x} symbols, H(X) = {ceiling:.3f}, I(S;X) = {problem.leakage_ceiling:.4f} nats; "
        f"up to R0 = {free:.3f} nats can be disclosed without any leakage.", "",
        "| method | strength | I(X;Y) | I(S;Y) | seeds | optimum there | best attacker | right | leakage shown ≥ |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for variant, run in results.of(data).items():
        points = results.points(data, variant)
        for i, strength in enumerate(run["strengths"]):
            if (found := results.judged.get(f"{data}.{variant}.{i}")) is None:
                continue
            # Sampled, so that they may be above what there is by chance.
            told, leaked = points[i, :, 0].mean(), points[i, :, 1].clip(0.0, problem.leakage_ceiling)
            best = optimum(problem, free, float(told))
            at = found["private"]
            lines.append(
                f"| {variant} | {strength:g} | {min(told, ceiling):.2f} | {leaked.mean():.4f} | "
                f"{leaked.min():.4f}–{leaked.max():.4f} | {best:.4f} | {at['best']} | "
                f"{right(at)} | {max(at['information'][1], 0.0):.3f} |"
            )
    return [*lines, ""]


def optimum(problem: pf.Problem, free: float, disclosure: float) -> float:
    """The proved lower bound of the leakage at a disclosure that was estimated, and may be above H(X) by chance."""
    if disclosure <= free:
        return 0.0
    if disclosure >= problem.disclosure_ceiling - 1e-3:
        return problem.leakage_ceiling
    return float(pf.solve(problem, disclosure=disclosure, throw=False).lower_bound or 0.0)


def right(found: dict[str, Any]) -> str:
    """Share of right guesses with its interval."""
    value, low, high = (100 * each for each in found["accuracy"])
    return f"{value:.1f} % ({low:.1f}–{high:.1f})"


def adult_figure(results: Results, path: Path) -> None:
    """Leakage against disclosure of every member on Adult, for both private columns."""
    figure = Figure(figsize=(10.0, 4.6), layout="constrained")
    for ax, data in zip(figure.subplots(1, 2), ADULTS, strict=True):
        problem, free = register(data, results.folder)
        grid = np.linspace(free, problem.disclosure_ceiling, 12)
        least = [0.0, *(optimum(problem, free, float(r)) for r in grid)]
        ax.plot([0.0, *grid], least, color="black", label="proved optimum")
        for i, variant in enumerate(results.of(data)):
            at = results.points(data, variant).reshape(-1, 4)
            ax.plot(np.minimum(at[:, 0], problem.disclosure_ceiling), at[:, 1], marker(i), ms=3.0,
                    ls="", color=plot.COLOURS[i % len(plot.COLOURS)], label=variant)  # fmt: skip
        ax.set(title=ADULTS[data], xlabel="disclosure I(X;Y) [nats]", ylabel="leakage I(S;Y) [nats]")
    figure.axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


@cache
def digits_optimum(folder: Path, quick: bool) -> tuple[float, list[tuple[float, float]]]:
    """The digit's entropy, and utility and least known leakage, from where there has to be some to where all is told.

    An image tells colour and digit, and nothing else of it matters for either: a funnel with a task. A rehearsal takes
    all digits from 3 on for one.
    """
    with np.load(folder / "data.npz") as stored:
        colour, digit = stored["colour"].astype(int), stored["digit"].astype(int)
    digit = np.minimum(digit, 3 if quick else 9)
    size = int(digit.max()) + 1
    p_sx, p_ux = np.zeros((2, 2 * size)), np.zeros((size, 2 * size))
    np.add.at(p_sx, (colour, size * colour + digit), 1.0 / len(colour))
    np.add.at(p_ux, (digit, size * colour + digit), 1.0 / len(colour))
    problem = pf.Problem(p_sx, p_ux=p_ux)
    free = pf.solve(problem, leakage=0.0)
    grid = np.linspace(free.utility, problem.utility_ceiling, 2 if quick else 5)[1:]
    found = [free, *(pf.solve(problem, utility=float(r), throw=False) for r in grid)]
    return problem.utility_ceiling, [(each.utility, each.leakage) for each in found]


def digits_lines(results: Results, quick: bool) -> list[str]:
    """Coloured digits: what an attacker learns of the colour, and a reader of the digit."""
    ceiling, least = digits_optimum(results.folder, quick)
    lines = [
        "| method | strength | colour: best attacker | right | nats ≥ | digit: right | nats ≥ |",
        "|---|---|---|---|---|---|---|",
    ]
    prior = 0.0
    for variant, run in results.of("digits").items():
        for i, strength in enumerate(run["strengths"]):
            if (found := results.judged.get(f"digits.{variant}.{i}")) is not None:
                at, task = found["private"], found["task"]
                prior = at["prior"]
                lines.append(
                    f"| {variant} | {strength:g} | {at['best']} | {right(at)} | {shown(at):.3f} | {right(task)} | "
                    f"{shown(task):.3f} |"
                )
    return [
        f"Without looking the colour is right for {100 * prior:.1f} % of the rows judged. A release that reads colour "
        f"and digit from the image can tell {least[0][0]:.3f} of the digit's {ceiling:.3f} nats without any "
        f"leakage, and all of them with {least[-1][1]:.3f} nats, by the [funnel for a task](task.md).",
        "",
        *lines,
        "",
    ]


def shown(found: dict[str, Any]) -> float:
    """What an attacker shows of an information: the lower end of its interval, in nats."""
    return max(float(found["information"][1]), 0.0)


def digits_figure(results: Results, path: Path, quick: bool) -> None:
    """What was shown of the colour against what was shown of the digit, with the least leakage."""
    _, least = digits_optimum(results.folder, quick)
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.plot(*zip((0.0, 0.0), *least, strict=True), color="black", label="least known, 0 proved")
    for i, (variant, run) in enumerate(results.of("digits").items()):
        found = [results.judged.get(f"digits.{variant}.{k}") for k in range(len(run["strengths"]))]
        at = np.array([(shown(each["task"]), shown(each["private"])) for each in found if each is not None])
        if len(at):
            ax.plot(at[:, 0], at[:, 1], marker(i), ms=5.0, ls="",
                    color=plot.COLOURS[i % len(plot.COLOURS)], label=variant)  # fmt: skip
    ax.set(xlabel="digit: I(U;Y) shown [nats]", ylabel="colour: I(S;Y) shown [nats]")
    ax.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def cost_lines(results: Results) -> list[str]:
    """Seconds and memory of the trainings."""
    lines = ["| data | trainings | seconds | most memory |", "|---|---|---|---|"]
    for data in (*ADULTS, "heart", "binned", "pair", "normal", "digits"):
        runs = list(results.of(data).values())
        if runs:
            count = sum(len(run["best"]) for run in runs)
            seconds, memory = sum(run["seconds"] for run in runs), max(run["memory"] for run in runs)
            where = sorted({run["device"] for run in runs})
            room = f"{memory / 2**30:.2f} GiB" if memory else "–"
            name = f"adult, {ADULTS[data].lower()}" if data in ADULTS else data
            lines.append(f"| {name} ({', '.join(where)}) | {count} | {seconds:.0f} | {room} |")
    return lines


def first_runs(results: Results) -> float:
    """Seconds of the trainings on Adult with a private income, but for those with a price on the rate."""
    return sum(run["seconds"] for name, run in results.of("adult").items() if not name.endswith("-rate"))


def page(results: Results, quick: bool) -> str:
    """The whole page: the words of the template with every number filled in."""
    text = (Path(__file__).parent / "deep.template.txt").read_text("utf-8")
    parts = {
        "tables": [line for data in TABLES for line in table_lines(results, data)],
        "pair": pair_lines(results),
        "normal": normal_lines(results),
        **{data: adult_lines(results, data) for data in ADULTS},
        "digits": digits_lines(results, quick),
        "cost": cost_lines(results),
        "rate": [f"{RATE:g}"],
        "symbols": [str(len(np.unique(results.arrays["adult_x"], axis=0)))],
        "adult seconds": [f"{first_runs(results):.0f}"],
        "torch": sorted({run["torch"] for run in results.runs.values()}),
    }
    for key, lines in parts.items():
        text = text.replace(f"{{{{{key}}}}}", ("\n" if len(lines) > 2 else ", ").join(lines).rstrip("\n"))
    return wrapped(text)


def write(folder: Path, *, quick: bool = False) -> None:
    """Write the page and its figures; a rehearsal writes both to the folder of the results."""
    results = read(folder, quick)
    docs = folder / "docs" if quick else DOCS
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    table_figure(results, docs / "figures" / "deep-tables.png")
    adult_figure(results, docs / "figures" / "deep-adult.png")
    digits_figure(results, docs / "figures" / "deep-digits.png", quick)
    (docs / "deep.md").write_text(page(results, quick), encoding="utf-8")
    print(docs / "deep.md")
