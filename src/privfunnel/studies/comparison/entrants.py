"""Who takes part in a comparison, under which label and with which settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import Document
from privfunnel.studies.comparison.neighbours import METHODS, Neighbour

#: Methods that are shown as their authors ship them and repaired: what their published settings are called. The
#: repaired variants have names of their own in the registry.
PUBLISHED: dict[str, dict[str, Document]] = {
    "drs": {"drs-published": {}},
    "dca": {"dca-published": {}, "dca-sparse": {"penalty": "sparse"}},
}
#: Deep methods, trained on the table (extra ``deep``): label to form. They take part where they are asked for.
DEEP = {
    f"deep-{form}": form
    for form in ("vpaf", "club-p1", "club-p3", "dvpf-upper", "dvpf-lower", "dca", "ppan", "alr")
}
#: Whose proofs a comparison rests on where nobody else proves.
REFERENCE = "auto"


def labels() -> dict[str, tuple[str, dict[str, Any]]]:
    """Label → (solver, options) of everybody who takes part by default.

    That is every registered solver but a second prover, and the methods for the funnel's neighbours
    (:mod:`.neighbours`). Where an option is not named a method keeps its defaults, which are its authors' settings.
    """
    found: dict[str, tuple[str, Document]] = {}
    for name in registry.names():
        if name in PUBLISHED:
            found |= {label: (name, options) for label, options in PUBLISHED[name].items()}
        elif name == REFERENCE or not registry.load(name).proves:
            found[name] = (name, {})
    return found | {method: (Neighbour.name, {"method": method}) for method in METHODS}


def lineup(solvers: Iterable[str | Solver] | Mapping[str, str | Solver] | None = None) -> dict[str, Solver]:
    """Solvers by label.

    Args:
        solvers: Labels (:func:`labels`, :data:`DEEP`), names of the registry (``"drs"`` stands for all its variants),
            solver objects, or a mapping from labels of your own to names or objects. None for everybody of ``labels``.

    Returns:
        Label → solver.
    """
    if solvers is None:
        solvers = tuple(labels())
    if isinstance(solvers, str):
        solvers = (solvers,)
    if isinstance(solvers, Mapping):
        return {str(label): registry.get(solver) for label, solver in solvers.items()}
    chosen: dict[str, Solver] = {}
    for solver in solvers:
        for label, entrant in _expand(solver):
            if label in chosen:
                raise InvalidInputError(
                    f"two solvers are called {label!r}: give a mapping from labels of your own to solvers"
                )
            chosen[label] = entrant
    if not chosen:
        raise InvalidInputError(f"no solver was given: choose among {', '.join(labels())}")
    return chosen


def _expand(solver: str | Solver) -> list[tuple[str, Solver]]:
    """The labelled solvers that one entry of a request stands for."""
    if isinstance(solver, Solver):
        return [(f"{solver.name}-published" if solver.name in PUBLISHED else solver.name, solver)]
    known = labels()
    if solver in known:
        name, options = known[solver]
        return [(solver, Neighbour(**options) if name == Neighbour.name else registry.get(name, **options))]
    if solver in PUBLISHED:
        return [item for label in known if label.startswith(f"{solver}-") for item in _expand(label)]
    if solver in registry.names():
        return [(solver, registry.get(solver))]
    if solver in DEEP:
        need("torch", "deep")
        from privfunnel.learning.deep.entrant import DeepSweep

        return [(solver, DeepSweep(form=DEEP[solver]))]
    names = sorted({*known, *registry.names(), *DEEP})
    close = difflib.get_close_matches(str(solver), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise InvalidInputError(f"unknown solver {solver!r}: {hint}choose among {', '.join(names)}")
