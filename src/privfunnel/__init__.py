"""privfunnel: privacy funnels, proved optimal, from a table to a release.

Given private S and public X, a privacy funnel is a random mapping X → Y that keeps I(X;Y) ≥ R and leaks as little
I(S;Y) as possible::

    import privfunnel as pf

    problem = pf.instances.load("heart-failure")
    curve = pf.trace(problem)                 # the curve with a proved lower bound, in nats
    solution = pf.solve(problem, disclosure=1.8)

Solvers are available by name (``solver="aem"``) and as frozen dataclasses (``pf.AEM(restarts=30)``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from privfunnel.comparison import Comparison, compare
from privfunnel.curve import Curve, trace
from privfunnel.errors import PrivFunnelError, PrivFunnelWarning
from privfunnel.problem import Point, Problem
from privfunnel.solution import Solution, Status, kkt_residual
from privfunnel.solvers.registry import SOLVERS
from privfunnel.solving import solve

if TYPE_CHECKING:
    from privfunnel import instances
    from privfunnel.solvers.aem import AEM

__version__ = "0.1.0"

__all__ = [
    "AEM",
    "Comparison",
    "Curve",
    "Point",
    "PrivFunnelError",
    "PrivFunnelWarning",
    "Problem",
    "Solution",
    "Status",
    "__version__",
    "compare",
    "instances",
    "kkt_residual",
    "solve",
    "trace",
]

#: Parts that are loaded when they are first used, so that starting the command line stays quick.
_LAZY_MODULES = ("bottleneck", "estimator", "explorer", "instances", "measures", "mechanism", "plot", "release",
                 "report", "tables", "audit", "errors")  # fmt: skip
_LAZY_CLASSES = {"Mechanism": "privfunnel.mechanism", "PrivacyFunnel": "privfunnel.estimator"}
_SOLVER_CLASSES = {attribute: module for module, attribute in SOLVERS.values()}


def __getattr__(name: str) -> Any:
    if name in _SOLVER_CLASSES or name in _LAZY_CLASSES:
        return getattr(importlib.import_module((_SOLVER_CLASSES | _LAZY_CLASSES)[name]), name)
    if name in _LAZY_MODULES:
        return importlib.import_module(f"privfunnel.{name}")
    raise AttributeError(f"module 'privfunnel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SOLVER_CLASSES, *_LAZY_CLASSES, *_LAZY_MODULES})
