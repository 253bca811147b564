"""Two views of a table: the population itself, or a sample from one, judged by designs that a row had no part in."""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import privfunnel as pf
from helpers_cli import assert_one_line_error, run
from privfunnel import audit, measures, report
from privfunnel.audit import cross_fit, provable
from privfunnel.audit import population as beyond
from privfunnel.data import tables
from privfunnel.data.population.views import expected_bias, view_of
from privfunnel.errors import InvalidInputError, SmallSampleWarning, SolverError
from privfunnel.measures import Array
from privfunnel.model import amounts as quantities
from privfunnel.release.mechanism import Mechanism
from privfunnel.report import audit_section
from privfunnel.report.rounding import Rounding

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")


def sample(n: int, seed: int = 0) -> Any:
    """Rows in which a private column depends on two public ones."""
    rng = np.random.default_rng(seed)
    town, member = rng.integers(0, 4, n), rng.integers(0, 2, n)
    sick = rng.random(n) < 0.2 + 0.4 * (town == 1) + 0.2 * member * (town == 2)
    return pa.table({"sick": sick, "town": town, "member": member})


def designed(table: Any, **asked: Any) -> Mechanism:
    """A mechanism for such rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(table, private="sick", public=["town", "member"])
    return Mechanism.from_solution(counts, pf.solve(counts, **asked))


def test_a_small_table_is_a_sample_unless_its_owner_says_otherwise() -> None:
    assert view_of(None, (2, 8), 300, 0.05) == "sample"
    assert view_of("register", (2, 8), 300, 0.05) == "register"
    assert view_of(None, (2, 8), 300_000, 0.05) == "register"
    assert view_of("sample", (2, 8), 300_000, 0.05) == "sample"
    assert view_of(None, (2, 8), None, 0.05) == "register"
    with pytest.raises(InvalidInputError, match="no view 'census': choose register"):
        view_of("census", (2, 8), 300, 0.05)


def test_a_bias_that_is_small_beside_the_information_makes_no_small_table() -> None:
    assert expected_bias((3, 11), 1000, 0.1) == pytest.approx(20 / 2000)
    assert expected_bias((3, 11), 1000, 0.3) is None
    assert expected_bias((2, 3), 1000, 1e-6) is None


def test_parts_are_disjoint_and_add_up_to_the_rows() -> None:
    table = np.array([[7.0, 0.0, 3.0], [2.0, 9.0, 5.0]])
    parts = cross_fit.parts(table, 3, np.random.default_rng(0))
    assert np.array_equal(sum(parts), table)
    assert sorted(part.sum() for part in parts) == [8.0, 9.0, 9.0]
    assert all((part >= 0.0).all() and (part == np.rint(part)).all() for part in parts)


def test_a_split_is_uniform_over_the_rows() -> None:
    rng = np.random.default_rng(1)
    table = np.array([[30.0, 10.0], [0.0, 20.0]])
    first = np.mean([cross_fit.parts(table, 2, rng)[0] for _ in range(400)], axis=0)
    # Hypergeometric: a standard deviation of at most sqrt(30/4), a twentieth of it for the mean of 400.
    assert np.abs(first - table / 2.0).max() < 5 * np.sqrt(30 / 4) / 20


@pytest.mark.parametrize(
    ("n", "asked"), [(300, {"leakage": 0.0}), (3000, {"disclosure": 1.0, "solver": "greedy"})]
)
def test_cross_fitted_bounds_cover_the_designs_they_speak_of(
    n: int, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Designs that are free on their rows leak in the population; the bounds know, and the promise does not."""
    rng = np.random.default_rng(8)
    p_sx = rng.dirichlet(np.full(18, 0.8)).reshape(2, 9)
    channels: list[Any] = []
    released = cross_fit.beyond.released

    def spy(part: Any, channel: Any, rng: Any, row: Any) -> Any:
        channels.append(channel)
        return released(part, channel, rng, row)

    monkeypatch.setattr(cross_fit.beyond, "released", spy)
    covered, trials = 0, 5
    for trial in range(trials):
        problem = pf.Problem(rng.multinomial(n, p_sx.ravel()).reshape(2, 9))
        channels.clear()
        found = audit.cross_fitted(problem, seed=trial, **asked)
        truth = []
        for channel in channels:
            full = np.tile(problem.p_x @ channel, (9, 1))
            full[problem.kept_x] = channel
            truth.append(float(measures.mutual_information(p_sx[problem.kept_s] @ full)))
        covered += found.leakage.low <= np.mean(truth) <= found.leakage.high
        assert found.promised is not None
        assert "leakage" not in asked or found.promised <= 1e-9 < 1e-3 < np.mean(truth)
        assert found.rows == n
        assert found.designs == 2
    assert covered >= 3  # each fails at most once in twenty times; three of five once in a thousand


