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

from privfunnel._version import __version__
from privfunnel.errors import PrivFunnelError, PrivFunnelWarning

if TYPE_CHECKING:  # what type checkers and editors see; a test compares it with what there is
    # isort: off
    from privfunnel import (
        attackers as attackers,
        audit as audit,
        bottleneck as bottleneck,
        cards as cards,
        certificate as certificate,
        channels as channels,
        chi_squared_funnel as chi_squared_funnel,
        comparison as comparison,
        curve as curve,
        decoys as decoys,
        deep as deep,
        distortion as distortion,
        engines as engines,
        envelope as envelope,
        errors as errors,
        estimator as estimator,
        explorer as explorer,
        gaussian as gaussian,
        guessing_funnel as guessing_funnel,
        inertia as inertia,
        instances as instances,
        ledger as ledger,
        measures as measures,
        mechanism as mechanism,
        noise as noise,
        plot as plot,
        population as population,
        problem as problem,
        quantities as quantities,
        release as release,
        repeated as repeated,
        report as report,
        reproduce as reproduce,
        sequels as sequels,
        solution as solution,
        solvers as solvers,
        solving as solving,
        storage as storage,
        tables as tables,
        tracing as tracing,
        watching as watching,
        worst_case as worst_case,
    )

    # isort: on
    from privfunnel.certificate.answer import Status
    from privfunnel.comparison import Comparison, compare
    from privfunnel.curve import Curve
    from privfunnel.estimator import PrivacyFunnel
    from privfunnel.free import free_disclosure, free_disclosure_bounds
    from privfunnel.kkt import kkt_residual
    from privfunnel.mechanism import Mechanism
    from privfunnel.problem import Point, Problem
    from privfunnel.question import Question
    from privfunnel.repeated import joint_leakage
    from privfunnel.request import Request
    from privfunnel.sequels import sequel
    from privfunnel.solution import Solution
    from privfunnel.solvers.aem import AEM
    from privfunnel.solvers.auto import Auto
    from privfunnel.solvers.binary.solver import Binary
    from privfunnel.solvers.controls import RandomMaps, RandomStarts
    from privfunnel.solvers.dca import DCA, RepairedDCA
    from privfunnel.solvers.drs import DRS, RepairedDRS
    from privfunnel.solvers.global_ import Global
    from privfunnel.solvers.merging.columns import Generalisation, Suppression
    from privfunnel.solvers.merging.deterministic import Deterministic
    from privfunnel.solvers.merging.greedy import Greedy
    from privfunnel.solvers.merging.submodular import Submodular
    from privfunnel.solvers.nlp.ipopt import IPOPT
    from privfunnel.solvers.nlp.slsqp import SLSQP
    from privfunnel.solvers.perfect import Perfect
    from privfunnel.solvers.sdp import SDP
    from privfunnel.solving.point import solve
    from privfunnel.tracing import trace

__all__ = [
    "AEM",
    "DCA",
    "DRS",
    "IPOPT",
    "SDP",
    "SLSQP",
    "Auto",
    "Binary",
    "Comparison",
    "Curve",
    "Deterministic",
    "Generalisation",
    "Global",
    "Greedy",
    "Mechanism",
    "Perfect",
    "Point",
    "PrivFunnelError",
    "PrivFunnelWarning",
    "PrivacyFunnel",
    "Problem",
    "Question",
    "RandomMaps",
    "RandomStarts",
    "RepairedDCA",
    "RepairedDRS",
    "Request",
    "Solution",
    "Status",
    "Submodular",
    "Suppression",
    "__version__",
    "compare",
    "free_disclosure",
    "free_disclosure_bounds",
    "instances",
    "joint_leakage",
    "kkt_residual",
    "sequel",
    "solve",
    "trace",
]

# Whatever needs a numerical library is loaded when it is first used (PEP 562), so that the command line starts quickly.

#: Public name to the module that defines it; the solvers' classes come from the registry.
_NAMES = {
    "Comparison": "comparison",
    "Curve": "curve",
    "Mechanism": "mechanism",
    "Point": "problem",
    "PrivacyFunnel": "estimator",
    "Problem": "problem",
    "Question": "question",
    "Request": "request",
    "Solution": "solution",
    "Status": "certificate.answer",
    "compare": "comparison",
    "free_disclosure": "free",
    "free_disclosure_bounds": "free",
    "joint_leakage": "repeated",
    "kkt_residual": "kkt",
    "sequel": "sequels",
    "solve": "solving.point",
    "trace": "tracing",
}
#: Modules that are attributes of the package without having been imported.
_MODULES = (
    "attackers", "audit", "bottleneck", "cards", "certificate", "channels", "chi_squared_funnel", "comparison",
    "curve", "decoys", "deep", "distortion", "engines", "envelope", "errors", "estimator", "explorer", "gaussian",
    "guessing_funnel", "inertia", "instances", "ledger", "measures", "mechanism", "noise", "plot", "population",
    "problem", "quantities", "release", "repeated", "report", "reproduce", "sequels", "solution", "solvers",
    "solving", "storage", "tables", "tracing", "watching", "worst_case",
)  # fmt: skip


if not TYPE_CHECKING:  # there, a name that is missing is an error

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of a module is not worth loading the registry for
            raise AttributeError(f"module 'privfunnel' has no attribute {name!r}")
        if name in _MODULES:
            return importlib.import_module(f"privfunnel.{name}")
        module = f"privfunnel.{_NAMES[name]}" if name in _NAMES else _solver_classes().get(name)
        if module is None:
            raise AttributeError(f"module 'privfunnel' has no attribute {name!r}")
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value  # found without this function from now on
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


def _solver_classes() -> dict[str, str]:
    """Name of each solver's class to the module that defines it."""
    from privfunnel.solvers.registry import SOLVERS

    return {attribute: module for module, attribute in SOLVERS.values()}
