"""Options by their former names: still understood, with a warning that says today's."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import pytest
from click.testing import CliRunner

import privfunnel as pf
from privfunnel.cli import main
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
    ("drs", {"runs": 3}, {"restarts": 3}),
    ("drs", {"penalty": None}, {}),
    ("drs", {"runs": None}, {}),
    ("drs-repaired", {"step": 1e-3}, {}),
    ("dca", {"runs": 3}, {"restarts": 3}),
    ("dca", {"alphas": None}, {}),
    ("dca-repaired", {"penalty": "sparse"}, {}),
    ("submodular", {"starts": 5}, {"restarts": 5}),
    ("submodular", {"slopes": None}, {}),
    ("control-maps", {"runs": 9}, {"restarts": 9}),
    ("control-starts", {"runs": 9}, {"restarts": 9}),
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


@pytest.mark.parametrize("name", ["drs", "dca"])
def test_the_variant_of_a_method_is_a_class_of_its_own(name: str) -> None:
    published, repaired = registry.load(name), registry.load(f"{name}-repaired")
    with pytest.warns(RetiredOptionWarning, match=f"is now the solver '{name}-repaired'"):
        assert published(variant="repaired") == repaired()
    with pytest.warns(RetiredOptionWarning, match=f"is now the solver '{name}'"):
        assert registry.get(name, variant="published", restarts=3) == published(restarts=3)
    with pytest.warns(RetiredOptionWarning) as told:
        assert registry.get(name, variant="repaired", runs=3) == repaired(restarts=3)
    assert len(told) == 2
    with pytest.raises(
        InvalidInputError, match="variant='mine' is not known: choose 'published' or 'repaired'"
    ):
        published(variant="mine")
    with (
        pytest.warns(RetiredOptionWarning),
        pytest.raises(InvalidInputError, match=f"cannot become '{name}-repaired'"),
    ):
        registry.get(published(), variant="repaired")


def test_the_command_line_understands_former_names() -> None:
    arguments = ["solve", "synthetic-uniform", "--disclosure", "40%", "--solver", "control-maps", "--json"]
    former = CliRunner().invoke(main, [*arguments, "--option", "runs=50"])
    current = CliRunner().invoke(main, [*arguments, "--option", "restarts=50"])
    assert current.exit_code == former.exit_code == 0
    assert former.stderr == "warning: control-maps: the option 'runs' is now called 'restarts'\n"
    assert json.loads(former.stdout)["channel"] == json.loads(current.stdout)["channel"]


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="'n_y' is the former name of 'outputs'"):
        pf.solve(pf.Problem([[2, 1], [1, 3]]), disclosure=0.1, solver="aem", n_y=3, outputs=3)


def test_todays_names_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pf.AEM(outputs=4).outputs == 4
        assert pf.DRS(time_limit=math.inf).time_limit == math.inf