def test_symbols_that_a_design_never_saw_need_no_row_each() -> None:
    rng = np.random.default_rng(2)
    design, part = (
        pf.Problem(rng.integers(0, 2, (3, 60)).astype(float)),
        rng.integers(0, 3, (3, 60)).astype(float),
    )
    assert 40 < design.n_x < 60
    channel = sparse.csr_array(rng.dirichlet(np.full(30, 0.1), design.n_x))
    whole, fitted = design.restore(channel), cross_fit.Fitted.of(design, channel)
    assert fitted.channel.shape == (design.n_x + 1, 30)
    assert fitted.estimate(part) == pytest.approx(cross_fit.beyond.estimate(part, whole), abs=1e-12)
    drawn = cross_fit.beyond.released(part, fitted.channel, np.random.default_rng(5), fitted.row)
    same = cross_fit.beyond.released(part, whole, np.random.default_rng(5))
    np.testing.assert_array_equal(drawn.sy, same.sy)
    assert abs(drawn.xy - same.xy).sum() == 0


def test_estimates_for_other_people_are_right_on_average() -> None:
    """Judged by rows that a channel was not made from, corrected for chance, over many samples of 150 rows."""
    rng = np.random.default_rng(4)
    p_sx = rng.dirichlet(np.full(12, 2.0)).reshape(2, 6)
    channel = rng.dirichlet(np.full(5, 0.5), 6)
    truth = float(measures.mutual_information(p_sx @ channel))
    drawn = rng.multinomial(150, p_sx.ravel(), size=2000).reshape(-1, 2, 6)
    found = np.array([cross_fit.beyond.estimate(table, channel) for table in drawn])
    plug_in = np.mean([float(measures.mutual_information(table @ channel / 150)) for table in drawn])
    error = 4 * found.std() / np.sqrt(len(found))
    assert abs(found.mean() - truth) < error < plug_in - truth


def test_the_worst_case_holds_for_designs_on_the_very_rows_it_is_computed_from() -> None:
    """Free on their own rows, these channels leak in the population; the bound for all channels at once covers it."""
    rng = np.random.default_rng(9)
    p_sx = rng.dirichlet(np.full(8, 1.0)).reshape(2, 4)
    held = 0
    for _ in range(20):
        problem = pf.Problem(rng.multinomial(400, p_sx.ravel()).reshape(2, 4))
        assert problem.counts is not None
        channel = pf.solve(problem, leakage=0.0, solver="perfect").channel
        found = audit.population_worst_case(problem.counts, channel)
        assert found.plug_in == pytest.approx(0.0, abs=1e-9)
        held += float(measures.mutual_information(p_sx @ channel)) <= found.upper
    assert held >= 16  # each fails at most once in twenty times; five of twenty once in three hundred
    more = audit.population_worst_case(problem.counts, channel, cells=40)
    assert more.upper > found.upper


def test_a_release_of_everything_has_the_bias_of_miller_and_madow() -> None:
    p_sx = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(3, 4)
    whole = measures.released_bias(p_sx, np.eye(4), 50)
    assert whole == pytest.approx(measures.miller_madow_bias(3, 4, 50))
    assert measures.released_bias(p_sx, np.full((4, 2), 0.5), 50) == pytest.approx(0.0)


def test_the_disclosure_of_a_population_is_said_as_its_rows_have_it() -> None:
    xy = np.array([[35.0, 5.0], [5.0, 55.0]])
    found = beyond.bounds(np.array([[30.0, 12.0], [10.0, 48.0]]), xy, 0.95, 0.5).disclosure
    assert found is not None
    assert found.value == pytest.approx(float(measures.mutual_information(xy / 100.0)))
    assert found.low < found.value < found.high


