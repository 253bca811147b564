"""Rows of UCI Adult that are really held out: score classes, their zero-leakage release, and what the rest proves.

Public columns with thousands of combinations are grouped into *score classes*: quantiles of an estimate of p(s|x) that
is cross-fitted and calibrated on the design rows. The class is what the mechanism hides and releases; a record of the
table can be drawn for every released symbol, or the row's own record beside a decoy.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import privfunnel as pf
from privfunnel import measures
from privfunnel.data.population.bounds import population_bound
from privfunnel.measures import Array

ADULT = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
         "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income")  # fmt: skip
#: Public columns; sex is private.
PUBLIC = ("age", "workclass", "education", "marital-status", "occupation", "race", "capital-gain", "hours-per-week",
          "native-country", "income")  # fmt: skip
HELD_OUT = 10_854
OUTPUTS = (8, 16)
FOLDS = 3


def adult_rows(path: Path) -> tuple[Array, Array]:
    """Sex as 0 and 1, and ten public columns as numbers."""
    with path.open(encoding="utf-8") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if len(row) == len(ADULT)]
    table = np.array(rows)
    columns = []
    for name in PUBLIC:
        values = table[:, ADULT.index(name)]
        columns.append(
            values.astype(float)
            if name in {"age", "capital-gain", "hours-per-week"}
            else np.unique(values, return_inverse=True)[1].astype(float)
        )
    return (table[:, ADULT.index("sex")] == "Male").astype(np.int64), np.column_stack(columns)


@dataclass(frozen=True)
class Score:
    """An estimate of p(s = 1|x), calibrated on rows that each of its models has not seen.

    Attributes:
        model: Trained on all design rows; ``calibration`` the monotone map from its scores to shares.
        own: The calibrated score of each design row, from models that did not see it.
    """

    model: Any
    calibration: Any
    own: Array

    @classmethod
    def fitted(cls, x: Array, s: Array, seed: int) -> Score:
        """Fit on design rows ``x``, shape (rows, columns), and ``s``, 0 or 1."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.isotonic import IsotonicRegression
        from sklearn.model_selection import cross_val_predict

        model = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
        raw = cross_val_predict(model, x, s, cv=FOLDS, method="predict_proba")[:, 1]
        calibration = IsotonicRegression(y_min=1e-3, y_max=1.0 - 1e-3, out_of_bounds="clip").fit(raw, s)
        # Isotonic shares are tied; the raw score orders rows within a tie.
        return cls(model.fit(x, s), calibration, calibration.predict(raw) + 1e-6 * raw)

    def of(self, x: Array) -> Array:
        """The calibrated score of other rows."""
        raw = self.model.predict_proba(x)[:, 1]
        return np.asarray(self.calibration.predict(raw) + 1e-6 * raw)


class ScoreClasses(NamedTuple):
    """Quantiles of a score as classes: ``edges`` between them, and the ``table`` (s, class) of the design rows."""

    edges: Array
    table: Array

    @classmethod
    def of(cls, score: Array, s: Array, size: int) -> ScoreClasses:
        """So many classes of design rows, as equal in size as ties let them be."""
        edges = np.quantile(score, np.linspace(0.0, 1.0, size + 1)[1:-1])
        table = np.zeros((2, size))
        np.add.at(table, (s, np.searchsorted(edges, score)), 1.0)
        return cls(edges, table)

    def at(self, score: Array) -> Array:
        """The class of each row."""
        return np.asarray(np.searchsorted(self.edges, score))


def with_outputs(score: Array, s: Array, outputs: int) -> tuple[ScoreClasses, Array]:
    """Score classes whose zero-leakage mechanism has exactly so many outputs, and its channel p(y|class).

    For a binary S it has one output less than classes, or as many where a class has the share of all rows.
    """
    for size in (outputs + 1, outputs, outputs + 2):
        classes = ScoreClasses.of(score, s, size)
        channel = pf.solve(pf.Problem(classes.table), leakage=0.0).channel
        if channel.shape[1] == outputs:
            return classes, np.asarray(channel)
    raise RuntimeError(f"no number of classes near {outputs} gives {outputs} outputs")


class Split(NamedTuple):
    """What held-out rows say of one design, nats.

    Attributes:
        symbol: 95 % bound of I(S;Y) of the class symbol, and of records drawn from p(x|y), which are made of it.
        classes: Number of classes.
        kept: I(class; Y) of the design rows, of ``entropy`` H(class).
        decoys: H(S) less the log-loss of an attacker who has the score and sees the row's own record beside a decoy:
            an estimate from below of what such records tell.
    """

    symbol: float
    classes: int
    kept: float
    entropy: float
    decoys: float


