"""Derive the packaged count tables from the raw UCI files.

    python scripts/derive_instances.py --heart heart_failure.csv --census adult.data           # rewrite the tables
    python scripts/derive_instances.py --heart heart_failure.csv --census adult.data --check   # only compare

Both raw files are pinned by their SHA-256: many copies in circulation have renamed columns or blanked cells. The
tables are in long form, one line a combination that occurs, values as they stand in the raw file or in bands, sorted; a
large one is compressed, and compared by what it holds.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "src" / "privfunnel" / "data" / "instances" / "data"

HEART_SHA256 = "9c73cea7468ff5d517801ec050fe9993da5912fce4b56f296f8df3b38dd75912"
CENSUS_SHA256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"

HEART_COLUMNS = ("sex", "DEATH_EVENT", "anaemia", "high_blood_pressure", "diabetes", "smoking")
#: Names of the columns of adult.data, which has no header.
ADULT_COLUMNS = (
    *(
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
    ),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
#: education-num is the order of the education levels; it goes into the table so that the order needs no second source.
CENSUS_COLUMNS = ("age", "sex", "education-num", "education", "income")
#: Where the numbers of the table with a task are cut, from the least to one more than the largest.
BANDS = {
    "age": (17, 27, 37, 47, 57, 67, 91),
    "hours-per-week": (1, 20, 35, 40, 41, 50, 60, 100),
    "education-num": (1, 9, 10, 13, 14, 17),
}
TASK_COLUMNS = (*BANDS, "marital-status", "occupation", "sex", "income")


def checked_text(path: Path, sha256: str) -> str:
    """Return the text of a raw file, or stop when it is not the pinned one."""
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        sys.exit(
            f"{path} has SHA-256 {found}, not {sha256}: it is another edition of the file; use the original"
        )
    return data.decode("utf-8")


def count_table(rows: Iterable[dict[str, str]], columns: tuple[str, ...], numeric: frozenset[str]) -> str:
    """Count the combinations of ``columns`` and return them as CSV text, sorted, numbers by value."""
    counts = Counter(tuple(row[column] for column in columns) for row in rows)

    def order(key: tuple[str, ...]) -> tuple[int | str, ...]:
        return tuple(int(v) if c in numeric else v for c, v in zip(columns, key, strict=True))

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*columns, "count"))
    writer.writerows((*key, counts[key]) for key in sorted(counts, key=order))
    return text.getvalue()


def derive_heart(path: Path) -> str:
    """Count table of the heart-failure file: (sex, death) × (anaemia, high blood pressure, diabetes, smoking)."""
    rows = csv.DictReader(io.StringIO(checked_text(path, HEART_SHA256)))
    return count_table(rows, HEART_COLUMNS, frozenset(HEART_COLUMNS))


def census_rows(path: Path) -> Iterable[dict[str, str]]:
    """The rows of the census file."""
    lines = (line for line in checked_text(path, CENSUS_SHA256).splitlines() if line.strip())
    return csv.DictReader(lines, fieldnames=ADULT_COLUMNS, skipinitialspace=True)


def derive_census(path: Path) -> str:
    """Count table of the census file: single years of age × sex × education × income."""
    return count_table(census_rows(path), CENSUS_COLUMNS, frozenset({"age", "education-num"}))


def band(column: str, value: str) -> str:
    """The band that a number lies in, such as ``17-26``; a single number by itself."""
    cuts = BANDS[column]
    after = bisect_right(cuts, int(value))
    first, last = cuts[after - 1], cuts[after] - 1
    return f"{first}-{last}" if first < last else str(first)


def derive_task(path: Path) -> str:
    """Count table of the census file with a task: public columns in bands × sex × income."""
    rows = ({**row, **{name: band(name, row[name]) for name in BANDS}} for row in census_rows(path))
    return count_table(rows, TASK_COLUMNS, frozenset())


def stored(path: Path) -> str | None:
    """The text of a table, compressed or not; None where there is none."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


def store(path: Path, text: str) -> None:
    """Write the text of a table, compressed where its name says so."""
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--heart", type=Path, required=True, help="heart_failure_clinical_records_dataset.csv from UCI"
    )
    parser.add_argument("--census", type=Path, required=True, help="adult.data from UCI")
    parser.add_argument(
        "--out", type=Path, default=DATA, help="folder of the tables (default: the package's data)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; compare with the tables in --out"
    )
    options = parser.parse_args(arguments)
    tables = {
        "heart_failure.csv": derive_heart(options.heart),
        "census_income.csv": derive_census(options.census),
        "census_task.csv.gz": derive_task(options.census),
    }
    different = 0
    for name, text in tables.items():
        target = options.out / name
        if options.check:
            same = stored(target) == text
            different += not same
            print(f"{name}: {'identical' if same else 'DIFFERENT'}")
        else:
            store(target, text)
            print(f"{name}: {text.count(chr(10)) - 1} combinations")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
