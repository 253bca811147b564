"""The table that the README and the tutorials speak of: invented patients, the same each time."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np

from privfunnel.infra.storage import AnyPath, check_target, write_text

ROWS = 600
SEED = 7
COLUMNS = ("sex", "death", "smoking", "diabetes", "age")
#: Which of them a joint table has as rows, and which as columns.
PRIVATE, PUBLIC = ("sex", "death"), ("smoking", "diabetes")

Row = tuple[str, int, int, int, int]


def patients(rows: int = ROWS) -> list[Row]:
    """Invented patients: sex, death, smoking, diabetes and age in years, in the order of ``COLUMNS``.

    Men smoke more often (50 % against 10 %) and have diabetes less often (30 % against 50 %); the older a patient, the
    likelier is death. No real person is behind any row.
    """
    rng = np.random.default_rng(SEED)
    sex = rng.integers(2, size=rows)
    age = rng.integers(40, 96, size=rows)
    smoking = (rng.random(rows) < 0.1 + 0.4 * sex).astype(int)
    diabetes = (rng.random(rows) < 0.5 - 0.2 * sex).astype(int)
    death = (rng.random(rows) < (age - 30) / 110).astype(int)
    words = np.array(["woman", "man"])[sex]
    columns = (words, death, smoking, diabetes, age)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def write(path: AnyPath, *, joint: bool = False, force: bool = False) -> None:
    """Write the patients as CSV.

    Args:
        path: The file.
        joint: Instead of one row a patient, how many there are of each kind: rows sex and death, columns smoking and
            diabetes.
        force: Replace an existing file.

    Raises:
        InvalidInputError: The file exists, or cannot be written.
    """
    check_target(Path(path), force=force)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if joint:
        writer.writerows(_joint())
    else:
        writer.writerow(COLUMNS)
        writer.writerows(patients())
    write_text(path, text.getvalue(), force=force)


def _joint() -> list[list[str]]:
    """The header with the labels of X, and for each symbol of S its label and its counts."""

    def label(row: Row, names: tuple[str, ...]) -> str:
        return ", ".join(f"{name}={row[COLUMNS.index(name)]}" for name in names)

    counted = Counter((label(row, PRIVATE), label(row, PUBLIC)) for row in patients())
    s_labels, x_labels = (sorted({pair[role] for pair in counted}) for role in (0, 1))
    return [["", *x_labels], *([s, *(str(counted[s, x]) for x in x_labels)] for s in s_labels)]