def adult_split(s: Array, x: Array, seed: int) -> dict[int, Split]:
    """Hold rows out, design on the others without leakage, for each number of outputs."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(s))
    rest, design = order[:HELD_OUT], order[HELD_OUT:]
    score = Score.fitted(x[design], s[design], seed)
    new = score.of(x[rest])
    found = {}
    for outputs in OUTPUTS:
        classes, channel = with_outputs(score.own, s[design], outputs)
        at = classes.at(new)
        drawn = np.minimum((channel[at].cumsum(axis=1) < rng.random((len(at), 1))).sum(axis=1), outputs - 1)
        counts = np.zeros((2, outputs))
        np.add.at(counts, (s[rest], drawn), 1.0)
        p_class = classes.table.sum(axis=0) / classes.table.sum()
        joint = p_class[:, None] * channel
        found[outputs] = Split(
            symbol=population_bound(counts).upper,
            classes=len(p_class),
            kept=float(measures.mutual_information(joint)),
            entropy=float(measures.entropy(p_class)),
            decoys=beside_decoys(score.own, classes, joint, (s[rest], new, drawn), rng),
        )
    return found


def beside_decoys(
    own: Array,
    classes: ScoreClasses,
    joint: Array,
    rows: tuple[Array, Array, Array],
    rng: np.random.Generator,
) -> float:
    """What an attacker with the score learns from records and decoys, nats, from below: H(S) less the log-loss.

    Args:
        own: Scores of the design rows, among which decoys are drawn.
        classes: The classes.
        joint: p(class, y), shape (classes, N).
        rows: s, score and released symbol of each held-out row.
        rng: Draws the decoys.
    """
    s, score, y = rows
    posterior = joint / joint.sum(axis=0)
    at, of_design = classes.at(score), classes.at(own)
    chance = np.zeros(len(s))
    members = [np.flatnonzero(of_design == t) for t in range(len(posterior))]
    for t in range(len(posterior)):
        decoy = own[rng.choice(members[t], len(s))]
        chance += posterior[t, y] * np.where(at == t, score, decoy)
    told = np.where(s == 1, chance, 1.0 - chance)
    share = s.mean()
    return float(measures.entropy(np.array([share, 1.0 - share])) + np.mean(np.log(np.clip(told, 1e-9, 1.0))))


def adult_lines(path: Path, splits: int) -> list[str]:
    """The section on Adult."""
    s, x = adult_rows(path)
    found = [adult_split(s, x, seed) for seed in range(splits)]
    share = s.mean()
    entropy = float(measures.entropy(np.array([share, 1.0 - share])))
    lines = [
        "",
        "## Adult, really held out",
        "",
        f"{len(s)} rows of UCI Adult, {HELD_OUT} of them held out, {splits} random splits; sex is private (H(S) =",
        f"{entropy:.4f} nats), ten columns public, in classes of a cross-fitted and calibrated score, one class more",
        "than outputs; designed to leak nothing on the design rows. The 95 % bound of what the released symbol leaks",
        "in the population, medians over the splits:",
        "",
        "| outputs | classes | I(class;Y) of H(class) | 95 % bound of I(S;Y), nats | largest | records from p(x\\|y) | "
        "own record beside a decoy |",
        "|---|---|---|---|---|---|---|",
    ]
    for outputs in OUTPUTS:
        some = [each[outputs] for each in found]
        uppers, decoys = (np.array([getattr(each, name) for each in some]) for name in ("symbol", "decoys"))
        sizes = sorted({each.classes for each in some})
        kept, whole = np.median([each.kept for each in some]), np.median([each.entropy for each in some])
        lines.append(
            f"| {outputs} | {' or '.join(map(str, sizes))} | {kept:.3f} of {whole:.3f} | {np.median(uppers):.4f} | "
            f"{uppers.max():.4f} | the same | no bound; at least about {np.median(decoys):.4f} |"
        )
        print(lines[-1], flush=True)
    return [
        *lines,
        "",
        "A record drawn from p(x|y) is made of the symbol alone, so it leaks no more than the symbol, and the bound is",
        "its bound. A release that shows the row's own record beside a decoy is another thing: nearly every such pair",
        "is seen once, so the held-out rows bound nothing of what it tells, and classes balance the score on average",
        "only. The last column is what an attacker with the same score learns from such pairs, H(S) less the log-loss",
        "on held-out rows: an estimate from below.",
    ]
