"""Example tables: the packaged instances turned back into rows, so that the whole flow works on them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from privfunnel.errors import InvalidInputError

_YES_NO = {"0": "no", "1": "yes"}


@dataclass(frozen=True)
class Example:
    """A packaged count table that can be written out as one row a person.

    Attributes:
        name: Name of the instance, and of the file that is written.
        title: What the button says.
        about: A line below it.
        file: The packaged count table; its column ``count`` is the number of rows.
        columns: Packaged column to the name it is shown under.
        roles: Roles and bins suggested to begin with.
        words: Shown column to what its codes mean.
    """

    name: str
    title: str
    about: str
    file: str
    columns: Mapping[str, str]
    roles: Mapping[str, Any]
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


EXAMPLES = {
    example.name: example
    for example in (
        Example(
            name="heart-failure",
            title="Heart failure",
            about="299 patients: publish risk factors, protect sex and survival",
            file="heart_failure.csv",
            columns={
                "sex": "sex",
                "DEATH_EVENT": "death",
                "anaemia": "anaemia",
                "high_blood_pressure": "high blood pressure",
                "diabetes": "diabetes",
                "smoking": "smoking",
            },
            roles={
                "private": ["sex", "death"],
                "public": ["anaemia", "high blood pressure", "diabetes", "smoking"],
                "bins": {},
            },
            words={
                "sex": {"0": "woman", "1": "man"},
                "death": _YES_NO,
                "anaemia": _YES_NO,
                "high blood pressure": _YES_NO,
                "diabetes": _YES_NO,
                "smoking": _YES_NO,
            },
        ),
        Example(
            name="census-income",
            title="Census income",
            about="32,561 people: publish age, sex and education, protect age and income",
            file="census_income.csv",
            columns={"age": "age", "sex": "sex", "education": "education", "income": "income"},
            roles={
                "private": ["age", "income"],
                "public": ["age", "sex", "education"],
                "bins": {"age": {"rule": "bins", "number": 5}},
            },
        ),
    )
}


def write(name: str, folder: Path) -> Path:
    """Write an example as a CSV with one row a person and return its path.

    Raises:
        InvalidInputError: There is no such example.
    """
    if name not in EXAMPLES:
        raise InvalidInputError(f"there is no example {name!r}: choose one of {', '.join(EXAMPLES)}")
    example = EXAMPLES[name]
    packaged = resources.files("privfunnel.data.instances").joinpath("data", example.file).read_text("utf-8")
    rows: list[list[str]] = []
    for counted in csv.DictReader(packaged.splitlines()):
        row = [
            example.words.get(shown, {}).get(counted[column], counted[column])
            for column, shown in example.columns.items()
        ]
        rows += [row] * int(counted["count"])
    target = folder / f"{name}.csv"
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(example.columns.values())
        # Tables of people do not come sorted by their answers; the order is mixed, the same each time.
        writer.writerows(rows[i] for i in np.random.default_rng(0).permutation(len(rows)))
    return target
