"""Problems with a task: what they check, what they remember, and how they are counted from a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import privfunnel as pf
from privfunnel.errors import InvalidInputError

S = np.array([[10.0, 4.0, 3.0, 0.0], [2.0, 8.0, 9.0, 0.0]])
U = np.array([[6.0, 6.0, 1.0, 0.0], [6.0, 6.0, 11.0, 0.0]])


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 400
    sex, age = rng.integers(0, 2, n), rng.integers(0, 3, n)
    income = (rng.random(n) < 0.2 + 0.25 * age).astype(int)
    town = (age + sex + rng.integers(0, 2, n)) % 3
    frame = {
        "sex": np.array(["f", "m"])[sex],
        "age": age,
        "town": np.array(["a", "b", "c"])[town],
        "income": income,
    }
    return pd.DataFrame(frame)


def mutual(table: np.ndarray) -> float:
    p = table / table.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nansum(p * np.log(p / p.sum(0) / p.sum(1, keepdims=True))))


def test_utility_is_the_information_about_the_task() -> None:
    problem = pf.Problem(S, p_ux=U)
    assert problem.utility_ceiling == pytest.approx(mutual(U), abs=1e-14)
    channel = np.array([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])
    point = problem.evaluate(channel)
    assert point.utility == pytest.approx(mutual(U[:, :3] @ channel), abs=1e-14)
    plain = pf.Problem(S).evaluate(channel)
    assert (point.disclosure, point.leakage) == tuple(plain)
    assert plain.utility is None
    assert problem.evaluate(np.eye(4)).utility == pytest.approx(problem.utility_ceiling, abs=1e-14)


def test_several_tasks_are_a_weighted_sum() -> None:
    other = U[:, [2, 0, 1, 3]] * S.sum(0) / U[:, [2, 0, 1, 3]].sum(0).clip(1)
    problem = pf.Problem(S, p_ux={"a": U, "b": other}, task_weights={"b": 0.5})
    assert problem.utility_ceiling == pytest.approx(mutual(U) + 0.5 * mutual(other), abs=1e-14)


@pytest.mark.parametrize(
    ("p_ux", "words"),
    [
        (U[:, :3], "3 columns for 4 public symbols"),
        (U * np.array([1, 2, 1, 1]), "same p"),
        (-U, "negative"),
        ({}, "no task"),
        (S.sum(0, keepdims=True), "say nothing about"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(p_ux: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.Problem(S, p_ux=p_ux)


def test_weights_and_labels_belong_to_tasks() -> None:
    with pytest.raises(InvalidInputError, match="no task 'b'"):
        pf.Problem(S, p_ux={"a": U}, task_weights={"b": 1.0})
    with pytest.raises(InvalidInputError, match="weight 0 of task 'a'"):
        pf.Problem(S, p_ux={"a": U}, task_weights={"a": 0})
    with pytest.raises(InvalidInputError, match="has no task"):
        _ = pf.Problem(S).utility_ceiling


def test_a_problem_with_a_task_survives_its_file() -> None:
    problem = pf.Problem(S, p_ux={"a": U}, u_labels={"a": ["no", "yes"]}, task_weights={"a": 2.0})
    data = problem.to_dict()
    again = pf.Problem.from_dict(data)
    assert again == problem
    assert again.tasks is not None
    assert again.tasks.tasks[0].labels == ("no", "yes")
    assert again != pf.Problem(S)
    assert again.fingerprint == pf.Problem(S).fingerprint
    assert "tasks" not in pf.Problem(S).to_dict()


def test_a_task_column_is_counted_with_the_public_ones() -> None:
    frame = rows()
    counts = pf.tables.count(frame, private="sex", public=["age", "town"], task=["income"])
    assert counts.tasks[0].table.sum() == len(frame)
    by_hand = pd.crosstab(frame["income"], [frame["age"], frame["town"]]).to_numpy()
    np.testing.assert_array_equal(counts.tasks[0].table, by_hand)
    problem = counts.problem()
    assert problem.utility_ceiling == pytest.approx(mutual(by_hand), abs=1e-12)
    plain = pf.tables.count(frame, private="sex", public=["age", "town"])
    assert problem.fingerprint == plain.problem().fingerprint
    assert counts.fingerprint == plain.fingerprint  # a release for a task is audited with the plain counts
    assert repr(problem).endswith(f"I(U;X)={problem.utility_ceiling:.6g} nats)")


def test_a_public_column_may_be_a_task_and_a_private_one_may_not() -> None:
    frame = rows()
    counts = pf.tables.count(frame, private="sex", public=["age", "town"], task={"age": 0.5})
    p_age = frame["age"].value_counts(normalize=True).to_numpy()
    assert counts.problem().utility_ceiling == pytest.approx(-0.5 * float(p_age @ np.log(p_age)), abs=1e-12)
    with pytest.raises(InvalidInputError, match="'sex' is private and a task"):
        pf.tables.count(frame, private="sex", public="age", task="sex")
    with pytest.raises(InvalidInputError, match="is a task twice"):
        pf.tables.count(frame, private="sex", public="age", task=["income", "income"])


def test_weighted_rows_weigh_in_their_task() -> None:
    frame = rows()
    frame["w"] = np.where(frame["age"] == 0, 3.0, 1.0)
    counts = pf.tables.count(frame, private="sex", public=["age"], task="income", weights="w")
    table = frame.pivot_table(index="income", columns="age", values="w", aggfunc="sum").to_numpy()
    assert counts.problem().utility_ceiling == pytest.approx(mutual(table), abs=1e-12)


def test_limits_of_counting_are_still_checked() -> None:
    with pytest.raises(TypeError, match="max_lvels"):
        pf.tables.count(rows(), private="sex", public="age", max_lvels=3)
