"""What the tests of the documentation share: code blocks of a page, and the tables its examples speak of."""

from __future__ import annotations

import csv
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from privfunnel import instances

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

#: The columns of the census file, as the tutorial names them.
CENSUS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
]  # fmt: skip


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of one language of a page under docs."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def write_census(path: Path) -> None:
    """A file without a header, whose ages, sexes, educations and incomes have the packaged census counts."""
    problem = instances.load("census-income")
    assert problem.counts is not None
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for (s, x), count in np.ndenumerate(problem.counts):
            # "age=17-31, income=<=50K" and "age=17-31, sex=female, education=9th"
            values = dict(part.split("=", 1) for part in problem.x_labels[x].split(", "))
            values["income"] = problem.s_labels[s].split("income=")[1]
            low, high = values["age"].split("-")
            values["age"] = (
                high if high == "90" else low
            )  # both ends of the range occur, so the bands are the same
            writer.writerows([[values.get(name, "-") for name in CENSUS]] * int(count))


def build_site(folder: Path) -> Path:
    """Build the site from a copy of its sources, so that nothing in the checkout changes; skip without zensical."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed: make docs installs it")
    for name in ("docs", "src", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copyfile(ROOT / name, folder / name)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"
