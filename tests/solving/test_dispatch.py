"""Which way a question takes: one table, whatever is asked and however large the table is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms import registry
from privfunnel.errors import InvalidInputError
from privfunnel.model.question import Quantity
from privfunnel.solving import dispatch
from privfunnel.solving.request import Request

#: What is asked, and by which way it is answered.
WAYS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"disclosure": "50%"}, "PlainWay"),
    ({"leakage": "5%"}, "PlainWay"),
    ({"leakage": 0}, "PlainWay"),
    ({"disclosure": "50%", "known": ["a"]}, "GuardedWay"),
    ({"leakage": 0, "known": ["a"]}, "GuardedWay"),
    ({"disclosure": "50%", "published": ["a"]}, "GuardedWay"),
    ({"guarantees": ["lip=1"]}, "GuardedWay"),
    ({"disclosure": "50%", "measure": "chi-squared"}, "GuardedWay"),
    ({"leakage": {"s": 0.01}}, "GuardedWay"),
    ({"utility": "50%"}, "TaskWay"),
    ({"utility": "50%", "disclosure": "90%"}, "TaskWay"),
    ({"utility": "50%", "known": ["a"]}, "GuardedTaskWay"),
    ({"utility": "50%", "guarantees": ["lip=1"]}, "GuardedTaskWay"),
    ({"leakage": 0.01, "measure": "guessing", "axis": "utility"}, "GuardedTaskWay"),
    ({"distortion": 0.1}, "RecordsWay"),
    ({"leakage": 0.01, "costs": "record"}, "RecordsWay"),
)


def problem(n_x: int) -> pf.Problem:
    rng = np.random.default_rng(n_x)
    table = rng.integers(1, 30, (3, n_x))
    task = np.stack([table.sum(axis=0) * share for share in (0.5 + 0.4 * np.sin(np.arange(n_x)),)])
    columns = {
        "public_columns": {"a": [str(i % 3) for i in range(n_x)]},
        "private_columns": {"s": list("xyz")},
    }
    return pf.Problem(table, p_ux=np.vstack([task, table.sum(axis=0) - task]) / table.sum(), **columns)


@pytest.mark.parametrize("n_x", [6, 80, 6000])
@pytest.mark.parametrize(("asked", "way"), WAYS)
def test_a_question_takes_one_way_whatever_the_size(asked: dict[str, Any], way: str, n_x: int) -> None:
    if "costs" in asked or "distortion" in asked:
        n_x = min(n_x, 80)  # a matrix of costs
    axis = asked.get("axis", "disclosure" if "disclosure" in asked and "utility" not in asked else None)
    if axis is None and "leakage" in asked and "costs" not in asked:
        axis = "disclosure"  # a problem with a task would spend it on its task
    if axis is None and list(asked) == ["guarantees"]:
        axis = "disclosure"
    request = Request(**{name: value for name, value in asked.items() if name != "axis"})
    question = request.of(problem(n_x), axis=axis)
    assert type(dispatch.way_of(question, registry.get("auto"))).__name__ == way
    serving = [row for row in dispatch.TABLE if row.serves(question)]
    assert serving[-1] is dispatch.TABLE[-1]


@pytest.mark.parametrize(("asked", "way"), WAYS)
def test_solvers_of_the_plain_funnel_are_refused_elsewhere(asked: dict[str, Any], way: str) -> None:
    axis = asked.get("axis", "disclosure" if "utility" not in asked and way != "RecordsWay" else None)
    request = Request(**{name: value for name, value in asked.items() if name != "axis"})
    question = request.of(problem(6), axis=axis)
    aem = registry.get("aem")
    if way == "PlainWay":
        assert dispatch.way_of(question, aem).name == "aem"
        return
    with pytest.raises(InvalidInputError, match=r"'aem' solves the plain funnel: leave it out where"):
        dispatch.way_of(question, aem)


def test_requests_are_values() -> None:
    one, other = (Request(disclosure="60%", known=("a",)) for _ in range(2))
    assert one == other
    table = problem(6)
    assert one.of(table).disclosure == pytest.approx(0.6 * table.disclosure_ceiling)
    assert one.of(problem(80)).disclosure > one.of(table).disclosure
    asked = pf.Request(
        disclosure="60%", known=[["a"], np.arange(6)], guarantees=("lip=2",), measure=pf.measures.INFORMATION
    )
    stored = json.loads(json.dumps(asked.to_dict()))
    assert stored == {
        "disclosure": "60%", "known": [["a"], [0, 1, 2, 3, 4, 5]], "guarantees": ["lip=2"],
        "measure": "mutual-information",
    }  # fmt: skip
    again = pf.Request.from_dict(stored).of(table)
    assert again.guards.to_dict() == asked.of(table).guards.to_dict()
    assert pf.Request().to_dict() == {}
    with pytest.raises(InvalidInputError, match="no entry 'know': did you mean 'known'"):
        pf.Request.from_dict({"know": ["a"]})
    question = one.of(table)
    read = pf.Question.from_dict(question.to_dict(), table)
    assert read.to_dict() == question.to_dict()
    assert (read.goal, read.axis) == (Quantity.LEAKAGE, Quantity.DISCLOSURE)
    with pytest.raises(InvalidInputError, match="was changed"):
        pf.Question.from_dict(question.to_dict() | {"goal": "fame"}, table)
    with pytest.raises(InvalidInputError, match="below 0"):
        pf.Question.from_dict(question.to_dict() | {"disclosure": -1.0}, table)
