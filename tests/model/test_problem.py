from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel import measures
from privfunnel.errors import InvalidInputError
from strategies import channels_for, problems
from toys import SYNTHETIC, synthetic


def test_reference_values() -> None:
    problem = synthetic()
    assert problem.disclosure_ceiling == pytest.approx(1.0986123, abs=1e-7)
    assert problem.leakage_ceiling == pytest.approx(0.4541057, abs=1e-7)
    skewed = pf.Problem.from_conditional(SYNTHETIC, [0.1, 0.3, 0.6])
    assert skewed.disclosure_ceiling == pytest.approx(0.8979457, abs=1e-7)
    assert skewed.leakage_ceiling == pytest.approx(0.3677968, abs=1e-7)


def test_counts_are_normalised_and_kept() -> None:
    problem = pf.Problem(
        [[1, 2, 0], [3, 0, 0], [0, 4, 0]], s_labels=["a", "b", "c"], x_labels=["u", "v", "w"]
    )
    assert problem.n == 10
    assert problem.counts is not None
    assert problem.counts.tolist() == [[1, 2], [3, 0], [0, 4]]
    assert problem.p_sx.sum() == pytest.approx(1.0, abs=1e-15)
    assert problem.x_labels == ("u", "v")
    assert problem.all_x_labels == ("u", "v", "w")
    assert problem.kept_x.tolist() == [True, True, False]
    assert problem.kept_s.all()
    assert problem.s_labels == problem.all_s_labels == ("a", "b", "c")
    assert "n=10" in repr(problem)


def test_dropped_symbols_can_be_restored() -> None:
    problem = pf.Problem([[1, 0, 2], [3, 0, 1]])
    full = problem.restore([[0.25, 0.75], [0.5, 0.5]])
    assert full.shape == (3, 2)
    assert full[1] == pytest.approx(problem.p_x @ full[[0, 2]])
    assert problem.evaluate(full) == problem.evaluate(full[[0, 2]])


def test_weights_and_sample_size() -> None:
    assert pf.Problem([[2.5, 0.5], [1.0, 1.0]]).n is None
    assert pf.Problem([[0.5, 0.1], [0.2, 0.2]], n=50).n == 50
    assert pf.Problem([[1.0]]).counts is None  # a lone probability, not one row


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[0.5, -0.1], [0.3, 0.3]], r"\[0, 1\] = -0.1 is negative"),
        ([[0.5, float("nan")], [0.3, 0.3]], r"\[0, 1\] = nan is not finite"),
        ([[float("inf"), 1.0]], "not finite"),
        ([[0, 0], [0, 0]], "sums to 0"),
        ([[0.5, 0.4]], "sums to 0.9, not to 1"),
        ([[0.5, 0.500002]], "sums to 1.000002, not to 1"),
        ([[1e308, 1e308, 1e308]], "sums to inf"),
        ([1, 2], r"shape \(2,\)"),
        (np.zeros((0, 3)), "shape"),
        ([["a", "b"]], "not a numeric matrix"),
        ([[1, 2], [3]], "not a numeric matrix"),
        ([[10**400, 1]], "not a numeric matrix"),
        ([[1j, 1.0]], "complex"),
        (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), "masked"),
    ],
)
def test_bad_tables_are_named(table: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.Problem(table)  # type: ignore[arg-type]


def test_bad_labels_and_sizes_are_named() -> None:
    with pytest.raises(InvalidInputError, match="1 s_labels for 2 symbols"):
        pf.Problem([[1, 2], [3, 4]], s_labels=["a"])
    with pytest.raises(InvalidInputError, match="'a' twice"):
        pf.Problem([[1, 2], [3, 4]], x_labels=["a", "a"])
    with pytest.raises(InvalidInputError, match="the text 'ab'"):
        pf.Problem([[1, 2], [3, 4]], x_labels="ab")
    with pytest.raises(InvalidInputError, match="s_labels=5 is not a list"):
        pf.Problem([[1, 2], [3, 4]], s_labels=5)  # type: ignore[arg-type]
    for n in (-3, "many"):
        with pytest.raises(InvalidInputError, match="not a sample size"):
            pf.Problem([[0.5, 0.5]], n=n)  # type: ignore[arg-type]


def test_a_weight_that_vanishes_beside_the_total_is_dropped() -> None:
    problem = pf.Problem([[1e200, 0.0], [0.0, 1e-200]])
    assert (problem.n_s, problem.n_x) == (1, 1)
    assert problem.disclosure_ceiling == 0.0


def test_ceilings_are_never_negative() -> None:
    for seed in range(30):
        problem = pf.Problem(np.random.default_rng(seed).dirichlet(np.ones(3))[:, None])
        assert problem.disclosure_ceiling == 0.0
        assert pf.solve(problem, disclosure=problem.disclosure_ceiling, solver="aem").leakage == 0.0


def test_stored_tables_are_checked() -> None:
    data = synthetic().to_dict()
    with pytest.raises(InvalidInputError, match="sum to"):
        pf.Problem.from_dict({**data, "table": (np.array(data["table"]) * 14.7).tolist()})
    with pytest.raises(InvalidInputError, match="unknown kind"):
        pf.Problem.from_dict({**data, "kind": "guesses"})
    with pytest.raises(InvalidInputError, match="does not hold counts"):
        pf.Problem.from_dict({**data, "kind": "counts"})


def test_from_conditional_checks_its_sums() -> None:
    with pytest.raises(InvalidInputError, match=r"column 0 of p_s_given_x sums to 0.9.*transpose"):
        pf.Problem.from_conditional([[0.4, 0.5], [0.5, 0.5]], [0.5, 0.5])
    with pytest.raises(InvalidInputError, match=r"p_x sums to 0\.9"):
        pf.Problem.from_conditional([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.4])
    with pytest.raises(InvalidInputError, match="3 entries for 2 columns"):
        pf.Problem.from_conditional([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.25, 0.25])


def test_it_is_immutable_and_hashable() -> None:
    problem = synthetic()
    with pytest.raises(ValueError, match="read-only"):
        problem.p_sx[0, 0] = 1.0
    with pytest.raises(AttributeError, match="immutable"):
        problem.n = 3  # type: ignore[misc]
    assert problem == synthetic()
    assert hash(problem) == hash(synthetic())
    assert problem != pf.Problem([[1, 1], [1, 2]])
    assert pickle.loads(pickle.dumps(problem)) == problem


@given(problems())
def test_json_round_trip_is_exact(problem: pf.Problem) -> None:
    again = pf.Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again == problem
    assert (again.p_sx == problem.p_sx).all()


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    synthetic().save(path)
    assert pf.Problem.load(path) == synthetic()
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "version": 99}))
    with pytest.raises(InvalidInputError, match="version 99 cannot be read"):
        pf.Problem.load(path)
    path.write_text("[1]")
    with pytest.raises(InvalidInputError, match="not a privfunnel/problem file"):
        pf.Problem.load(path)
    path.write_text("{")
    with pytest.raises(InvalidInputError, match="not a JSON file"):
        pf.Problem.load(path)
    del data["table"]
    with pytest.raises(InvalidInputError, match=r"not a complete problem file.*'table'"):
        pf.Problem.from_dict(data)
    with pytest.raises(InvalidInputError, match="cannot read"):
        pf.Problem.load(tmp_path / "nothing.json")
    with pytest.raises(InvalidInputError, match="cannot write"):
        synthetic().save(tmp_path / "no" / "folder.json")
    assert [p.name for p in tmp_path.iterdir()] == ["problem.json"]


