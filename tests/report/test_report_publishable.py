"""A report may be published: what it says does not give the rows behind it away."""

from __future__ import annotations

import json
import math
import re
from html import unescape
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import audit, measures, report
from privfunnel.data import tables
from privfunnel.data.engines import Column
from privfunnel.data.instances import patients
from privfunnel.report import large
from privfunnel.report.axes import Axis
from privfunnel.report.described import Described, how_counted, published_axis
from privfunnel.report.rounding import Rounding

THIRTY = np.array([[7.0, 4.0, 2.0], [3.0, 6.0, 8.0]])


@pytest.fixture(scope="module")
def small() -> str:
    problem = pf.Problem(THIRTY, ["s=no", "s=yes"], ["x=low", "x=mid", "x=high"])
    curve = pf.trace(problem, points=6, seed=4711)
    chosen = pf.solve(problem, disclosure=0.8 * problem.disclosure_ceiling)
    command = "privfunnel curve t.csv --seed 4711 --points 6"
    return report.render(curve, report.Report(chosen=chosen, command=command))


def visible(text: str) -> str:
    """What a person reads, without scripts, style and drawings."""
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", " ", text.partition("<main>")[2].partition("Versions")[0]))


def test_no_fingerprint_seed_or_exact_size_is_told(small: str) -> None:
    assert pf.Problem(THIRTY).fingerprint not in small
    assert "4711" not in small
    assert re.search(r"\b[0-9a-f]{16,}\b", visible(small)) is None
    assert "about 30 rows" in visible(small)


def test_no_number_has_more_than_three_digits(small: str) -> None:
    for number in re.findall(r"\d+\.\d+", visible(small)):
        assert len(number.replace(".", "").lstrip("0")) <= 3, number
    drawn = re.findall(r'data-(r|l|b|xmax|ymax)="([^"]+)"', small)
    assert drawn
    for name, number in drawn:
        bits = float(number) / (1.0 if name.endswith("max") else math.log(2))
        assert bits == pytest.approx(float(f"{bits:.3g}"), abs=1e-6), name


def tables_of(rows: int) -> np.ndarray:
    """All 2 × 3 tables of so many rows, shape (tables, 2, 3)."""
    bars = np.array(list(combinations(range(rows + 5), 5)))
    ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), rows + 5)], axis=1)
    return (np.diff(ends, axis=1) - 1).reshape(-1, 2, 3).astype(float)


def test_the_amounts_told_of_thirty_rows_fit_many_tables(small: str) -> None:
    """Tables of 30 rows with the same H(X), I(S;X) and guesses as told.

    The points, the drawing and the channel are not used here: whoever solves each of these tables excludes more.
    """
    say = Rounding(30.0)
    told = visible(small)
    candidates = tables_of(30)
    candidates = candidates[
        (candidates.sum(axis=1) > 0).all(axis=1) & (candidates.sum(axis=2) > 0).all(axis=1)
    ]
    p = candidates / 30.0
    leaks = measures.mutual_information(p)
    holds = measures.entropy(p.sum(axis=1))
    before, original = p.sum(axis=2).max(axis=1), p.max(axis=1).sum(axis=1)

    def numbers(i: int) -> tuple[str, ...]:
        return (say.bits(holds[i]), say.bits(leaks[i]), say.percent(before[i]), say.percent(original[i]))

    (mine,) = np.flatnonzero((candidates == THIRTY).all(axis=(1, 2)))
    truth = numbers(int(mine))
    assert f"The public data holds {truth[0]}. Released as it is, it leaks {truth[1]}" in told
    picked = np.random.default_rng(0).choice(len(candidates), 20_000, replace=False)
    left = candidates[[i for i in picked if numbers(int(i)) == truth]]
    assert len(left) > 200  # of one table in fifteen, and of one number of rows
    assert (left.max(axis=0) - left.min(axis=0)).min() >= 5.0  # no cell is known to within five people


def test_steps_are_worth_several_rows_and_bounds_stay_bounds() -> None:
    for rows in (12.0, 30.0, 299.0, 2139.0, 1e6):
        say = Rounding(rows)
        assert say.step * rows >= 5.0 or say.step == 0.5
        for value in (0.0, 0.013, 0.37, 0.999):
            assert say.share(value, "down") <= value + 1e-9
            assert say.share(value, "up") >= value - 1e-9
            assert say.information(value, "down") <= value + 1e-9
            assert float(say.factor(1.0 + value)) >= 1.0 + value - 1e-9
    assert Rounding(2139.0).count(64.0) == "about 60"
    assert Rounding(2139.0).count(2139.0) == "about 2,100"
    assert Rounding(2139.0).count(3.0) == "fewer than 5"