def test_the_band_of_a_curve_lies_between_its_estimate_and_its_bound() -> None:
    rng = np.random.default_rng(5)
    p_sx = rng.dirichlet(np.full(12, 0.5)).reshape(2, 6)
    problem = pf.Problem(rng.multinomial(20_000, p_sx.ravel()).reshape(2, 6))
    at = np.linspace(0.0, problem.disclosure_ceiling, 5)
    found = audit.population_band(problem, at, solver="greedy", splits=2)
    assert found.upper[0] == 0.0
    assert (found.leakage[1:] < found.upper[1:]).all()
    assert found.upper[-1] < 1.2 * problem.leakage_ceiling
    assert found.to_dict()["upper"] == found.upper.tolist()
    again = audit.population_band(problem, at, solver="greedy", splits=1)
    assert np.array_equal(again.upper, found.upper)
    curve = pf.trace(problem, points=4, solver="greedy")
    labels = [text.get_text() for text in curve.plot(population=found).axes[0].get_legend().get_texts()]
    assert "people like these, estimated" in labels
    few = audit.population_band(pf.Problem(rng.multinomial(60, p_sx.ravel()).reshape(2, 6)), at)
    labels = [text.get_text() for text in curve.plot(population=few).axes[0].get_legend().get_texts()]
    assert "people like these, estimated only" in labels


def test_symbols_that_half_of_the_rows_never_saw_are_judged_as_one_in_large_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(9)
    problem = pf.Problem(rng.multinomial(90, rng.dirichlet(np.full(120, 0.5))).reshape(2, 60))
    at = np.linspace(0.0, problem.disclosure_ceiling, 4)
    dense = audit.population_band(problem, at)
    judged: list[tuple[int, ...]] = []

    def estimate(table: Array, channel: Any) -> float:
        judged.append(channel.shape)
        return beyond.estimate(table, channel)

    monkeypatch.setattr("privfunnel.model.channels.DENSE_ENTRIES", 10)
    monkeypatch.setattr(
        "privfunnel.audit.cross_fit.beyond", SimpleNamespace(**vars(beyond) | {"estimate": estimate})
    )
    large = audit.population_band(problem, at)
    assert large.leakage == pytest.approx(dense.leakage, abs=1e-9)
    assert min(rows for rows, _ in judged) < problem.n_x  # a row for each would make a large table