@given(problems(), st.data())
def test_information_inequalities(problem: pf.Problem, data: st.DataObject) -> None:
    channel = data.draw(channels_for(problem))
    point = problem.evaluate(channel)
    assert 0.0 <= point.leakage <= min(problem.leakage_ceiling, point.disclosure)
    assert point.disclosure <= problem.disclosure_ceiling
    assert point.leakage >= problem.lower_bound(point.disclosure) - 1e-12
    # The unclipped numbers obey data processing too.
    assert measures.mutual_information(problem.p_sx @ channel) <= point.disclosure + 1e-12


@given(problems(), st.data())
def test_relabelling_changes_nothing(problem: pf.Problem, data: st.DataObject) -> None:
    channel = data.draw(channels_for(problem))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    s, x, y = (rng.permutation(n) for n in (problem.n_s, problem.n_x, channel.shape[1]))
    other = pf.Problem(problem.p_sx[np.ix_(s, x)])
    expected, got = problem.evaluate(channel), other.evaluate(channel[np.ix_(x, y)])
    assert got.disclosure == pytest.approx(expected.disclosure, abs=1e-12)
    assert got.leakage == pytest.approx(expected.leakage, abs=1e-12)


@given(problems(), st.data())
def test_merging_outputs_raises_neither_number(problem: pf.Problem, data: st.DataObject) -> None:
    channel = data.draw(channels_for(problem))
    merged = np.column_stack([channel[:, :-2], channel[:, -2:].sum(axis=1)])
    before, after = problem.evaluate(channel), problem.evaluate(merged)
    assert after.disclosure <= before.disclosure + 1e-12
    assert after.leakage <= before.leakage + 1e-12


def test_bad_channels_are_named() -> None:
    problem = synthetic()
    with pytest.raises(InvalidInputError, match="2 rows for 3 public symbols"):
        problem.evaluate([[1.0], [1.0]])
    with pytest.raises(InvalidInputError, match=r"row 1 of the channel sums to 0\.5"):
        problem.evaluate([[1.0], [0.5], [1.0]])


def test_one_symbol_is_legal() -> None:
    for table in ([[3, 4, 5]], [[3], [4]], [[7]]):
        problem = pf.Problem(table)
        assert problem.leakage_ceiling == 0.0
        assert problem.upper_bound(problem.disclosure_ceiling) == 0.0
        assert problem.lower_bound(problem.disclosure_ceiling) == 0.0


def test_the_free_disclosure_is_searched_once_and_travels_with_the_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = pf.instances.load("heart-failure")
    found = pf.free_disclosure(problem)
    assert found == pytest.approx(1.5626336, abs=1e-6)
    monkeypatch.setattr("privfunnel.algorithms.perfect.free_disclosure", None)  # asking again would fail
    assert pf.free_disclosure(problem) == pf.free_disclosure(problem) == found
    assert pf.free_disclosure(pickle.loads(pickle.dumps(problem))) == found
