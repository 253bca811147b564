"""Who takes part in a comparison, under which label and with which settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from privfunnel.errors import InvalidInputError
from privfunnel.solvers import registry
from privfunnel.solvers.base import Solver

#: Label → (solver, options). Methods with a published and a repaired variant take part twice, labelled apart. Where an
#: option is not named a method keeps its defaults, which are its authors' settings.
LINEUP: dict[str, tuple[str, dict[str, object]]] = {
    "auto": ("auto", {}),
    "aem": ("aem", {}),
    "drs-published": ("drs", {"variant": "published"}),
    "drs-repaired": ("drs-repaired", {}),
    "dca-published": ("dca", {"variant": "published"}),
    "dca-sparse": ("dca", {"variant": "published", "penalty": "sparse"}),
    "dca-repaired": ("dca-repaired", {}),
    "greedy": ("greedy", {}),
    "submodular": ("submodular", {}),
    "deterministic": ("deterministic", {}),
    "slsqp": ("slsqp", {}),
    "ipopt": ("ipopt", {}),
    "control-maps": ("control-maps", {}),
    "control-starts": ("control-starts", {}),
}

#: Methods with variants: their plain name stands for all of them.
_VARIANTS = ("drs", "dca")


def lineup(solvers: Iterable[str | Solver] | Mapping[str, str | Solver] | None = None) -> dict[str, Solver]:
    """Solvers by label.

    Args:
        solvers: Labels of :data:`LINEUP`, names of the registry (``"drs"`` stands for all its variants), solver
            objects, or a mapping from labels of your own to names or objects. None for the whole line-up.

    Returns:
        Label → solver.
    """
    if solvers is None:
        solvers = tuple(LINEUP)
    if isinstance(solvers, str):
        solvers = (solvers,)
    if isinstance(solvers, Mapping):
        return {str(label): registry.get(solver) for label, solver in solvers.items()}
    chosen: dict[str, Solver] = {}
    for solver in solvers:
        for label, engine in _expand(solver):
            if label in chosen:
                raise InvalidInputError(
                    f"two solvers are called {label!r}: give a mapping from labels of your own to solvers"
                )
            chosen[label] = engine
    if not chosen:
        raise InvalidInputError(f"no solver was given: choose among {', '.join(LINEUP)}")
    return chosen


def _expand(solver: str | Solver) -> list[tuple[str, Solver]]:
    """The labelled solvers that one entry of a request stands for."""
    if isinstance(solver, Solver):
        return [(f"{solver.name}-published" if solver.name in _VARIANTS else solver.name, solver)]
    if solver in LINEUP:
        name, options = LINEUP[solver]
        return [(solver, registry.get(name, **options))]
    if solver in _VARIANTS:
        return [item for label in LINEUP if label.startswith(f"{solver}-") for item in _expand(label)]
    if solver in registry.names():
        return [(solver, registry.get(solver))]
    known = sorted({*LINEUP, *registry.names()})
    close = difflib.get_close_matches(str(solver), known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise InvalidInputError(f"unknown solver {solver!r}: {hint}choose among {', '.join(known)}")
