"""The names of the solvers, each loaded when it is first asked for."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from typing import Any

from privfunnel.errors import InvalidInputError
from privfunnel.solvers.base import Solver

#: name → (module, class). The class is also an attribute of the package: ``privfunnel.AEM``.
SOLVERS: dict[str, tuple[str, str]] = {
    "auto": ("privfunnel.solvers.auto", "Auto"),
    "global": ("privfunnel.solvers.global_", "Global"),
    "binary": ("privfunnel.solvers.binary.solver", "Binary"),
    "perfect": ("privfunnel.solvers.perfect", "Perfect"),
    "aem": ("privfunnel.solvers.aem", "AEM"),
    "drs": ("privfunnel.solvers.drs", "DRS"),
    "drs-repaired": ("privfunnel.solvers.drs", "RepairedDRS"),
    "dca": ("privfunnel.solvers.dca", "DCA"),
    "dca-repaired": ("privfunnel.solvers.dca", "RepairedDCA"),
    "greedy": ("privfunnel.solvers.merging.greedy", "Greedy"),
    "submodular": ("privfunnel.solvers.merging.submodular", "Submodular"),
    "deterministic": ("privfunnel.solvers.merging.deterministic", "Deterministic"),
    "sdp": ("privfunnel.solvers.sdp", "SDP"),
    "suppression": ("privfunnel.solvers.merging.columns", "Suppression"),
    "generalisation": ("privfunnel.solvers.merging.columns", "Generalisation"),
    "slsqp": ("privfunnel.solvers.nlp.slsqp", "SLSQP"),
    "ipopt": ("privfunnel.solvers.nlp.ipopt", "IPOPT"),
    "control-maps": ("privfunnel.solvers.controls", "RandomMaps"),
    "control-starts": ("privfunnel.solvers.controls", "RandomStarts"),
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
