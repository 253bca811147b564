"""Attackers who know something, and releases that are drawn again: numbers of channels, no solver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

import privfunnel as pf
from privfunnel import audit, measures
from privfunnel.audit import informed
from privfunnel.data import instances, tables
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import read_json
from privfunnel.model import attackers
from privfunnel.release import repeated
from privfunnel.release.mechanism import Mechanism
from strategies import channels_for, problems

FIXTURE = Path(__file__).parents[1] / "fixtures" / "heart_failure_free_channel.json"
COLUMNS = ("anaemia", "high blood pressure", "diabetes", "smoking")


@pytest.fixture(scope="module")
def heart() -> pf.Problem:
    return instances.load("heart-failure")


@pytest.fixture(scope="module")
def free() -> NDArray[np.float64]:
    """A channel of heart failure that leaks nothing and discloses R0."""
    return np.array(json.loads(FIXTURE.read_text("utf-8")))


def conditional(problem: pf.Problem, channel: NDArray[np.float64], values: list[int]) -> float:
    """I(S;Y|A) from entropies of the joint table of (s, a, y), written down as it is defined."""
    size = max(values) + 1
    joint = np.zeros((problem.n_s, size, channel.shape[1]))
    for x, a in enumerate(values):
        joint[:, a, :] += problem.p_sx[:, [x]] * channel[x]
    h = [measures.entropy(table.reshape(-1)) for table in (
        joint.sum(axis=2), joint.sum(axis=0), joint, joint.sum(axis=(0, 2)))]  # fmt: skip
    return float(h[0] + h[1] - h[2] - h[3])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_an_attacker_learns_is_the_conditional_information(data: st.DataObject) -> None:
    problem = data.draw(problems(min_x=2))
    channel = data.draw(channels_for(problem))
    values = data.draw(st.lists(st.integers(0, 2), min_size=problem.n_x, max_size=problem.n_x))
    told = problem.leakages(channel, known=[np.array(values)])
    assert told["array 1"] == pytest.approx(conditional(problem, channel, values), abs=1e-12)
    assert told["nothing"] == pytest.approx(problem.evaluate(channel).leakage, abs=1e-12)
    assert problem.evaluate(channel, known=[np.array(values)]).leakage == max(told.values())


def test_zero_leakage_is_no_promise_against_those_who_know_something(
    heart: pf.Problem, free: NDArray[np.float64]
) -> None:
    told = heart.leakages(free, known=COLUMNS)
    assert told["nothing"] < 1e-12
    expected = {"anaemia": 0.0715, "high blood pressure": 0.0697, "diabetes": 0.0521, "smoking": 0.0298}
    assert {name: told[name] for name in COLUMNS} == pytest.approx(expected, abs=1e-3)
    assert heart.evaluate(free, known=COLUMNS).leakage == told["anaemia"]


def test_who_knows_all_public_columns_learns_nothing_more(
    heart: pf.Problem, free: NDArray[np.float64]
) -> None:
    assert heart.leakages(free, known=[COLUMNS])[", ".join(COLUMNS)] == 0.0


def test_attackers_are_named_by_what_they_know(heart: pf.Problem) -> None:
    names = [each.name for each in heart.attackers(["smoking", ["smoking", "diabetes"], ["smoking"]])]
    assert names == ["nothing", "smoking", "smoking, diabetes"]
    assert [each.name for each in heart.attackers("smoking")] == ["nothing", "smoking"]
    assert len(attackers.few_columns(heart.public_columns)) == 4 + 6


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (["smokin"], "did you mean 'smoking'"),
        ([["age"]], "choose among anaemia"),
        ([np.zeros(3)], "an array of 3 values for 16"),
        (7, "no list of attackers"),
        ({"smoking": 1}, "no list of attackers"),
    ],
)
def test_attackers_that_make_no_sense_are_refused(heart: pf.Problem, known: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        heart.attackers(known)


@pytest.mark.parametrize("known", [["nothing"], ["a, b", ["a", "b"]]])
def test_two_attackers_of_one_name_are_no_one_attacker(known: list[Any]) -> None:
    columns = {"nothing": [0, 1, 1, 0], "a, b": [0, 0, 1, 1], "a": [0, 1, 0, 1], "b": [0, 0, 1, 0]}
    problem = pf.Problem([[6, 1, 3, 4], [2, 2, 1, 9]], public_columns=columns)
    with pytest.raises(InvalidInputError, match="would both be called"):
        problem.attackers(known)


def test_problems_without_columns_take_arrays() -> None:
    problem = pf.Problem([[3, 1, 0], [1, 2, 0]])
    assert problem.public_columns == {}
    with pytest.raises(InvalidInputError, match="no named columns"):
        problem.attackers(["smoking"])
    # One value a symbol, or one each of all that were given, those that never occur included.
    assert problem.attackers([np.array([0, 1])])[1].n_values == 2
    assert problem.attackers([["a", "b", "b"], [0, 1, 1]][1:])[1].n_values == 2


def test_measures_are_zero_for_a_constant_and_refused_by_a_wrong_name(heart: pf.Problem) -> None:
    for name in measures.MEASURES:
        assert heart.evaluate(np.ones((16, 1)), measure=name, known=COLUMNS).leakage == pytest.approx(
            0.0, abs=1e-15
        )
        assert heart.evaluate(np.eye(16), measure=name, known=COLUMNS).leakage > 1e-3
    with pytest.raises(InvalidInputError, match="choose one of mutual-information"):
        heart.evaluate(np.eye(16), measure="entropy")


def test_measures_have_their_textbook_values() -> None:
    symmetric = np.array([[0.4, 0.1], [0.1, 0.4]])
    assert float(measures.leakage(symmetric, "guessing")) == pytest.approx(0.3)
    assert float(measures.leakage(symmetric, "chi-squared")) == pytest.approx(4 * 0.15**2 / 0.25)
    assert float(measures.leakage(symmetric, "total-variation")) == pytest.approx(0.3)
    assert float(measures.leakage(symmetric, "maximal-leakage")) == pytest.approx(np.log(1.6))


# --- columns of a problem ---------------------------------------------------------------------------------------------


def test_packaged_instances_and_tables_know_their_columns(heart: pf.Problem) -> None:
    assert tuple(heart.public_columns) == COLUMNS
    assert heart.public_columns["smoking"][:4] == ("no", "yes", "no", "yes")
    census = instances.load("census-income")
    assert {len(values) for values in census.public_columns.values()} == {census.n_x}
    assert len(set(census.public_columns["education"])) == 16
    rows = {"s": ["a", "b", "a", "b"], "town": ["u", "u", "v", None], "age": [1, 2, 2, 2]}
    pandas = pytest.importorskip("pandas")
    with pytest.warns(pf.PrivFunnelWarning):
        counted = tables.count(pandas.DataFrame(rows), private="s", public=["town", "age"]).problem()
    assert set(counted.public_columns) == {"town", "age"}
    assert len(set(counted.public_columns["town"])) == 3


def test_columns_survive_a_file_with_and_without_them(heart: pf.Problem, tmp_path: Path) -> None:
    heart.save(tmp_path / "heart.json")
    assert pf.Problem.load(tmp_path / "heart.json") == heart
    plain = pf.Problem(heart.counts, heart.s_labels, heart.x_labels)
    assert plain.fingerprint == heart.fingerprint
    assert plain != heart
    plain.save(tmp_path / "plain.json")
    assert "public_columns" not in read_json(tmp_path / "plain.json")
    assert pf.Problem.load(tmp_path / "plain.json") == plain


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1, 2]}, "2 values for 3"),
        ({"a": "xyz"}, "0 values"),
        ({3: [1, 2, 3]}, "not a name"),
        ([1], "list"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.Problem([[1, 2, 3], [3, 2, 1]], public_columns=columns)  # type: ignore[arg-type]


# --- repeated releases ------------------------------------------------------------------------------------------------


def test_two_draws_that_tell_nothing_tell_much_together(heart: pf.Problem, free: NDArray[np.float64]) -> None:
    assert pf.joint_leakage(heart, [free]) < 1e-12
    assert pf.joint_leakage(heart, [free, free]) == pytest.approx(0.078, abs=1e-3)
    alone = heart.evaluate(free, known=["anaemia"]).leakage
    assert pf.joint_leakage(heart, [free, free], known=["anaemia"]) > alone + 0.01


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_joint_leakage_is_that_of_the_product_channel(data: st.DataObject) -> None:
    problem = data.draw(problems(min_x=2))
    one, two = data.draw(channels_for(problem)), data.draw(channels_for(problem))
    product = (one[:, :, None] * two[:, None, :]).reshape(problem.n_x, -1)
    expected = float(measures.mutual_information(problem.p_sx @ product))
    assert pf.joint_leakage(problem, [one, two]) == pytest.approx(expected, abs=1e-12)
    assert pf.joint_leakage(problem, [one, np.eye(problem.n_x)]) == pytest.approx(
        problem.leakage_ceiling, abs=1e-12
    )


def test_random_decoys_are_found_by_intersecting_two_draws() -> None:
    # Two classes of three members, the class symbol is constant: all is in the candidates that are released with it.
    problem = pf.Problem(np.repeat([[0.9, 0.2], [0.1, 0.8]], 3, axis=1) / 6.0)
    decoys = np.zeros((6, 9))
    for x in range(3):
        for z in range(3):
            decoys[x, 3 * x + z] = decoys[3 + z, 3 * x + z] = 1 / 3
    assert pf.joint_leakage(problem, [decoys]) < 1e-12
    # Two draws meet in the true record, unless the decoy is drawn again, which happens once in three times.
    assert pf.joint_leakage(problem, [decoys, decoys]) == pytest.approx(
        problem.leakage_ceiling * 2 / 3, abs=1e-12
    )


def test_releases_that_cannot_be_joined_are_refused(
    heart: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInputError, match="no channel"):
        pf.joint_leakage(heart, [])
    monkeypatch.setattr(repeated, "MOST_ENTRIES", 10)
    with pytest.raises(InvalidInputError, match="16 joint entries"):
        pf.joint_leakage(heart, [np.eye(16), np.eye(16)])


# --- audits -----------------------------------------------------------------------------------------------------------


def test_an_audit_names_the_attacker_who_learns_most() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({name: rng.integers(0, 2, 400) for name in ("a", "b", "c")})
    rows["s"] = (rows.a ^ rows.b) | (rng.random(400) < 0.1)
    counts = tables.count(rows, private="s", public=["a", "b", "c"])
    solution = pf.solve(counts, leakage=0.0)
    found = audit.table(rows, Mechanism.from_solution(counts, solution), bootstrap=20)
    assert [each.leakage for each in found.informed] == sorted(
        (each.leakage for each in found.informed), reverse=True
    )
    told = solution.problem.leakages(
        solution.channel, known=["a", "b", "c", ["a", "b"], ["a", "c"], ["b", "c"]]
    )
    assert {each.columns: each.leakage for each in found.informed} == pytest.approx(
        {name: told[name] for name in told if name != "nothing"}, abs=1e-12
    )
    assert all(each.leakage <= each.ceiling for each in found.informed)
    assert any(found.informed[0].columns in line and "learns most" in line for line in found.words())


@pytest.mark.parametrize("held", [np.asarray, sparse.csc_array])
def test_attackers_who_know_two_columns_are_looked_at_on_wide_tables_too(
    held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: rng.integers(0, 3, 9000) for name in ("s", "a", "b", "c")})
    counts = tables.count(frame, private="s", public=["a", "b", "c"])
    p_sx = counts.problem().p_sx
    channel = rng.dirichlet(np.ones(4), p_sx.shape[1]) * (rng.random((p_sx.shape[1], 4)) < 0.7) + [
        0,
        0,
        0,
        1e-3,
    ]
    channel /= channel.sum(axis=1, keepdims=True)
    expected = informed.informed(counts.x_alphabet, p_sx, channel)
    monkeypatch.setattr(informed, "SPARSE_FROM", 0)
    found = informed.informed(counts.x_alphabet, p_sx, held(channel))
    assert [each.columns for each in found] == [each.columns for each in expected]
    assert [each.leakage for each in found] == pytest.approx([each.leakage for each in expected], abs=1e-12)
    assert len(found) == 6
    monkeypatch.setattr(informed, "MOST_ENTRIES", 1)
    assert len(informed.informed(counts.x_alphabet, p_sx, held(channel))) == 3