def test_merged_outputs_are_worth_the_disclosure_they_cost() -> None:
    """Fewer outputs prove more: at the same disclosure of the design rows a smaller bound for the population."""
    table = pa.table(
        {
            "s": np.random.default_rng(0).integers(0, 2, 4000),
            "x": np.random.default_rng(1).integers(0, 24, 4000),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(table, private="s", public="x")
    plain, merged = (audit.guaranteed(counts, disclosure=1.0, merge=merge) for merge in (False, True))
    assert merged.solution.disclosure >= 1.0
    assert merged.solution.channel.shape[1] < plain.solution.channel.shape[1] / 2
    assert merged.holdout.leakage.high < 0.6 * plain.holdout.leakage.high
    with pytest.raises(InvalidInputError, match="ask for one, not for a leakage"):
        audit.guaranteed(counts, leakage=0.0, merge=True)


def test_merging_follows_the_numbers_of_the_merged_channel() -> None:
    rng = np.random.default_rng(6)
    problem = pf.Problem(rng.integers(1, 50, (3, 7)))
    channel = rng.dirichlet(np.full(6, 0.5), 7)
    found = list(provable.merged(problem, channel, 0.2))
    assert [each.shape[1] for each in found] == list(range(6, 6 - len(found), -1))
    points = [problem.evaluate(each) for each in found]
    assert all(point.disclosure >= 0.2 - 1e-9 for point in points)
    best = [
        problem.evaluate(np.column_stack([np.delete(channel, [i, j], axis=1), channel[:, i] + channel[:, j]]))
        for i in range(6)
        for j in range(i)
    ]
    # The first pair merged is the one that loses the least of X that is not about S.
    assert points[1].disclosure - points[1].leakage == pytest.approx(
        max(point.disclosure - point.leakage for point in best)
    )
    wide = rng.dirichlet(np.ones(provable.MOST_OUTPUTS + 1), 7)
    assert [each.shape[1] for each in provable.merged(problem, wide, 0.0)] == [provable.MOST_OUTPUTS + 1]


def test_rows_that_are_not_counted_or_too_few_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="give a table of counts"):
        audit.cross_fitted(pf.Problem([[0.2, 0.3], [0.4, 0.1]]), leakage=0.0)
    problem = pf.Problem([[1, 2], [2, 1]])
    for folds in (1, 7):
        with pytest.raises(InvalidInputError, match=f"{folds} parts of 6 rows cannot be made"):
            audit.cross_fitted(problem, leakage=0.0, folds=folds)


def test_an_audit_of_few_rows_says_what_holds_for_people_like_them() -> None:
    table = sample(300)
    mechanism = designed(table, leakage=0.0)
    found = audit.table(table, mechanism, bootstrap=20)
    assert found.view == "sample"
    assert found.population is not None
    assert found.population.designs == 2
    assert found.population.leakage.high > mechanism.leakage
    words = " ".join(found.words())
    assert "taken as a sample from a population" in words
    assert "For people like these: designed again on one half of the 300 rows" in words
    assert found.population.proves_little  # a bound above what there is to leak is no number to tell
    assert "with 95 % confidence not even that less leaks than the" in words
    assert quantities.told(found.population.leakage.high) not in words
    assert audit.table(table, mechanism, bootstrap=20) == found
    told = " ".join(audit_section(found).words)
    assert "taken as a sample from a population" in told
    assert "300" not in told.replace("about 300", "")
    assert f"an estimated {Rounding(300).bits(found.population.leakage.value)} leaks" in told
    first_page = report.render(mechanism, report.Report(audit=found)).partition("Who is exposed most")[0]
    assert "The table is taken as a sample from a population" in first_page
    alone = report.render(mechanism).partition("Who is exposed most")[0]
    assert "taken as a sample" in alone
    assert "(a register)" not in alone


def test_a_register_claims_nothing_about_others() -> None:
    table = sample(300)
    found = audit.table(table, designed(table, leakage=0.0), bootstrap=20, view="register")
    assert found.population is None
    assert any(line.startswith("The table is taken as the population, a register") for line in found.words())
    assert any("(a register)" in line for line in audit_section(found).words)


def test_many_rows_prove_something_about_people_like_them() -> None:
    table = sample(20_000)
    mechanism = designed(table, disclosure=1.2)
    assert audit.table(table, mechanism, bootstrap=20).view == "register"
    found = audit.table(table, mechanism, bootstrap=20, view="sample")
    assert found.population is not None
    assert not found.population.proves_little
    assert found.leakage_ceiling is not None
    assert found.population.leakage.high < found.leakage_ceiling
    assert "in the population, with 95 % confidence, at most" in " ".join(found.words())
    assert any("For people like them" in line for line in audit_section(found).words)
    assert found.population.worst_case is not None
    assert mechanism.leakage < found.population.worst_case < found.leakage_ceiling
    assert any(
        line.startswith("This very mechanism, designed on all rows, leaks at most") for line in found.words()
    )
    assert any("This very release leaks" in line for line in audit_section(found).words)


def test_what_takes_long_is_done_only_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_fit, "AFFORDABLE", -1.0)
    table = sample(300)
    mechanism = designed(table, leakage=0.0)
    left_out = audit.table(table, mechanism, bootstrap=20)
    assert (left_out.view, left_out.population) == ("sample", None)
    assert any("About the population nothing is claimed" in line for line in left_out.words())
    assert any("nothing is claimed" in line for line in audit_section(left_out).words)
    assert audit.table(table, mechanism, bootstrap=20, view="sample").population is not None


