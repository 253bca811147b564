"""The census table with a task: sex is private, income to be predicted, five columns are public."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from privfunnel.data.instances.bands import Bands
from privfunnel.data.instances.files import Labelled, rows_of
from privfunnel.measures import Array

#: Name of a public column to its name in the file.
COLUMNS = {
    "age": "age",
    "hours": "hours-per-week",
    "education years": "education-num",
    "marital status": "marital-status",
    "occupation": "occupation",
}
PUBLIC = tuple(COLUMNS)
SEXES, INCOMES = ("Female", "Male"), ("<=50K", ">50K")


@lru_cache(maxsize=1)
def _counted() -> tuple[Array, tuple[str, ...]]:
    """Counts of (sex, income, public symbol), shape (2, 2, M), and the labels of the public symbols."""
    rows = list(rows_of("census_task.csv.gz"))
    labels = [", ".join(f"{name}={row[column]}" for name, column in COLUMNS.items()) for row in rows]
    place = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    counts = np.zeros((2, 2, len(place)))
    for label, row in zip(labels, rows, strict=True):
        counts[SEXES.index(row["sex"]), INCOMES.index(row["income"]), place[label]] += int(row["count"])
    return counts, tuple(place)


def private_table(_: Bands | None) -> Labelled:
    """Rows female and male; columns (age, hours, education years, marital status, occupation)."""
    counts, labels = _counted()
    return counts.sum(axis=1), tuple(sex.lower() for sex in SEXES), labels


def task_table() -> tuple[Array, tuple[str, ...]]:
    """Rows income up to and over 50K; columns as those of :func:`private_table`."""
    return _counted()[0].sum(axis=0), INCOMES
