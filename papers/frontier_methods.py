"""The methods on the page of frontiers, each from its paper or through the library that ships it.

A method yields releases for several settings of its own knob, for few of them where there is no folder to keep things
in. A release that depends on the record alone is a channel, and is then placed beside the proved optimum; others are
given S or U when they release.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from frontier_tables import Codes, Rows, Table
from scipy import sparse
from scipy.optimize import linprog, minimize

import privfunnel as pf
from privfunnel.errors import PrivFunnelError
from privfunnel.measures import Array

#: Draws what a model reads of rows, shape (rows, features), and the task as the release labels it.
Draw = Callable[[Rows, np.random.Generator], tuple[Array, Codes]]


@dataclass(frozen=True)
class Release:
    """One release of a method: how its rows look, and the channel p(y|x) where it is one, shape (M, N)."""

    method: str
    setting: str
    draw: Draw
    channel: Array | None = None


def of_channel(method: str, setting: str, channel: Array, view: Array) -> Release:
    """A release of symbols drawn from a channel, read through ``view``, shape (N, features)."""
    edges = np.cumsum(channel, axis=1)

    def draw(rows: Rows, rng: np.random.Generator) -> tuple[Array, Codes]:
        y = (rng.random((len(rows.x), 1)) > edges[rows.x, :-1]).sum(axis=1)
        return view[y], rows.u

    return Release(method, setting, draw, channel)


def by_posterior(table: Table, channel: Array) -> Array:
    """What a codebook tells of each output: the mean record under p(x|y), shape (N, features)."""
    p_xy = table.problem.p_x[:, None] * channel
    return (p_xy / np.maximum(p_xy.sum(axis=0), 1e-300)).T @ table.onehot


def original(table: Table, folder: Path | None) -> Iterator[Release]:
    """X itself, and nothing."""
    size = len(table.records)
    yield of_channel("original", "X itself", np.eye(size), table.onehot)
    yield of_channel("original", "nothing", np.ones((size, 1)), table.onehot.mean(axis=0, keepdims=True))


def funnel(table: Table, folder: Path | None) -> Iterator[Release]:
    """The plain funnel: most disclosure within a leakage, proved."""
    for share in (0.0, 0.1) if folder is None else (0.0, 0.02, 0.05, 0.1, 0.2, 0.4):
        channel = pf.solve(table.problem, leakage=f"{100 * share}%", throw=False).channel
        yield of_channel("funnel", f"leakage ≤ {100 * share:g} %", channel, by_posterior(table, channel))


def task_funnel(table: Table, folder: Path | None) -> Iterator[Release]:
    """The funnel for a task: least leakage for a utility I(U;Y)."""
    problem = table.problem
    try:
        told = pf.Problem(problem.counts, p_ux=table.joint(table.train.u))
        for share in (0.5,) if folder is None else (0.3, 0.5, 0.7, 0.9):
            channel = pf.solve(told, utility=share * told.utility_ceiling, throw=False).channel
            yield of_channel(
                "task funnel", f"utility {100 * share:g} %", channel, by_posterior(table, channel)
            )
    except (PrivFunnelError, TypeError) as error:
        print(f"{table.name}: the task funnel is left out ({error})")


def distortion(table: Table, folder: Path | None) -> Iterator[Release]:
    """The distortion funnel: least leakage for a share of changed records, proved; also with p(y) = p(x)."""
    for invariant in (False, True):
        name = "distortion, invariant" if invariant else "distortion"
        for share in (0.1,) if folder is None else (0.05, 0.1, 0.2, 0.3, 0.4):
            found = pf.distortion.solve(table.problem, distortion=share, invariant=invariant, gap=1e-7)
            yield of_channel(name, f"{100 * share:g} % changed", found.channel, table.onehot)


def by_hand(table: Table, folder: Path | None) -> Iterator[Release]:
    """Dropping and coarsening columns."""
    for name in ("suppression", "generalisation"):
        for share in (0.5,) if folder is None else (0.15, 0.3, 0.5, 0.7, 0.85):
            wanted = share * table.problem.disclosure_ceiling
            channel = pf.solve(table.problem, disclosure=wanted, solver=name).channel
            yield of_channel(name, f"keeps {100 * share:g} %", channel, by_posterior(table, channel))


def correlation_remover(table: Table, folder: Path | None) -> Iterator[Release]:
    """Linear projection: what S explains of each feature is taken away; it is given S for every row it releases."""
    train = table.train
    mean = float(train.s.mean())
    centred = (train.s - mean)[:, None].astype(float)
    weights = np.linalg.lstsq(centred, table.onehot[train.x], rcond=None)[0]
    for alpha in (1.0,) if folder is None else (0.25, 0.5, 0.75, 1.0):

        def draw(rows: Rows, rng: np.random.Generator, alpha: float = alpha) -> tuple[Array, Codes]:
            return table.onehot[rows.x] - alpha * (rows.s - mean)[:, None] * weights, rows.u

        yield Release("correlation remover", f"α = {alpha:g}", draw)


def lfr(table: Table, folder: Path | None) -> Iterator[Release]:
    """Learning fair representations (Zemel et al. 2013): prototypes with equal shares of both groups."""
    features, prototypes = table.onehot, 5
    counts = table.joint(table.train.s)
    task = table.joint(table.train.u)
    share, p_x = counts / counts.sum(axis=1, keepdims=True), task.sum(axis=0) / task.sum()
    p_u = task[1] / np.maximum(task.sum(axis=0), 1.0)
    size = prototypes * features.shape[1]

    def members(parameters: Array) -> Array:
        v = parameters[:size].reshape(prototypes, -1)
        logits = -((features[:, None, :] - v) ** 2).sum(axis=2)
        found = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def loss(parameters: Array, weight: float) -> float:
        found = members(parameters)
        v = parameters[:size].reshape(prototypes, -1)
        guess = np.clip(found @ (1.0 / (1.0 + np.exp(-parameters[size:]))), 1e-9, 1.0 - 1e-9)
        parity = float(np.abs((share[0] - share[1]) @ found).sum())
        far = float(p_x @ ((features - found @ v) ** 2).sum(axis=1))
        wrong = -float(p_x @ (p_u * np.log(guess) + (1.0 - p_u) * np.log(1.0 - guess)))
        return weight * parity + 0.01 * far + wrong

    rng = np.random.default_rng(0)
    for weight in (2.0,) if folder is None else (0.0, 0.5, 2.0, 10.0):
        start = np.concatenate(
            [features[rng.choice(len(features), prototypes)].ravel(), rng.normal(size=prototypes)]
        )
        options = {"maxiter": 5 if folder is None else 60}
        found = members(minimize(loss, start, args=(weight,), method="L-BFGS-B", options=options).x)
        # A membership is a function of the record: each record is an output of its own, but for equal memberships.
        _, place = np.unique(np.round(found, 6), axis=0, return_inverse=True)
        channel = np.eye(int(place.max()) + 1)[place.reshape(-1)]
        view = (channel / channel.sum(axis=0)).T @ found
        yield of_channel("LFR", f"A_z = {weight:g}", channel, view)


def fair_tree(table: Table, folder: Path | None) -> Iterator[Release]:
    """A tree whose splits tell U and not S (FARE, Jovanović et al. 2023); its leaves are what is released."""
    s, u = (table.joint(other) for other in (table.train.s, table.train.u))
    for gamma in (0.5,) if folder is None else (0.0, 0.5, 0.7, 0.85, 0.95):
        leaf = _grown(table, s, u, gamma, leaves=16, smallest=100)
        channel = np.eye(int(leaf.max()) + 1)[leaf]
        yield of_channel("fair tree", f"γ = {gamma:g}", channel, np.eye(channel.shape[1]))


def _gini(counts: Array) -> float:
    """Rows times the Gini impurity of two counts."""
    total = counts.sum()
    return float(2.0 * counts[0] * counts[1] / total) if total > 0 else 0.0


def _grown(table: Table, s: Array, u: Array, gamma: float, leaves: int, smallest: int) -> Codes:
    """The leaf of each record; the split that helps most is made first."""
    leaf = np.zeros(len(table.records), dtype=np.int64)

    def value(where: Any) -> float:
        rows = float(s[:, where].sum())
        return (1.0 - gamma) * _gini(u[:, where].sum(axis=1)) + gamma * (
            0.5 * rows - _gini(s[:, where].sum(axis=1))
        )

    for new in range(1, leaves):
        best, chosen = -1e-9, None
        for old in range(new):
            inside = leaf == old
            whole = value(inside)
            for j, ordered in enumerate(table.ordered):
                for code in range(int(table.records[:, j].max()) + 1):
                    right = table.records[:, j] > code if ordered else table.records[:, j] == code
                    parts = (inside & right, inside & ~right)
                    if min(s[:, part].sum() for part in parts) < smallest:
                        continue
                    change = sum(value(part) for part in parts) - whole
                    if change < best:
                        best, chosen = change, parts[0]
        if chosen is None:
            break
        leaf[chosen] = new
    return leaf


def optimised(table: Table, folder: Path | None) -> Iterator[Release]:
    """Optimised pre-processing (Calmon et al. 2017): records and labels change so that labels do not depend on S.

    The linear program with the total variation as its distance: a record changes in one column at most, its label with
    it, by at most half a change on average for anybody. It is given S and U of every row, and trains on its own labels.
    """
    near = (table.records[:, None, :] != table.records).sum(axis=2) <= 1
    a, b = np.nonzero(near)
    steps = np.array([(s, u, v) for s in (0, 1) for u in (0, 1) for v in (0, 1)])
    size = len(table.records)
    mass = np.zeros((2, 2, size))
    np.add.at(mass, (table.train.s, table.train.u, table.train.x), 1.0 / len(table.train.x))
    s, u, v = (np.repeat(steps[:, i], len(a)) for i in range(3))
    a, b = np.tile(a, len(steps)), np.tile(b, len(steps))
    kept = mass[s, u, a] > 0.0
    s, u, v, a, b = (each[kept] for each in (s, u, v, a, b))
    for epsilon in (0.1,) if folder is None else (0.02, 0.1, 0.3):
        moved = _optimal_moves(mass, (s, u, v, a, b), epsilon)
        if moved is None:
            print(f"{table.name}: optimised pre-processing has no solution for ε = {epsilon:g}")
            continue
        yield Release("optimised pre-processing", f"ε = {epsilon:g}", _mover(table, moved, (s, u, v, a, b)))


def _optimal_moves(mass: Array, move: tuple[Codes, ...], epsilon: float) -> Array | None:
    """p(x', u', s, x, u) of every allowed move, or None where there is none."""
    s, u, v, a, b = move
    size, count = mass.shape[2], len(s)
    every = np.arange(count)
    cell, target = (s * 2 + u) * size + a, v * size + b
    sums = sparse.csr_array((np.ones(count), (cell, every)), shape=(4 * size, count))
    used = np.flatnonzero(mass.ravel() > 0.0)
    cost = (a != b) + (u != v)
    dear = sparse.csr_array((cost.astype(float), (cell, every)), shape=(4 * size, count))[used]
    landed = sparse.csr_array((np.ones(count), (target, every)), shape=(2 * size, count))
    before = mass.sum(axis=0).ravel()
    eye, none = sparse.eye_array(2 * size), sparse.csr_array((len(used), 2 * size))
    rows, limits = [sparse.hstack([landed, -eye]), sparse.hstack([-landed, -eye]), sparse.hstack([dear, none])], [
        before, -before, 0.5 * mass.ravel()[used],
    ]  # fmt: skip
    wanted, group = float(mass[:, 1].sum()), mass.sum(axis=(1, 2))
    for k in (0, 1):
        positive = sparse.csr_array(((s == k) & (v == 1)).astype(float)[None, :])
        empty = sparse.csr_array((1, 2 * size))
        rows += [sparse.hstack([positive, empty]), sparse.hstack([-positive, empty])]
        limits += [[(1.0 + epsilon) * wanted * group[k]], [-(1.0 - epsilon) * wanted * group[k]]]
    left: Any = sparse.vstack(rows)
    equal: Any = sparse.hstack([sums[used], sparse.csr_array((len(used), 2 * size))])
    objective = np.concatenate([np.zeros(count), np.ones(2 * size)])
    found = linprog(objective, left, np.concatenate(limits), equal, mass.ravel()[used])
    return None if found.status != 0 else np.maximum(np.asarray(found.x)[:count], 0.0)


def _mover(table: Table, moved: Array, move: tuple[Codes, ...]) -> Draw:
    """Draws moved records and labels; what a cell that no train row has becomes is itself."""
    s, u, v, a, b = move
    size = len(table.records)
    channel = np.zeros((4 * size, 2 * size))
    np.add.at(channel, ((s * 2 + u) * size + a, v * size + b), moved)
    empty = channel.sum(axis=1) <= 0.0
    cells = np.flatnonzero(empty)
    channel[cells, (cells // size) % 2 * size + cells % size] = 1.0
    edges = np.cumsum(channel / channel.sum(axis=1, keepdims=True), axis=1)

    def draw(rows: Rows, rng: np.random.Generator) -> tuple[Array, Codes]:
        cell = (rows.s * 2 + rows.u) * size + rows.x
        landed = np.array(
            [np.searchsorted(edges[c], r) for c, r in zip(cell, rng.random(len(cell)), strict=True)]
        )
        landed = np.minimum(landed, 2 * size - 1)
        return table.onehot[landed % size], landed // size

    return draw


#: What runs in the environment of its own: rows and ladders in, generalised rows out.
ANJANA = """
import json, sys
import pandas as pd
from anjana.anonymity import k_anonymity, l_diversity, t_closeness
given = json.load(open(sys.argv[1]))
data, columns = pd.DataFrame(given["data"]), given["columns"]
ladders = {c: {int(l): pd.Series(v).values for l, v in steps.items()} for c, steps in given["ladders"].items()}
run = {"k": k_anonymity, "l": l_diversity, "t": t_closeness}[given["kind"]]
extra = {} if given["kind"] == "k" else {"sens_att": "private"}
made = run(data, [], columns, supp_level=0, hierarchies=ladders, **extra, **given["options"])
whole = len(made) == len(data)
rows = made[columns].astype(str).agg("|".join, axis=1).tolist() if whole else None
json.dump(rows, open(sys.argv[2], "w"))
"""
#: Seconds that a run of it may take.
ANJANA_SECONDS = 240


def anonymised(table: Table, folder: Path | None) -> Iterator[Release]:
    """k-anonymity, l-diversity and t-closeness by anjana, in an environment of its own: it needs an older NumPy."""
    if folder is None:
        return
    python = _environment(folder / "anjana")
    if python is None:
        print(f"{table.name}: anjana cannot be installed here, and is left out")
        return
    levels = {name: _ladder(codes, ordered) for name, codes, ordered in
              zip(table.columns, table.records.T, table.ordered, strict=True)}  # fmt: skip
    x = table.train.x
    settings = {"k = 5": ("k", {"k": 5}), "k = 50": ("k", {"k": 50}), "l = 2": ("l", {"k": 5, "l_div": 2}),
                "t = 0.3": ("t", {"k": 5, "t": 0.3}), "t = 0.1": ("t", {"k": 5, "t": 0.1})}  # fmt: skip
    given = {
        "columns": list(table.columns),
        "data": {name: [str(c) for c in steps[0][x]] for name, steps in levels.items()}
        | {"private": [str(each) for each in table.train.s]},
        "ladders": {
            name: {i: [str(c) for c in step[x]] for i, step in enumerate(steps)}
            for name, steps in levels.items()
        },
    }
    for setting, (kind, options) in settings.items():
        rows = _anjana(python, folder, given | {"kind": kind, "options": options})
        if rows is None:
            print(f"{table.name}: anjana finds nothing for {setting} in time without leaving rows out")
            continue
        _, place = np.unique(np.array(rows), return_inverse=True)
        of_x = np.zeros(len(table.records), dtype=np.int64)
        of_x[x] = place.reshape(-1)
        channel = np.eye(int(of_x.max()) + 1)[of_x]
        yield of_channel("anjana", setting, channel, by_posterior(table, channel))


def _anjana(python: Path, folder: Path, given: dict[str, Any]) -> list[str] | None:
    """The generalised record of each row, or None where there is none."""
    paths = folder / "anjana-in.json", folder / "anjana-out.json"
    paths[0].write_text(json.dumps(given), encoding="utf-8")
    try:
        subprocess.run([str(python), "-c", ANJANA, *map(str, paths)], check=True, timeout=ANJANA_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    found: list[str] | None = json.loads(paths[1].read_text("utf-8"))
    return found


def _ladder(codes: Codes, ordered: bool) -> list[Codes]:
    """Coarser and coarser versions of a column, the last of which says nothing."""
    steps, width = [codes], 2
    while ordered and width <= int(codes.max()):
        steps.append(codes // width)
        width *= 2
    return [*steps, np.zeros_like(codes)]


def _environment(folder: Path) -> Path | None:
    """The interpreter of an environment with anjana, made where there is none; None where that cannot be."""
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "anjana"],
            check=True,
            timeout=600,
            capture_output=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return python


METHODS = (
    original, funnel, task_funnel, distortion, by_hand, correlation_remover, lfr, fair_tree, optimised, anonymised,
)  # fmt: skip
