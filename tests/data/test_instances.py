"""The packaged instances: their tables, their reference values, and how they are derived from the raw files."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.app.cli._source import open_source
from privfunnel.data import instances
from privfunnel.errors import InvalidInputError
from privfunnel.measures import entropy
from privfunnel.reductions.task_cells import classes

ROOT = Path(__file__).resolve().parents[2]
RAW = Path(os.environ.get("PRIVFUNNEL_RAW_DATA", ROOT.parent / "shared" / "data"))

HEART_COUNTS = """
    10  0 14  0  8  1  6  0 11  0  9  0  6  0  6  0
     5  0  3  0  2  0  3  1  2  0  6  1  4  1  6  0
    12 26 13  8  8  5  5  4  7 12 11  4  8  4  3  2
     8  6  4  4  4  3  3  4 10  3  3  2  3  5  0  0
"""


@pytest.mark.parametrize("name", instances.names())
def test_ceilings_are_the_documented_ones(name: str) -> None:
    known, problem = instances.describe(name), instances.load(name)
    digits = 5e-8 if name.startswith("synthetic") else 5e-7
    assert problem.disclosure_ceiling == pytest.approx(known.disclosure_ceiling, abs=digits)
    assert problem.leakage_ceiling == pytest.approx(known.leakage_ceiling, abs=digits)
    assert (problem.tasks is None) == (known.task is None) == (name not in instances.names(task=True))
    assert known.citation
    assert known.licence
    assert problem.n == known.rows


def test_heart_failure_counts() -> None:
    problem = instances.load("heart-failure")
    expected = np.array(HEART_COUNTS.split(), dtype=float).reshape(4, 16)
    assert problem.counts is not None
    np.testing.assert_array_equal(problem.counts, expected)
    assert problem.s_labels[2] == "sex=man, death=no"
    assert problem.x_labels[1] == "anaemia=no, high blood pressure=no, diabetes=no, smoking=yes"


def test_heart_failure_perturbed() -> None:
    problem = instances.load("heart-failure", perturbation="probabilities")
    assert problem.disclosure_ceiling == pytest.approx(2.632223, abs=5e-7)
    assert problem.leakage_ceiling == pytest.approx(0.159578, abs=5e-7)
    assert problem.p_sx.min() > 0.0
    assert problem.counts is None


def test_census_shape_and_entropies() -> None:
    problem = instances.load("census-income")
    assert (len(problem.all_s_labels), len(problem.all_x_labels)) == (10, 160)
    assert problem.n_x == 156  # four combinations of age band, sex and education do not occur
    assert float(entropy(problem.p_s)) == pytest.approx(1.773115, abs=5e-7)
    assert problem.x_labels[0] == "age=17-31, sex=female, education=Preschool"
    assert problem.s_labels[-1] == "age=76-90, income=>50K"


@pytest.mark.parametrize(("perturbation", "leakage"), [("probabilities", 0.384370), ("counts", 1.350848)])
def test_census_perturbations(perturbation: str, leakage: float) -> None:
    problem = instances.load("census-income", perturbation=perturbation)
    assert problem.p_sx.shape == (10, 160)
    assert problem.leakage_ceiling == pytest.approx(leakage, abs=5e-7)


def test_census_bands_only_regroup() -> None:
    default = instances.load("census-income")
    explicit = instances.load("census-income", bands=[(17, 31), (32, 46), (47, 60), (61, 75), (76, 90)])
    assert default == explicit
    one = instances.load("census-income", bands=1)
    years = instances.load("census-income", bands=[(age, age) for age in range(17, 91)])
    assert one.n == years.n == 32561
    assert len(one.all_s_labels) == 2
    assert years.all_s_labels[0] == "age=17, income=<=50K"
    assert years.leakage_ceiling > default.leakage_ceiling > one.leakage_ceiling


@pytest.mark.parametrize(
    "bands",
    [
        0,
        75,
        True,
        [(17, 40)],
        [(17, 40), (42, 90)],
        [(17, 40), (40, 90)],
        [(18, 90)],
        [(17, 16), (17, 90)],
        ["x"],
        2.5,
    ],
)
def test_bad_bands(bands: object) -> None:
    with pytest.raises(InvalidInputError, match=r"band"):
        instances.load("census-income", bands=bands)  # type: ignore[arg-type]


def test_any_number_of_equal_width_bands_covers_every_year() -> None:
    for number in range(1, 75):
        bands = instances.equal_width(number)
        assert len(bands) == number
        assert [age for first, last in bands for age in range(first, last + 1)] == list(range(17, 91))


def test_bad_names_and_options() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'heart-failure'"):
        instances.load("heart-failur")
    with pytest.raises(InvalidInputError, match="choose one of synthetic-uniform"):
        instances.describe("zzz")
    with pytest.raises(InvalidInputError, match="no age bands"):
        instances.load("heart-failure", bands=5)
    with pytest.raises(InvalidInputError, match="'probabilities' or 'counts'"):
        instances.load("heart-failure", perturbation="noise")
    for amount in (0.0, -1e-3, float("nan")):
        with pytest.raises(InvalidInputError, match="positive number"):
            instances.load("heart-failure", perturbation="counts", amount=amount)


#: Utilities and leakages that a prototype on 64 cells of the table reached, in nats.
PROTOTYPE = ((0.167362, 0.00004), (0.191271, 0.00342), (0.215179, 0.01580), (0.227134, 0.02970))


def test_the_census_table_with_a_task_is_solved_below_what_a_prototype_reached() -> None:
    known, problem = instances.describe("census-task"), instances.load("census-task")
    assert (problem.n_x, classes(problem).n) == (5299, 684)
    assert problem.utility_ceiling == pytest.approx(known.utility_ceiling, abs=5e-7)
    assert problem.x_labels[0] == (
        "age=17-26, hours=1-19, education years=1-8, marital status=Divorced, occupation=Other-service"
    )
    utilities = [each.utility for each in known.known_utilities]
    curve = pf.trace(problem, along="utility", utilities=utilities, gap=3e-4)
    assert len(curve.solutions) == len(PROTOTYPE)
    for solution, each, (utility, reached) in zip(
        curve.solutions, known.known_utilities, PROTOTYPE, strict=True
    ):
        assert each.utility == utility
        assert solution.utility >= utility
        assert each.low - 1e-12 <= solution.leakage <= min(reached, solution.lower_bound + 3e-4)
        assert solution.lower_bound <= each.high


def test_a_packaged_task_is_named_or_left_out_but_not_changed() -> None:
    assert open_source("census-task", task={"income": 1.0}).problem == instances.load("census-task")
    with pytest.raises(InvalidInputError, match="leave --task out"):
        open_source("census-task", task={"income": 2.0})
    with pytest.raises(InvalidInputError, match="leave --task out"):
        open_source("census-income", task={"income": 1.0})
    with pytest.raises(InvalidInputError, match="leave the option perturbation out"):
        instances.load("census-task", perturbation="counts")


KNOWN = [(name, answer) for name in instances.names() for answer in instances.describe(name).known]


@pytest.mark.parametrize(("name", "known"), KNOWN, ids=lambda value: getattr(value, "disclosure", value))
def test_known_answers(name: str, known: instances.KnownAnswer) -> None:
    """What is proved today meets what was proved before, and the paper's algorithm does not get below it."""
    problem = instances.load(name, perturbation=known.perturbation)
    proved = pf.solve(problem, disclosure=known.disclosure, throw=False)
    assert known.low <= proved.leakage + 1e-12
    assert proved.lower_bound <= known.high + 1e-12
    found = pf.solve(
        problem, disclosure=known.disclosure, solver="aem", restarts=3, max_steps=100, throw=False
    )
    assert found.leakage >= known.low - 1e-12


def derive_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "derive_instances", ROOT / "scripts" / "derive_instances.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_derived_from_the_raw_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heart, census = RAW / "heart_failure.csv", RAW / "adult.data"
    if not (heart.is_file() and census.is_file()):
        pytest.skip("raw UCI files not found: set PRIVFUNNEL_RAW_DATA to the folder that holds them")
    script = derive_script()
    assert script.main(["--heart", str(heart), "--census", str(census), "--check"]) == 0
    assert script.main(["--heart", str(heart), "--census", str(census), "--out", str(tmp_path)]) == 0
    (tmp_path / "census_income.csv").write_text("age,count\n")
    assert (
        script.main(["--heart", str(heart), "--census", str(census), "--out", str(tmp_path), "--check"]) == 1
    )
    assert "census_income.csv: DIFFERENT" in capsys.readouterr().out


def test_other_editions_of_the_raw_files_are_refused(tmp_path: Path) -> None:
    edited = tmp_path / "heart.csv"
    edited.write_text("sex,death\n0,1\n")
    with pytest.raises(SystemExit, match="another edition"):
        derive_script().derive_heart(edited)