def test_people_exposed_to_a_rare_value_are_counted() -> None:
    # 130 of 1464 have it, 8.9 %; for 64 people it rises to 24/64, told in steps worth five of them.
    problem = pf.Problem([[1294, 40], [106, 24]], ["haemophilia=no", "haemophilia=yes"], ["x=a", "x=b"])
    curve = pf.trace(problem, points=3)
    told = visible(report.render(curve, report.Report(chosen=curve.solutions[-1])))
    assert re.search(r"haemophilia = yes +about 60 of 1,500 +9.0 % +30 % or more", told)
    assert "No private column becomes easier to guess" not in told
    assert re.search(r"up to \S+ times as likely as it was", told)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("duckdb", reason="the table of records is read from a file")
    path = tmp_path_factory.mktemp("report")
    patients.write(path / "patients.csv")
    return path


@pytest.fixture(scope="module")
def mechanism(folder: Path) -> pf.Mechanism:
    counts = tables.count(
        folder / "patients.csv",
        private="sex",
        public=["smoking", "age"],
        bins={"age": "quantiles:3"},
    )
    problem = counts.problem()
    return pf.Mechanism.from_solution(counts, pf.solve(problem, disclosure=0.8 * problem.disclosure_ceiling))


def test_a_mechanism_has_a_report_with_a_page_to_sign(folder: Path, mechanism: pf.Mechanism) -> None:
    found = audit.table(folder / "patients.csv", mechanism)
    report.write(folder / "report.html", mechanism, report.Report(audit=found, contact="the steward"))
    text = (folder / "report.html").read_text("utf-8")
    told = visible(text)
    for wanted in ("What is released", "The columns", "to whom it does not apply", "Who is exposed most",
                   "What was possible instead", "Questions to: the steward", "reviewed by", "☐ approved",
                   "Counted again on the table it was designed on, the promise holds."):  # fmt: skip
        assert wanted in told
    assert re.search(r"age +public: released +3 intervals", told)
    assert "about 600 rows" in told
    assert mechanism.provenance["data"] not in text
    assert mechanism.provenance["problem"] not in text


def test_neither_extremes_nor_rare_combinations_are_listed(mechanism: pf.Mechanism) -> None:
    shown = published_axis(Axis.of(mechanism.x_alphabet), mechanism.p_x, Rounding(600.0))
    (ages,) = (texts for name, texts in zip(shown.names, shown.texts, strict=True) if name == "age")
    assert not any(re.search(r"\b(40|95)\b", text) for text in ages), (
        ages
    )  # the youngest and the oldest patient
    text = report.render(mechanism)
    assert "95" not in re.sub(r"data-\S+|\d*95 %", "", visible(text))  # the oldest patient
    rare = pf.Problem([[20, 3, 30], [10, 1, 40]], ["s=a", "s=b"], ["x=often", "x=seldom", "x=most"])
    curve = pf.trace(rare, points=4)
    assert "seldom" not in report.render(curve, report.Report(chosen=curve.at(0.5)))


def test_a_channel_too_large_to_be_drawn_is_listed_without_what_few_rows_have(
    mechanism: pf.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    say, release = Rounding(600.0), Described.of_mechanism(mechanism)
    found = large.listed(release, say)
    sums = np.asarray(found.written.sum(axis=1)).ravel()
    assert sums == pytest.approx(np.ones(len(found.values)))
    assert found.share.sum() <= 1.0 + 1e-12
    assert len(found.values) == len(mechanism.p_x)  # six, all frequent: each is written as the channel says
    order = [published_axis(release.public, release.p_x, say).values.index(each) for each in found.values]
    np.testing.assert_allclose(
        found.written.toarray()[:, :-1], release.written[np.ix_(order, order)], atol=1e-12
    )
    monkeypatch.setattr("privfunnel.report.described.DRAWN", 1)
    text = report.render(mechanism)
    told = json.loads(
        re.search(r'class="lookup".*?<script type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    )  # type: ignore[index]
    assert len(told["codes"]) == len(told["rows"]) == 6
    assert all(re.fullmatch(r"(less than )?\d+(\.\d)? %", cell) for row in told["rows"] for cell in row[:2])
    monkeypatch.setattr(large, "MOST_LISTED", 2)
    monkeypatch.setattr(large, "MOST_DRAWN", 3)
    short = report.render(mechanism)
    assert "the 2 most frequent can be looked for here" in short
    assert "another" in short
    changed = pf.distortion.solve(pf.Problem(10 * THIRTY), distortion=0.2)
    records = Described.of_solution(changed, None, None)
    monkeypatch.setattr(large, "MOST_LISTED", 3)
    found = large.listed(records, Rounding(300.0))
    order = [records.public.values.index(each) for each in found.values]
    np.testing.assert_allclose(
        found.written.toarray()[:, :-1], records.written[np.ix_(order, order)], atol=1e-12
    )
    rare = pf.Problem([[20, 3, 30], [10, 1, 40]], ["s=a", "s=b"], ["x=often", "x=<b>seldom", "x=<b>most"])
    curve = pf.trace(rare, points=4)
    shown = report.render(curve, report.Report(chosen=curve.at(0.5)))
    assert "seldom" not in shown
    assert "<b>most" not in shown


def test_columns_are_told_by_how_they_were_counted() -> None:
    assert how_counted(Column("a", "text", ("x", "y"))) == "its 2 values"
    assert how_counted(Column("a", "text", ("x",))) == "one value"