def test_the_view_is_an_option_of_the_command(tmp_path: Path) -> None:
    table = sample(300)
    pa_csv.write_csv(table, tmp_path / "t.csv")
    designed(tmp_path / "t.csv", disclosure=0.8).save(tmp_path / "m.json")
    arguments = ("audit", tmp_path / "t.csv", "--mechanism", tmp_path / "m.json", "--bootstrap", 20)
    assert "taken as a sample from a population" in run(*arguments).stdout
    assert "a register" in run(*arguments, "--view", "register").stdout
    assert_one_line_error(run(*arguments, "--view", "census"), "'census' is not one of")


HEART = ("heart-failure", "--solver", "greedy")


def test_curve_tells_of_a_small_table_what_holds_for_people_like_these(tmp_path: Path) -> None:
    done = run("curve", *HEART, "--points", 3, "--out", tmp_path / "out")
    assert "people like these, estimated" in done.stdout
    assert "designs on one half of the 299 rows, judged by the other half" in done.stdout
    found = json.loads((tmp_path / "out" / "population.json").read_text())
    assert found["rows"] == 299
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "curve.csv").read_text())))
    assert [float(row["population_leakage"]) for row in rows] == found["leakage"]
    assert float(rows[1]["leakage"]) < found["leakage"][1] < found["upper"][1]
    page = (tmp_path / "out" / "report.html").read_text()
    for told in ("people like them: estimated leakage, nothing is proved", ">people like them, estimated<",
                 "and beside it stands what is estimated", 'class="people-band"', 'class="people"'):  # fmt: skip
        assert told in page
    document = json.loads(run("curve", *HEART, "--points", 3, "--json").stdout)
    assert (document["view"], document["population"]) == ("sample", found)
    register = run("curve", *HEART, "--points", 3, "--view", "register", "--out", tmp_path / "out")
    assert "people like" not in register.stdout
    assert not (tmp_path / "out" / "population.json").exists()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "(a register)" in page
    assert "people like" not in page


def test_solve_tells_of_a_small_table_what_holds_for_people_like_these(tmp_path: Path) -> None:
    asked = ("solve", *HEART, "--disclosure", "60%")
    told = run(*asked, "--out", tmp_path / "out").stdout
    assert "For people like these: designed again on one half of the 299 rows" in told
    found = json.loads((tmp_path / "out" / "population.json").read_text())
    document = json.loads(run(*asked, "--view", "sample", "--json").stdout)
    assert (document["view"], document["population"]) == ("sample", found)
    document = json.loads(run(*asked, "--view", "register", "--json").stdout)
    assert document["view"] == "register"
    assert "population" not in document


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("synthetic-skewed", "--disclosure", "60%"), "The table holds probabilities, not rows"),
        (("heart-failure", "--leakage", 0, "--published", "anaemia"), "is found for plain releases only"),
        (("heart-failure", "--distortion", 0.5), "is found for plain releases only"),
        (
            ("heart-failure", "--disclosure", "60%", "--solver", "greedy", "--time-limit", 1e-9),
            "which --view sample does",
        ),
    ],
)
def test_solve_says_why_there_is_no_number_about_people_like_these(more: tuple[Any, ...], told: str) -> None:
    assert told in run("solve", *more).stdout


