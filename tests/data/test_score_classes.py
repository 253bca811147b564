"""Score classes: p(s|x) of tables too wide to count, taken from classes of a cross-fitted score."""

from __future__ import annotations

import copy
import json
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import assert_one_line_error, run
from privfunnel import audit, measures, release, report
from privfunnel.audit.review_board import questions
from privfunnel.data import score_model, tables
from privfunnel.data.engines.categories import ABOVE, BELOW, UNSEEN
from privfunnel.data.score_classes import FOLDS, ScoreClasses, _parts, score_classes
from privfunnel.data.tables import Counts
from privfunnel.errors import (
    ConvergenceWarning,
    GuaranteeWarning,
    InvalidInputError,
    MissingExtraError,
    SmallSampleWarning,
)
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("sklearn")

PUBLIC = ("level", "town", "trade", "shift")
ROWS = 500


def wide(rows: int, seed: int, private: int = 2) -> Any:
    """Rows of which most public combinations occur once; two of four columns say something about the private one."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, private, rows)
    level = np.clip(np.rint(rng.normal(5.0 + 2.0 * s, 2.0)), 0, 11).astype(int)
    town = np.where(rng.random(rows) < 0.2 + 0.3 * (s == 1), "a", rng.choice(list("bcdef"), rows))
    columns = {
        "level": level,
        "town": town,
        "trade": rng.integers(0, 8, rows),
        "shift": rng.integers(0, 6, rows),
    }
    return pa.table({"sick": [f"s{value}" for value in s], **columns})


def counted(table: Any, classes: str | None = "score:6", **more: Any) -> Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return tables.count(table, private="sick", public=list(PUBLIC), classes=classes, **more)


@pytest.fixture(scope="module", autouse=True)
def few_trees() -> Iterator[None]:
    """A score of few trees, which is quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_model, "STAGES", 16)
        yield


@pytest.fixture(scope="module")
def table() -> Any:
    return wide(ROWS, 0)


@pytest.fixture(scope="module")
def counts(table: Any) -> Counts:
    return counted(table)


@pytest.fixture(scope="module")
def scores(counts: Counts) -> ScoreClasses:
    assert counts.scores is not None
    return counts.scores


@pytest.fixture(scope="module")
def mechanism(counts: Counts) -> Mechanism:
    return Mechanism.from_solution(counts, pf.solve(counts, leakage=0.0))


