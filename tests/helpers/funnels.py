"""Small tables and mechanisms that the table tests share."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

import privfunnel as pf
from privfunnel.certificate.answer import Answer, Status
from privfunnel.data import tables
from privfunnel.errors import SmallSampleWarning
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.judging import Run, judge
from privfunnel.solving.request import Request


def people(n: int = 2000, seed: int = 0) -> dict[str, list[Any]]:
    """Rows of a table whose private columns depend on its public ones."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    town = rng.choice(["north", "south, by the sea", ""], n, p=[0.5, 0.3, 0.2])
    member = rng.random(n) < 0.3
    sick = rng.random(n) < 0.1 + 0.6 * (age > 50) * (town == "north") + 0.2 * member
    smoker = np.where(rng.random(n) < 0.05, None, np.where(rng.random(n) < 0.2 + 0.5 * sick, "yes", "no"))
    return {
        "id": [f"p{i}" for i in range(n)],
        "age": age.tolist(),
        "town": [None if i % 17 == 0 else str(value) for i, value in enumerate(town)],
        "member": member.tolist(),
        "sick": sick.tolist(),
        "smoker": smoker.tolist(),
    }


ROLES: dict[str, Any] = {
    "private": ["sick", "smoker"],
    "public": ["age", "town", "member"],
    "bins": {"age": "edges:18,40,60,80"},
}


def count_people(rows: Any) -> tables.Counts:
    """Counts of such a table; its cells are few-filled on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return tables.count(rows, **ROLES)


def random_mechanism(counts: tables.Counts, n_y: int = 6, seed: int = 0) -> Mechanism:
    """A mechanism with a random channel that has zeros in it."""
    rng = np.random.default_rng(seed)
    channel = rng.dirichlet(np.full(n_y, 0.4), counts.n_x)
    channel[channel < 0.1 / n_y] = 0.0
    return mechanism_of(counts, channel / channel.sum(axis=1, keepdims=True), seed)


def mechanism_of(counts: tables.Counts, channel: Array, seed: int = 0) -> Mechanism:
    """The mechanism with this channel (M, N)."""
    answer = Answer(channel=channel, status=Status.FEASIBLE)
    problem = counts.problem()
    asked = Request(disclosure=problem.evaluate(channel).disclosure).of(problem, axis="disclosure")
    solution = judge(asked, answer, Run("test", seed))
    return Mechanism.from_solution(counts, solution)


def toy(seed: int = 0, n_s: int = 3) -> pf.Problem:
    """A random table over three binary columns, without one of the eight combinations."""
    rng = np.random.default_rng(seed)
    codes = np.array(list(itertools.product((0, 1), repeat=3)))[:7]
    columns = {name: codes[:, j].tolist() for j, name in enumerate("abc")}
    return pf.Problem(rng.integers(1, 30, size=(n_s, 7)), public_columns=columns)