def test_counts_are_rows(tmp_path: Path) -> None:
    """A table of whole numbers can be split as its rows can; the same as probabilities cannot."""
    table = np.random.default_rng(3).integers(0, 30, (2, 4))
    for name, numbers in (("counts", table), ("probabilities", table / table.sum())):
        lines = [
            ",".join(("", *"abcd")),
            *(f"s{i},{','.join(map(repr, row))}" for i, row in enumerate(numbers.tolist())),
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    asked = ("--disclosure", "80%", "--solver", "greedy")
    assert f"one half of the {table.sum()} rows" in run("solve", tmp_path / "counts.csv", *asked).stdout
    assert "The table holds probabilities" in run("solve", tmp_path / "probabilities.csv", *asked).stdout
    (tmp_path / "tiny.csv").write_text(",a,b\ns,9,1\nt,1,8\n")
    assert "few for 2 × 2 cells. So few say nothing" in run("solve", tmp_path / "tiny.csv", *asked).stdout
    refused = run("solve", tmp_path / "probabilities.csv", *asked, "--view", "sample")
    assert_one_line_error(refused, "give a table of counts")


def test_what_nobody_asked_for_neither_fails_nor_takes_the_time_of_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise SolverError("no channel was found")

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    asked = ("solve", *HEART, "--disclosure", "60%")
    monkeypatch.setattr(audit, "cross_fitted", fail)
    done = run(*asked)
    assert done.exit_code == 0
    assert "no design could be made (no channel was found)" in done.stdout
    assert_one_line_error(run(*asked, "--view", "sample"), "no channel was found")
    monkeypatch.setattr(audit, "cross_fitted", interrupt)
    done = run(*asked)
    assert done.exit_code == 130
    assert "was not found before the interrupt" in done.stdout
    monkeypatch.setattr(cross_fit, "AFFORDABLE", -1.0)
    assert "which --view sample does" in run(*asked).stdout


def test_plain_python_designs_again_less_often_and_says_how_to_have_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many splits as what is installed can afford: no clock has a say, and what is left out is named."""
    made = []
    cross_fitted = audit.cross_fitted

    def spy(*of: Any, splits: int, **asked: Any) -> Any:
        made.append(splits)
        return cross_fitted(*of, splits=splits, **asked)

    monkeypatch.setattr(audit, "cross_fitted", spy)
    asked = ("solve", *HEART, "--disclosure", "60%")
    monkeypatch.setattr("privfunnel.data.sizes.compiles", lambda: True)
    assert "privfunnel[fast]" not in run(*asked).stdout
    monkeypatch.setattr("privfunnel.data.sizes.compiles", lambda: False)
    assert "one random split of the rows; on small tables" in run(*asked).stdout
    assert made == [cross_fit.SPLITS, 1]
    curve = run("curve", *HEART, "--points", 20)
    assert "which --view sample does (sooner with compiled kernels" in curve.stdout


def test_more_splits_have_a_say_in_the_estimate_and_leave_the_bounds_alone() -> None:
    problem = pf.instances.load("heart-failure")
    asked: dict[str, Any] = {"disclosure": 0.6 * problem.disclosure_ceiling, "solver": "greedy"}
    one, four = (audit.cross_fitted(problem, **asked, splits=splits) for splits in (1, 4))
    assert (one.leakage.low, one.leakage.high) == (four.leakage.low, four.leakage.high)
    assert one.leakage.value != four.leakage.value
    at = np.linspace(0.0, problem.disclosure_ceiling, 5)
    fine, coarse = (audit.population_band(problem, at, solver="greedy", splits=2, nodes=n) for n in (None, 2))
    assert np.array_equal(fine.upper, coarse.upper)
    assert coarse.at(at[2])[0] == coarse.leakage[2]


def test_outputs_are_merged_on_the_command_line(tmp_path: Path) -> None:
    pa_csv.write_csv(sample(3000), tmp_path / "t.csv")
    asked = (
        "solve",
        tmp_path / "t.csv",
        "--private",
        "sick",
        "--public",
        "town,member",
        "--disclosure",
        "50%",
    )
    done = run(*asked, "--holdout", 0.3, "--merge-outputs")
    assert done.exit_code == 0, done.output
    assert "in the population, with 95 % confidence" in done.stdout
    # The table that 70 % of the rows of the design come from proves nothing about the population any more.
    held_out = run(*asked, "--holdout", 0.3, "--out", tmp_path / "design")
    assert held_out.exit_code == 0, held_out.output
    told = run(
        "audit", tmp_path / "t.csv", "--mechanism", tmp_path / "design" / "mechanism.json", "--bootstrap", 20
    )
    assert "Rows of this table were used in the design" in told.stdout
    assert "In the population that these" not in told.stdout
    assert_one_line_error(run(*asked, "--merge-outputs"), "give --holdout and --disclosure too")


def test_a_table_that_is_everybody_has_no_few_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(3)},{rng.integers(9)}" for _ in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["s,x", *lines, ""]))
    asked = (tmp_path / "t.csv", "--private", "s", "--public", "x", "--type", "x=text")
    for command in (("solve", *asked, "--disclosure", "60%"), ("curve", *asked, "--points", 3)):
        assert "are few" in run(*command).stderr
        assert "are few" not in run(*command, "--view", "register").stderr