def test_stored_trees_say_what_the_fitted_classifier_says() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    for private in (2, 3):
        plain = counted(wide(200, 1, private), None)
        cells = score_model.Cells(plain.x_codes[plain.cell_x], plain.cell_s, plain.cell_n.astype(float))
        trees = score_model.fitted(cells, plain.public, plain.n_s, 0)
        model = GradientBoostingClassifier(
            n_estimators=max(2 * score_model.STAGES // private, 10), learning_rate=score_model.RATE, subsample=0.5,
            max_depth=score_model.DEPTH, min_samples_leaf=5, max_features=0.7, random_state=0,
        )  # fmt: skip
        seen = trees.seen(cells.codes, plain.public)
        model.fit(seen, cells.s, sample_weight=cells.weight)
        score = trees.score(cells.codes, plain.public) - trees.prior
        found = model.decision_function(seen).reshape(len(seen), -1)
        wanted = found - found.mean(axis=0)
        added = score[:, 1:] if private == 2 else score
        # Leaves are rounded to six decimals, a hundred of them are added up.
        np.testing.assert_allclose(added - added.mean(axis=0), wanted, atol=1e-4)


def test_no_row_has_a_say_in_the_model_that_scores_it(counts: Counts, scores: ScoreClasses) -> None:
    part = _parts(counts.x_codes, FOLDS, 0)
    own = np.flatnonzero(part[counts.cell_x] == 2)
    flipped = counts.cell_s.copy()
    flipped[own] = 1 - flipped[own]
    table = np.zeros((2, counts.n_x))
    np.add.at(table, (flipped, counts.cell_x), counts.cell_n)
    again = score_classes(counts.x_alphabet, table, 6)
    stages = min(len(again.models[2].root), len(scores.models[2].root))
    first, second = (each.models[2].first(stages).to_dict() for each in (again, scores))
    assert first == second
    assert again.models[0].to_dict() != scores.models[0].to_dict()


def test_shares_are_those_of_the_class_and_the_margins_those_of_the_rows(
    table: Any, counts: Counts, scores: ScoreClasses
) -> None:
    plain, smooth = counted(table, None).table(), counts.table()
    np.testing.assert_allclose(smooth.sum(axis=0), plain.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(smooth.sum(axis=1), plain.sum(axis=1), rtol=1e-12)
    for t in range(scores.n_classes):
        own = scores.of_x == t
        share = plain[:, own].sum(axis=1) / plain[:, own].sum()
        np.testing.assert_allclose(
            smooth[:, own] / smooth[:, own].sum(axis=0), share[:, None] * np.ones(own.sum())
        )
    assert counts.fingerprint == counted(table, None).fingerprint
    # The rows' own shares say far more, most of it chance; the score says something.
    assert 0.02 < scores.told < measures.mutual_information(plain / plain.sum()) / 2


def test_classes_are_one_function_of_the_values_for_old_rows_and_new_ones(
    counts: Counts, scores: ScoreClasses
) -> None:
    columns = counts.x_alphabet.columns
    np.testing.assert_array_equal(scores.classify(counts.x_codes, columns), scores.of_x)
    unknown = np.array([[UNSEEN] * 4, [BELOW, 0, 0, 0], [ABOVE, 0, 0, 0]])
    found = scores.classify(unknown, columns)
    assert ((found >= 0) & (found < scores.n_classes)).all()
    again = counted(wide(ROWS, 0)).scores
    assert again is not None
    assert again.to_dict() == scores.to_dict()
    other = counted(wide(ROWS, 0), seed=1).scores
    assert other is not None
    assert other.to_dict() != scores.to_dict()


def test_a_perfect_design_of_the_classes_costs_at_most_one_bit(counts: Counts, mechanism: Mechanism) -> None:
    problem = counts.problem()
    assert mechanism.leakage < 1e-9
    assert problem.disclosure_ceiling - mechanism.disclosure <= math.log(2.0)
    assert mechanism.provenance["classes"] == "score:6"
    assert mechanism.class_symbols.max() + 1 <= 6
    np.testing.assert_allclose(np.asarray(mechanism.class_channel.sum(axis=1)), 1.0)


@pytest.mark.parametrize("lumped_beyond", [None, 0])
def test_a_mechanism_with_classes_survives_its_file(
    mechanism: Mechanism, lumped_beyond: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lumped_beyond is not None:  # as where the channel is large, and held by its entries
        from scipy import sparse

        mechanism = replace(mechanism, channel=sparse.csc_array(mechanism.channel))
    data = json.loads(json.dumps(mechanism.to_dict()))
    again = Mechanism.from_dict(data)
    assert again.fingerprint == mechanism.fingerprint
    assert again.sparse == mechanism.sparse
    assert again.scores is not None
    assert mechanism.scores is not None
    assert again.scores.to_dict() == mechanism.scores.to_dict()
    np.testing.assert_array_equal(again.class_symbols, mechanism.class_symbols)
    edges = data["scores"]["edges"]
    wrong_borders = [("edges", value) for value in ([0.0], edges[::-1], [math.nan] * len(edges))]
    others = [("of_x", [0]), ("table", [[1.0]]), ("centres", [[0.5]] * 3), ("log_loss", math.nan)]
    for path, value in wrong_borders + others:
        broken = copy.deepcopy(data)
        broken["scores"][path] = value
        with pytest.raises(InvalidInputError, match="the file was changed"):
            Mechanism.from_dict(broken)
    for name, wrong in (("feature", 99), ("left", 10**6), ("value", math.inf), ("value", 1e308), ("of", [0])):
        broken = copy.deepcopy(data)
        broken["scores"]["models"][0][name] = [wrong] * len(broken["scores"]["models"][0][name])
        with pytest.raises(InvalidInputError, match="does not fit its columns"):
            Mechanism.from_dict(broken)


def test_held_out_rows_judge_the_class_symbol_of_designs_made_without_them(counts: Counts) -> None:
    found = audit.guaranteed(counts, leakage=0.0, share=0.4)
    population = found.holdout.population
    assert population.classes == 6
    assert population.outputs <= 6 < found.mechanism.n_y
    assert found.holdout.new_rows > 0.3 * found.holdout.held_out_rows
    assert found.mechanism.scores is not None
    assert found.mechanism.scores.table.sum() == found.holdout.design_rows
    assert any("6 score classes" in line for line in found.holdout.words())
    again = audit.cross_fitted(counts, leakage=0.0)
    assert again.designs == 2
    assert again.classes == 6
    assert again.rows == ROWS
    with pytest.raises(InvalidInputError, match="give its counts"):
        audit.cross_fitted(counts.problem(), leakage=0.0, classes="score:6")
    with pytest.raises(InvalidInputError, match="cannot be made"):
        audit.cross_fitted(counts, leakage=0.0, folds=1)


def test_a_curve_of_classes_is_judged_by_rows_that_made_none_of_them(counts: Counts) -> None:
    free = pf.solve(counts, leakage=0.0).disclosure
    wanted = [0.0, free, counts.problem().disclosure_ceiling]
    found = audit.population_band(counts, wanted)
    assert found.classes == 6
    assert found.rows == ROWS
    assert found.leakage[0] == 0.0
    # Where all is released the class of a row is, by the same designs on the same halves.
    alone = audit.cross_fitted(counts, disclosure=wanted[-1])
    assert found.leakage[2] == pytest.approx(alone.leakage.value, abs=1e-9)
    assert found.leakage[1] < found.leakage[2]
    assert np.all(found.upper >= found.leakage - 1e-9)
    assert found.to_dict()["classes"] == 6
    with pytest.raises(InvalidInputError, match="give its counts"):
        audit.population_band(counts.problem(), wanted, classes="score:6")


def test_the_audit_checks_the_promise_of_the_classes_and_takes_the_table_as_a_sample(
    table: Any, mechanism: Mechanism
) -> None:
    own = audit.table(table, mechanism)
    assert own.passed
    assert own.view == "sample"
    assert own.leakage.plug_in < 1e-9
    assert own.population is not None
    assert own.population.classes == 6
    # Nothing leaks by the shares of the classes; of the rows' own values that is not said.
    assert counted(table, None).problem().evaluate(mechanism.channel).leakage > 0.01
    assert any("takes each row to have the shares of its score class" in line for line in own.words())
    assert "shares of the score classes" in questions(own)[2].proof
    page = report.render(mechanism, report.Report(audit=own))
    assert "is put into one of 6 score classes" in page
    assert "as frequent among people of any private value" not in page
    other = audit.table(wide(200, 5), mechanism)
    assert other.recount is not None
    assert other.recount.new_rows > 50
    assert other.population is not None
    assert other.population.outputs <= 6
    assert other.leakage.plug_in < 0.1
    with pytest.raises(InvalidInputError, match="a register has no others"):
        audit.table(table, mechanism, view="register")


@pytest.mark.parametrize("form", ["symbols", "decoys", "records"])
def test_new_rows_are_released_as_members_of_their_class(
    form: str, mechanism: Mechanism, tmp_path: Path
) -> None:
    new = wide(200, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # of the seed, and of new rows
        summary = release.write(new, mechanism, tmp_path / "out.csv", form=form, unseen="class", seed=0)
    assert summary.written == 200
    assert sum(summary.unseen.values()) > 50
    if form != "decoys":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        found = audit.release(new, tmp_path / "out.csv", mechanism=mechanism, attacker_rows=0, permutations=9)
    assert found.draws is not None
    assert found.draws.impossible == 0
    assert found.passed
    assert found.population is not None
    assert found.population.classes == 6


def test_rows_that_are_new_stop_a_release_unless_a_rule_is_named(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="--unseen class or marginal"):
        release.write(wide(50, 5), mechanism, tmp_path / "out.csv")
    plain = replace(mechanism, scores=None)
    with pytest.raises(InvalidInputError, match="designs with score classes"):
        release.write(wide(50, 5), plain, tmp_path / "out.csv", unseen="class")
    with pytest.raises(InvalidInputError, match="without score classes"):
        _ = plain.class_symbols


def test_more_private_symbols_are_clustered_by_their_scores() -> None:
    counts = counted(wide(300, 2, 3), "score:5")
    assert counts.scores is not None
    assert counts.scores.centres.shape == (5, 3)
    solution = pf.solve(counts, leakage=0.0)
    assert solution.leakage < 1e-9
    assert counts.problem().disclosure_ceiling - solution.disclosure <= math.log(3.0) + 1e-9
    data = json.loads(json.dumps(Mechanism.from_solution(counts, solution).to_dict()))
    again = Mechanism.from_dict(data).scores
    assert again is not None
    np.testing.assert_array_equal(again.classify(counts.x_codes, counts.public), counts.scores.of_x)


def test_a_private_column_of_one_value_has_one_class(table: Any) -> None:
    constant = counted(table.set_column(0, "sick", pa.array(["no"] * ROWS)))
    assert constant.scores is not None
    assert constant.scores.n_classes == 1
    assert constant.problem().leakage_ceiling == 0.0


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ("score:0", "2 or more"),
        ("score:1", "2 or more"),
        ("score:x", "score:16"),
        ("16", "score:16"),
        ("score:100000", "rows cannot fill"),
        ("score:490", "ask for fewer"),
    ],
)
def test_classes_that_cannot_be_made_are_refused_in_one_line(
    classes: str, words: str, table: Any, tmp_path: Path
) -> None:
    pa_csv.write_csv(table, tmp_path / "wide.csv")
    roles = ("--private", "sick", "--public", ",".join(PUBLIC), "--leakage", "0")
    done = run("solve", tmp_path / "wide.csv", *roles, "--classes", classes, "--out", tmp_path / "out")
    assert_one_line_error(done, words)
    assert not (tmp_path / "out").exists()


def test_classes_go_with_neither_task_nor_noise_nor_another_engine_of_samples(
    table: Any, tmp_path: Path
) -> None:
    pa_csv.write_csv(table, tmp_path / "wide.csv")
    source = (tmp_path / "wide.csv", "--private", "sick", "--classes", "score:4")
    public = ("--public", "level,town,trade")
    assert_one_line_error(
        run("solve", *source, *public, "--task", "shift", "--utility", "50%"), "leave out the task"
    )
    noise = run("solve", *source, *public, "--leakage", "0", "--design-epsilon", "1")
    assert_one_line_error(noise, "noise")
    register = run("solve", *source, *public, "--leakage", "0", "--view", "register")
    assert_one_line_error(register, "leave --classes or --view register out")
    assert_one_line_error(
        run("solve", "heart-failure", "--leakage", "0", "--classes", "score:4"), "--classes"
    )


def test_the_commands_design_release_and_audit_with_classes(table: Any, tmp_path: Path) -> None:
    pa_csv.write_csv(table, tmp_path / "wide.csv")
    roles = ("--private", "sick", "--public", ",".join(PUBLIC), "--classes", "score:4")
    done = run(
        "solve", tmp_path / "wide.csv", *roles, "--leakage", "0", "--view", "sample", "--out", tmp_path / "d"
    )
    assert done.exit_code == 0, done.output
    assert "4 score classes" in done.stderr
    assert "This is about the symbol of the 4 score classes" in done.stdout
    done = run("curve", tmp_path / "wide.csv", *roles, "--points", "3", "--view", "sample")
    assert done.exit_code == 0, done.output
    assert "This is about the symbol of the 4 score classes" in done.stdout.replace("\n", " ")
    mechanism = tmp_path / "d" / "mechanism.json"
    out = tmp_path / "out.csv"
    done = run("release", tmp_path / "wide.csv", "--mechanism", mechanism, "-o", out, "--as", "decoys")
    assert done.exit_code == 0, done.output
    done = run("audit", tmp_path / "wide.csv", "--mechanism", mechanism, "--attacker-rows", "0")
    assert done.exit_code == 0, done.output
    assert "The designed promise holds" in done.stdout


def test_without_scikit_learn_the_advice_is_to_install_it(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match=r"privfunnel\[audit\]"):
        counted(table)


def test_the_estimator_takes_classes(table: Any) -> None:
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    funnel = pf.PrivacyFunnel(["sick"], leakage=0.0, classes="score:4", unseen="class", bins={})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        funnel.fit(frame)
    assert funnel.transform(wide(50, 7).to_pandas()).shape == (50, 1)


def test_attackers_of_score_classes_are_guarded_against_on_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    x, s = rng.integers(0, 30, (400, 2)), rng.random(400)
    names = {"a": [f"a{i}" for i in x[:, 0]], "b": [f"b{i % 3}" for i in x[:, 1]]}
    rows = pa.table(names | {"s": np.where(s < 0.2 + 0.5 * (x[:, 0] > 14), "yes", "no").tolist()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        problem = tables.count(rows, private="s", public=["a", "b"], classes="score:3").problem()
    disclosure = 0.9 * problem.disclosure_ceiling
    monkeypatch.setattr("privfunnel.algorithms.guarded_too_large.MOST_SEARCHED", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        unsearched = pf.solve(problem, disclosure=disclosure, known=["b"])
        monkeypatch.setattr("privfunnel.model.seen_alike.ROUNDED_BEYOND", 20)
        found = pf.solve(problem, disclosure=disclosure, known=["b"])
    assert found.disclosure >= disclosure - 1e-9
    assert found.lower_bound <= found.leakage < unsearched.leakage
