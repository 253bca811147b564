"""The names of the solvers, each loaded when it is first asked for."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from typing import Any

from privfunnel.algorithms.base import Solver
from privfunnel.errors import InvalidInputError

#: name → (module, class). The class is also an attribute of the package: ``privfunnel.AEM``.
SOLVERS: dict[str, tuple[str, str]] = {
    "auto": ("privfunnel.algorithms.auto", "Auto"),
    "global": ("privfunnel.algorithms.columns.plain", "Global"),
    "binary": ("privfunnel.algorithms.binary.solver", "Binary"),
    "perfect": ("privfunnel.algorithms.perfect", "Perfect"),
    "aem": ("privfunnel.algorithms.aem", "AEM"),
    "drs": ("privfunnel.algorithms.drs", "DRS"),
    "drs-repaired": ("privfunnel.algorithms.drs", "RepairedDRS"),
    "dca": ("privfunnel.algorithms.dca", "DCA"),
    "dca-repaired": ("privfunnel.algorithms.dca", "RepairedDCA"),
    "greedy": ("privfunnel.algorithms.merging.greedy", "Greedy"),
    "submodular": ("privfunnel.algorithms.merging.submodular", "Submodular"),
    "deterministic": ("privfunnel.algorithms.merging.deterministic", "Deterministic"),
    "sdp": ("privfunnel.neighbours.sdp", "SDP"),
    "suppression": ("privfunnel.neighbours.column_baselines", "Suppression"),
    "generalisation": ("privfunnel.neighbours.column_baselines", "Generalisation"),
    "slsqp": ("privfunnel.algorithms.nlp.slsqp", "SLSQP"),
    "ipopt": ("privfunnel.algorithms.nlp.ipopt", "IPOPT"),
    "control-maps": ("privfunnel.studies.random_baselines", "RandomMaps"),
    "control-starts": ("privfunnel.studies.random_baselines", "RandomStarts"),
}
#: What :func:`privfunnel.solve` and :func:`privfunnel.trace` take besides: what a wrong option may mean.
PARAMETERS = (
    "problem", "disclosure", "leakage", "utility", "distortion", "costs", "invariant", "points", "disclosures",
    "refine", "along", "utilities", "distortions", "also",
    "known", "published", "guarantees", "measure", "solver", "seed", "throw", "progress", "lump",
)  # fmt: skip


def names() -> tuple[str, ...]:
    """Names of all solvers."""
    return tuple(SOLVERS)


def load(name: str) -> type[Solver]:
    """The class behind a solver's name."""
    if name not in SOLVERS:
        close = difflib.get_close_matches(name, SOLVERS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InvalidInputError(f"unknown solver {name!r}: {hint}choose one of {', '.join(SOLVERS)}")
    module, attribute = SOLVERS[name]
    solver: type[Solver] = getattr(importlib.import_module(module), attribute)
    return solver


def get(solver: str | Solver, **options: Any) -> Solver:
    """The solver of that name with these options, or the given solver with these options replaced."""
    if isinstance(solver, Solver):
        _check_options(type(solver), options)
        return dataclasses.replace(solver, **options)
    if not isinstance(solver, str):
        raise InvalidInputError(
            f"solver={solver!r} is neither a name nor a solver: choose one of {', '.join(SOLVERS)}"
        )
    cls = load(solver)
    _check_options(cls, options)
    return cls(**options)


def _check_options(cls: type[Solver], options: dict[str, Any]) -> None:
    known = {field.name for field in dataclasses.fields(cls)}
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, {*known, *PARAMETERS} - {option}, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidInputError(
                f"solver {cls.name!r} has no option {option!r}: {hint}its options are {listed}"
            )
