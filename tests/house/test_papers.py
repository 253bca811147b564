"""The scripts that write the pages of results: rehearsed, and their parts tested one by one."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import privfunnel as pf
from documents import DOCS, ROOT
from privfunnel.studies.comparison import labels

pytest.importorskip("matplotlib", reason="the pages have figures")
sys.path.insert(0, str(ROOT / "papers"))

import bibliography
import comparison
import reproduction
from prose import wrapped


def test_prose_is_wrapped_and_the_rest_is_not() -> None:
    long = "word " * 60
    text = f"# {long}\n\n{long}\n\n- {long}\n- short\n\n| {long} |\n|---|\n\n    {long}\n\n```text\n{long}\n```\n"
    lines = wrapped(text).split("\n")
    kept = [line for line in lines if len(line) > 116]
    assert [line[:6] for line in kept] == ["# word", "| word", "    wo", "word w"]
    assert sum(line.startswith("- ") for line in lines) == 2
    assert wrapped(text).split() == text.split()
    assert wrapped(wrapped(text)) == wrapped(text)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_wrapping_changes_no_word_of_a_page(page: Path) -> None:
    text = page.read_text("utf-8")
    assert wrapped(text).split() == text.split()


@pytest.fixture(scope="module")
def result() -> pf.Comparison:
    return pf.compare(
        pf.instances.load("synthetic-uniform"), solvers=["auto", "greedy"], points=6, time_limit=5.0
    )


def test_numbers_are_filled_into_the_words(result: pf.Comparison) -> None:
    results = {"synthetic-uniform": result}
    at = 2  # R = 60 % of H(X)
    text = comparison.fill(
        "bound {{bound synthetic-uniform 60}}, greedy {{leak synthetic-uniform greedy 60}}, above by "
        "{{over synthetic-uniform greedy 60}}, {{untouched}}",
        results,
    )
    bound, leakage = result.lower_bound[at], result["greedy"].leakage[at]
    assert (
        text == f"bound {bound:.5f}, greedy {leakage:.5f}, above by {leakage - bound:.1e}, {{{{untouched}}}}"
    )
    assert leakage > bound + 1e-3


def test_the_template_asks_for_problems_and_methods_that_exist() -> None:
    template = (ROOT / "papers" / "comparison.template.md").read_text("utf-8")
    wanted = [words.split() for words in re.findall(r"\{\{([a-z]+ [^{}]+)\}\}", template)]
    assert len(wanted) > 10
    assert {words[1] for words in wanted} <= set(pf.instances.names())
    assert {words[2] for words in wanted if words[0] not in ("bound", "ceiling")} <= set(comparison.METHODS)


def test_a_section_has_one_row_for_each_method_and_the_bound(result: pf.Comparison) -> None:
    lines = comparison.section("synthetic-uniform", result)
    assert sum(line.startswith("| auto |") for line in lines) == 2
    assert sum(line.startswith("| greedy |") for line in lines) == 2
    assert sum(line.startswith("| **proved ≥** |") for line in lines) == 1
    assert comparison.ranking({"synthetic-uniform": result})[2].startswith("| auto |")


def test_a_dash_stands_for_no_number() -> None:
    assert comparison.number(None) == comparison.small(None) == comparison.percent(None) == "–"
    assert comparison.percent(0.125, 1) == "12.5 %"


def test_a_reproduction_is_published_with_its_figures(tmp_path: Path) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    out.mkdir()
    (out / "figure-1.png").write_bytes(b"picture")
    (out / "points.csv").write_text("R,leakage\n")
    (out / "reproduction.md").write_text("# Page\n\n![one](figure-1.png) and `points.csv`\n")
    reproduction.publish(out, docs)
    assert (docs / "figures" / "figure-1.png").read_bytes() == b"picture"
    assert (docs / "figures" / "reproduction-points.csv").exists()
    text = (docs / "reproduction.md").read_text()
    assert "(figures/figure-1.png)" in text
    assert "[`reproduction-points.csv`](figures/reproduction-points.csv)" in text


def rehearse_alone(script: str, out: Path) -> None:
    """Rehearse a script as a program."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)  # what it runs of the package is traced elsewhere
    done = subprocess.run(
        [sys.executable, str(ROOT / "papers" / script), "--quick", "--out", str(out)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture
def rehearse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Rehearse a script in this process, which has loaded all that it takes: what it prints."""

    def play(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick", "--out", str(tmp_path)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name).main()
        return capsys.readouterr().out

    return play


@pytest.mark.slow
def test_the_certified_curves_can_be_rehearsed(tmp_path: Path, rehearse: Callable[[str], str]) -> None:
    rehearse("certified_curves")
    text = (tmp_path / "docs" / "certified-curves.md").read_text("utf-8")
    assert "at 20 of 20 points within the target" in text.replace("\n", " ")
    assert (tmp_path / "docs" / "figures" / "heart-failure.png").exists()


@pytest.mark.slow
def test_the_comparison_can_be_rehearsed(rehearse: Callable[[str], str]) -> None:
    joblib = pytest.importorskip("joblib", reason="comparisons are spread by joblib")
    with joblib.parallel_config(backend="sequential"):
        assert "| **proved ≥** |" in rehearse("comparison")


@pytest.mark.slow
def test_the_coverage_of_population_bounds_can_be_rehearsed(
    tmp_path: Path, rehearse: Callable[[str], str]
) -> None:
    told = rehearse("population_bounds")
    assert "| independent S, 32 outputs | 10854 | 2 × 32 |" in told
    assert len(list(tmp_path.glob("*.json"))) == told.count("best holds in")


@pytest.mark.slow
def test_the_bibliography_can_be_rehearsed(tmp_path: Path) -> None:
    pytest.importorskip("joblib", reason="comparisons are spread by joblib")
    rehearse_alone("bibliography.py", tmp_path)
    text = (tmp_path / "bibliography.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(bibliography.ROWS)
    assert [row[0] for row in rows if row[4] == "–" and "chi_squared" not in row[2]] == []


def test_the_page_of_the_bibliography_has_a_row_for_each_method() -> None:
    text = (DOCS / "bibliography.md").read_text("utf-8")
    for row in bibliography.ROWS:
        assert f"| {row.reference} | {row.what} | {row.name} | " in text
    # Every method with channels of its own takes part in comparisons, and the page of comparisons describes it.
    entrants = {row.entrant for row in bibliography.ROWS} - {""}
    assert entrants <= set(labels()) == set(comparison.METHODS)
    assert {row.key for row in bibliography.ROWS if not row.entrant} == {"chi", "rate-distortion"}
    assert bibliography.cell(None) == "–"
    assert bibliography.cell({"distance": 0.123, "seconds": 2.0}) == "12.30 % (2.0 s)"
    assert bibliography.cell({"distance": 1e-6, "seconds": 2.0}) == "1.0e-04 % (2.0 s)"
    assert bibliography.cell({"distance": None, "seconds": 2.0}) == "(2.0 s)"


def test_no_script_takes_the_name_of_a_library() -> None:
    """A script's folder comes first on its path: ``coverage.py`` would be what numba imports under that name."""
    installed = set(importlib.metadata.packages_distributions()) | set(sys.stdlib_module_names)
    assert {path.stem for path in (ROOT / "papers").glob("*.py")} & installed == set()


@pytest.mark.slow
def test_designs_on_samples_can_be_rehearsed(tmp_path: Path, rehearse: Callable[[str], str]) -> None:
    told = rehearse("population_designs")
    assert "| heart failure, 4 × 16 | 100 | free | 0.0000 |" in told
    assert len(list(tmp_path.glob("*.json"))) == 6


@pytest.mark.slow
def test_the_score_funnel_can_be_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the judge is that of deep funnels, which need PyTorch")
    pytest.importorskip("sklearn", reason="scores and attackers need scikit-learn")
    import deep_score

    from privfunnel.data import score_model

    monkeypatch.setattr(score_model, "STAGES", 16)
    monkeypatch.setattr(sys, "argv", ["deep_score.py", "--quick", "--out", str(tmp_path)])
    deep_score.main()
    text = (tmp_path / "score-funnel.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| income |")]
    assert [int(row[1]) for row in rows] == list(deep_score.SIZES)
    for _, _, lost, told, symbol, _, bound in rows:
        assert 0.0 < float(lost) <= 1.0
        assert float(symbol) < 0.5 * float(told)
        assert float(symbol) <= float(bound.rstrip(" |"))


@pytest.mark.slow
def test_the_deep_methods_can_be_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="deep funnels need PyTorch")
    pytest.importorskip("sklearn", reason="attackers are scikit-learn's")
    import deep  # here and not in a process of its own, since PyTorch takes long to load

    monkeypatch.setattr(sys, "argv", ["deep.py", "--quick", "--device", "cpu", "--out", str(tmp_path)])
    deep.main()
    text = (tmp_path / "docs" / "deep.md").read_text("utf-8")
    assert "{{" not in text
    assert "| **proved ≥** | **0.0000** | **0.0000** | **0.0208** | **0.0727** | | |" in text  # heart failure
    assert text.count("| vpaf |") >= 5  # tables, Adult with either private column, digits
