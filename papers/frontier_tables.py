"""Tables for the page of frontiers: Adult, and one made like COMPAS, as codes of a few categories a column."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import privfunnel as pf
from privfunnel.data.engines.alphabet import distinct
from privfunnel.measures import Array

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of a table: the number of the public record x of each, its private value s and its task u, 0 or 1."""

    x: Codes
    s: Codes
    u: Codes


@dataclass(frozen=True)
class Table:
    """A table in two halves.

    Attributes:
        name: What it is called.
        columns: Names of the public columns; ``ordered`` which of them have an order.
        records: Categories of each public record, shape (M, columns).
        train: Rows that methods and models learn from; ``test`` those on which they are judged.
        left_out: Share of the test rows whose record does not occur in the train rows.
    """

    name: str
    columns: tuple[str, ...]
    ordered: tuple[bool, ...]
    records: Codes
    train: Rows
    test: Rows
    left_out: float

    @cached_property
    def onehot(self) -> Array:
        """A record as a model reads it, shape (M, features)."""
        return np.hstack([np.eye(int(codes.max()) + 1)[codes] for codes in self.records.T])

    def joint(self, other: Codes) -> Array:
        """Train rows by ``other`` (0 or 1) and record, shape (2, M)."""
        table = np.zeros((2, len(self.records)))
        np.add.at(table, (other, self.train.x), 1.0)
        return table

    @cached_property
    def problem(self) -> pf.Problem:
        """The funnel problem of the train rows."""
        columns = {
            name: [str(code) for code in codes]
            for name, codes in zip(self.columns, self.records.T, strict=True)
        }
        return pf.Problem(self.joint(self.train.s), public_columns=columns)


def halves(
    name: str, columns: dict[str, Codes], ordered: tuple[bool, ...], s: Codes, u: Codes, seed: int
) -> Table:
    """Split rows into train and test, the records being those of the train rows."""
    codes = np.stack(list(columns.values()), axis=1)
    order = np.random.default_rng(seed).permutation(len(codes))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    records, x = distinct(codes[first])
    known = {tuple(record): i for i, record in enumerate(records.tolist())}
    found = np.array([known.get(tuple(row), -1) for row in codes[second].tolist()])
    seen = found >= 0
    train = Rows(x, s[first], u[first])
    test = Rows(found[seen], s[second][seen], u[second][seen])
    return Table(name, tuple(columns), ordered, records, train, test, float(1.0 - seen.mean()))


def adult(path: Path, seed: int = 0) -> Table:
    """UCI Adult: S = sex, U = income above 50K."""
    names = (
        "age", "workclass", "fnlwgt", "education", "education-num", "marital", "occupation", "relationship", "race",
        "sex", "gain", "loss", "hours", "country", "income",
    )  # fmt: skip
    lines = csv.reader(path.read_text("utf-8").splitlines(), skipinitialspace=True)
    rows = [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names)]

    def numbers(name: str) -> Any:
        return np.array([float(row[name]) for row in rows])

    married = ["Never-married", "Married-civ-spouse"]
    skilled = ["Exec-managerial", "Adm-clerical", "Craft-repair"]
    columns = {
        "age": np.digitize(numbers("age"), [30, 45]),
        "education": np.digitize(numbers("education-num"), [10, 13]),
        "hours": np.digitize(numbers("hours"), [35, 41]),
        "marital": np.array([married.index(r["marital"]) if r["marital"] in married else 2 for r in rows]),
        "occupation": np.array(
            [skilled.index(r["occupation"]) if r["occupation"] in skilled else 3 for r in rows]
        ),
    }
    s = np.array([int(row["sex"] == "Male") for row in rows])
    u = np.array([int(">50K" in row["income"]) for row in rows])
    return halves("Adult", columns, (True, True, True, False, False), s, u, seed)


def compas_like(n: int, seed: int = 0) -> Table:
    """A table made like COMPAS: S = group, U = rearrested within two years; nobody real is in it."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    young = rng.random(n)
    age = np.digitize(young + 0.12 * s, [0.45, 0.85])
    priors = np.minimum(rng.poisson(0.8 + 1.1 * s + 0.5 * (2 - age)), 9)
    juvenile = (rng.random(n) < 0.05 + 0.08 * s).astype(np.int64)
    felony = (rng.random(n) < 0.55 + 0.12 * s).astype(np.int64)
    male = (rng.random(n) < 0.8).astype(np.int64)
    logit = -1.0 + 0.35 * priors - 0.5 * (age - 1) + 0.6 * juvenile + 0.2 * felony + 0.2 * male
    u = (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(np.int64)
    columns = {
        "age": age.astype(np.int64),
        "priors": np.digitize(priors, [1, 3, 6]),
        "juvenile": juvenile,
        "felony": felony,
        "male": male,
    }
    return halves("like COMPAS", columns, (True, True, True, True, True), s, u, seed)
