"""What the packaged instances are, where they come from, and what is known of their curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from privfunnel.data.instances import census_task
from privfunnel.data.instances.bands import Bands
from privfunnel.data.instances.files import Labelled, rows_of
from privfunnel.infra.storage import Document
from privfunnel.measures import Array


@dataclass(frozen=True)
class KnownAnswer:
    """A proved statement about the curve: ``low ≤ L(disclosure) ≤ high``, in nats, rounded outwards.

    ``low`` was proved by a certificate or a closed form, ``high`` is the leakage of a channel.

    ``perturbation`` says for which form of the instance it holds; see :func:`privfunnel.data.instances.load`.
    """

    disclosure: float
    low: float
    high: float
    perturbation: str | None = None


@dataclass(frozen=True)
class KnownUtility:
    """A proved statement about the curve of a task: ``low ≤ L(utility) ≤ high``, in nats, rounded outwards."""

    utility: float
    low: float
    high: float


@dataclass(frozen=True)
class Instance:
    """A named problem with its provenance.

    ``disclosure_ceiling`` H(X), ``leakage_ceiling`` I(S;X) and, where there is a ``task`` U, ``utility_ceiling``
    I(U;X), in nats, are those of the unperturbed table with default options.
    """

    name: str
    title: str
    private: tuple[str, ...]
    public: tuple[str, ...]
    citation: str
    licence: str
    disclosure_ceiling: float
    leakage_ceiling: float
    table: Callable[[Bands | None], Labelled] = field(repr=False, compare=False)
    doi: str | None = None
    rows: int | None = None
    banded: bool = False
    known: tuple[KnownAnswer, ...] = ()
    task: str | None = None
    task_table: Callable[[], tuple[Array, tuple[str, ...]]] | None = field(
        default=None, repr=False, compare=False
    )
    utility_ceiling: float | None = None
    known_utilities: tuple[KnownUtility, ...] = ()

    def tasks(self) -> Document:
        """The task with its labels, as :class:`privfunnel.Problem` takes them; nothing where there is none."""
        if self.task is None or self.task_table is None:
            return {}
        table, labels = self.task_table()
        return {"p_ux": {self.task: table}, "u_labels": {self.task: labels}}

    def columns(self, s_labels: tuple[str, ...], x_labels: tuple[str, ...]) -> dict[str, Any]:
        """The value of each private and public column in each symbol, as :class:`privfunnel.Problem` takes them."""
        return {
            "private_columns": _values(self.private, s_labels),
            "public_columns": _values(self.public, x_labels),
        }


def _values(names: tuple[str, ...], labels: tuple[str, ...]) -> dict[str, list[str]]:
    """The value of each column in each symbol, read from labels such as ``age=17-31, sex=female``."""
    if len(names) == 1:
        return {names[0]: list(labels)}
    parts = [dict(part.split("=", 1) for part in label.split(", ")) for label in labels]
    return {name: [values[name] for values in parts] for name in names}


def _synthetic(p_x: tuple[float, float, float]) -> Callable[[Bands | None], Labelled]:
    p_s_given_x = np.array([[0.9, 0.08, 0.4], [0.025, 0.82, 0.05], [0.075, 0.1, 0.55]])

    def table(_: Bands | None) -> Labelled:
        return p_s_given_x * np.array(p_x), ("s1", "s2", "s3"), ("x1", "x2", "x3")

    return table


def _heart_failure(_: Bands | None) -> Labelled:
    """Rows s = 2·sex + death; columns x = 8·anaemia + 4·high blood pressure + 2·diabetes + smoking."""
    table = np.zeros((4, 16))
    for row in rows_of("heart_failure.csv"):
        s = 2 * int(row["sex"]) + int(row["DEATH_EVENT"])
        x = (
            8 * int(row["anaemia"])
            + 4 * int(row["high_blood_pressure"])
            + 2 * int(row["diabetes"])
            + int(row["smoking"])
        )
        table[s, x] += int(row["count"])
    binary = ("no", "yes")
    s_labels = tuple(f"sex={sex}, death={death}" for sex, death in product(("woman", "man"), binary))
    x_labels = tuple(
        f"anaemia={a}, high blood pressure={h}, diabetes={d}, smoking={s}"
        for a, h, d, s in product(binary, repeat=4)
    )
    return table, s_labels, x_labels


def _census_income(bands: Bands | None) -> Labelled:
    """Rows (age band, income); columns (age band, sex, education), education in order of years."""
    assert bands is not None  # the catalogue marks this instance as banded
    rows = list(rows_of("census_income.csv"))
    education = sorted({(int(row["education-num"]), row["education"]) for row in rows})
    level = {name: i for i, (_, name) in enumerate(education)}
    sexes, incomes = ("Female", "Male"), ("<=50K", ">50K")
    table = np.zeros((len(bands.pairs), 2, len(bands.pairs), 2, len(level)))
    for row in rows:
        band = bands.index(int(row["age"]))
        where = band, incomes.index(row["income"]), band, sexes.index(row["sex"]), level[row["education"]]
        table[where] += int(row["count"])
    s_labels = tuple(f"age={age}, income={income}" for age, income in product(bands.labels, incomes))
    x_labels = tuple(
        f"age={age}, sex={sex.lower()}, education={name}"
        for age, sex, name in product(bands.labels, sexes, level)
    )
    return table.reshape(len(s_labels), len(x_labels)), s_labels, x_labels


_SYNTHETIC_CITATION = (
    "T.-H. Huang, A. El Gamal, H. El Gamal, A Linearly Convergent Douglas-Rachford Splitting Solver for Markovian "
    "Information-Theoretic Optimization Problems, IEEE Transactions on Information Theory 69(5), 2022"
)

_ADULT_CITATION = "B. Becker, R. Kohavi, Adult (Census Income), UCI Machine Learning Repository, 1996"

CATALOGUE: dict[str, Instance] = {
    instance.name: instance
    for instance in (
        Instance(
            name="synthetic-uniform",
            title="3 × 3 synthetic problem, uniform p(x)",
            private=("S",),
            public=("X",),
            citation=_SYNTHETIC_CITATION,
            licence="a matrix of nine numbers; no licence needed",
            disclosure_ceiling=1.0986123,
            leakage_ceiling=0.4541057,
            table=_synthetic((1 / 3, 1 / 3, 1 / 3)),
            known=(
                KnownAnswer(0.109806, 0.0195715, 0.0195724),
                KnownAnswer(0.548752, 0.1208286, 0.1208295),
                KnownAnswer(0.9, 0.3272878, 0.3272887),
            ),
        ),
        Instance(
            name="synthetic-skewed",
            title="3 × 3 synthetic problem, p(x) = (0.1, 0.3, 0.6)",
            private=("S",),
            public=("X",),
            citation=_SYNTHETIC_CITATION,
            licence="a matrix of nine numbers; no licence needed",
            disclosure_ceiling=0.8979457,
            leakage_ceiling=0.3677968,
            table=_synthetic((0.1, 0.3, 0.6)),
            known=(
                KnownAnswer(0.2, 0.0258407, 0.0258416),
                KnownAnswer(0.45, 0.1192147, 0.1192156),
                KnownAnswer(0.7, 0.2473168, 0.2473177),
            ),
        ),
        Instance(
            name="heart-failure",
            title="Heart failure clinical records: 299 patients, 4 × 16",
            private=("sex", "death"),
            public=("anaemia", "high blood pressure", "diabetes", "smoking"),
            citation="Heart failure clinical records, UCI Machine Learning Repository, 2020",
            licence="CC BY 4.0",
            doi="10.24432/C5Z89R",
            rows=299,
            disclosure_ceiling=2.611243,
            leakage_ceiling=0.203302,
            table=_heart_failure,
            known=(
                KnownAnswer(1.5626, 0.0, 0.0),
                KnownAnswer(1.7, 0.0003221, 0.0003230),
                KnownAnswer(2.0, 0.0113245, 0.0113255),
                KnownAnswer(2.3, 0.0598589, 0.0598599),
                KnownAnswer(1.5785, 0.0, 0.0, "probabilities"),
                KnownAnswer(1.6943, 0.0002005, 0.0002014, "probabilities"),
                KnownAnswer(1.8245, 0.0014127, 0.0014137, "probabilities"),
                KnownAnswer(2.085, 0.0159503, 0.0159512, "probabilities"),
                KnownAnswer(2.6059, 0.1448603, 0.1448613, "probabilities"),
            ),
        ),
        Instance(
            name="census-income",
            title="Census income: 32561 people, 10 × 160 with five age bands",
            private=("age", "income"),
            public=("age", "sex", "education"),
            citation=_ADULT_CITATION,
            licence="CC BY 4.0",
            doi="10.24432/C5XW20",
            rows=32561,
            banded=True,
            disclosure_ceiling=3.892298,
            leakage_ceiling=1.351233,
            table=_census_income,
            known=(
                KnownAnswer(2.1548, 0.0, 0.0),
                KnownAnswer(2.3353788, 0.0065327, 0.0065336),
                KnownAnswer(2.7246086, 0.1835436, 0.1835437),
                KnownAnswer(3.5030682, 0.9620032, 0.9620033),
            ),
        ),
        Instance(
            name="census-task",
            title="Census income with a task: 32561 people, 2 × 5299, income to be predicted",
            private=("sex",),
            public=census_task.PUBLIC,
            citation=_ADULT_CITATION,
            licence="CC BY 4.0",
            doi="10.24432/C5XW20",
            rows=32561,
            disclosure_ceiling=7.575356,
            leakage_ceiling=0.298638,
            table=census_task.private_table,
            task="income",
            task_table=census_task.task_table,
            utility_ceiling=0.270542,
            known_utilities=(
                KnownUtility(0.167362, 0.0, 0.0000001),
                KnownUtility(0.191271, 0.0, 0.0000001),
                KnownUtility(0.215179, 0.0014227, 0.0014272),
                KnownUtility(0.227134, 0.0044493, 0.0044564),
            ),
        ),
    )
}
