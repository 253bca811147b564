"""Options by their former names: still understood, with a warning that says today's."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import privfunnel as pf
from privfunnel.errors import InvalidInputError, RetiredOptionWarning
from privfunnel.solvers import registry

#: Solver, former options, today's.
RENAMED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("aem", {"n_y": 4}, {"outputs": 4}),
    ("drs", {"time_limit": None}, {"time_limit": math.inf}),
    ("dca", {"time_limit": None}, {"time_limit": math.inf}),
    ("submodular", {"time_limit": None}, {"time_limit": math.inf}),
    ("slsqp", {"time_limit": None}, {"time_limit": math.inf}),
    ("ipopt", {"time_limit": None}, {"time_limit": math.inf}),
    ("drs", {"clock": "cpu"}, {}),
]


@pytest.mark.parametrize(("name", "former", "current"), RENAMED)
def test_former_names_work_in_every_way_to_configure_a_solver(
    name: str, former: dict[str, Any], current: dict[str, Any]
) -> None:
    expected = registry.get(name, **current)
    cls = registry.load(name)
    told = f"{name}: .*{next(iter(former))}"
    with pytest.warns(RetiredOptionWarning, match=told):
        assert cls(**former) == expected
    with pytest.warns(RetiredOptionWarning, match=told):
        assert registry.get(name, **former) == expected
    with pytest.warns(RetiredOptionWarning, match=told):
        assert registry.get(cls(), **former) == expected


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="'n_y' is the former name of 'outputs'"):
        pf.solve(pf.Problem([[2, 1], [1, 3]]), disclosure=0.1, solver="aem", n_y=3, outputs=3)


def test_todays_names_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pf.AEM(outputs=4).outputs == 4
        assert pf.DRS(time_limit=math.inf).time_limit == math.inf
