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

import importlib.util
from typing import TYPE_CHECKING, Any

from privfunnel._version import __version__
from privfunnel.errors import PrivFunnelError, PrivFunnelWarning

if TYPE_CHECKING:  # what type checkers and editors see; a test compares it with what there is
    # isort: off
    from privfunnel import (
        algorithms as algorithms,
        audit as audit,
        certificate as certificate,
        errors as errors,
        measures as measures,
        release as release,
        report as report,
        solving as solving,
    )
    from privfunnel.app import (
        explorer as explorer,
    )
    from privfunnel.data import (
        engines as engines,
        instances as instances,
        noise as noise,
        population as population,
        tables as tables,
    )
    from privfunnel.infra import (
        cards as cards,
        storage as storage,
        watching as watching,
    )
    from privfunnel.learning import (
        deep as deep,
        estimator as estimator,
    )
    from privfunnel.model import (
        attackers as attackers,
        channels as channels,
        envelope as envelope,
        problem as problem,
        amounts as amounts,
    )
    from privfunnel.neighbours import (
        bottleneck as bottleneck,
        chi_squared_funnel as chi_squared_funnel,
        gaussian as gaussian,
        guessing_funnel as guessing_funnel,
        inertia as inertia,
        worst_case as worst_case,
    )
    from privfunnel.release import (
        decoys as decoys,
        distortion as distortion,
        ledger as ledger,
        mechanism as mechanism,
        repeated as repeated,
        sequels as sequels,
    )
    from privfunnel.report import (
        plot as plot,
    )
    from privfunnel.solving import (
        curve as curve,
        solution as solution,
        tracing as tracing,
    )
    from privfunnel.studies import (
        comparison as comparison,
        reproduce as reproduce,
    )

    # isort: on
    from privfunnel.algorithms.aem import AEM
    from privfunnel.algorithms.auto import Auto
    from privfunnel.algorithms.binary.solver import Binary
    from privfunnel.algorithms.columns.plain import Global
    from privfunnel.algorithms.dca import DCA, RepairedDCA
    from privfunnel.algorithms.drs import DRS, RepairedDRS
    from privfunnel.algorithms.merging.deterministic import Deterministic
    from privfunnel.algorithms.merging.greedy import Greedy
    from privfunnel.algorithms.merging.submodular import Submodular
    from privfunnel.algorithms.nlp.ipopt import IPOPT
    from privfunnel.algorithms.nlp.slsqp import SLSQP
    from privfunnel.algorithms.perfect import Perfect
    from privfunnel.certificate.answer import Status
    from privfunnel.learning.estimator import PrivacyFunnel
    from privfunnel.model.problem import Point, Problem
    from privfunnel.model.question import Question
    from privfunnel.model.stationarity import kkt_residual
    from privfunnel.neighbours.column_baselines import Generalisation, Suppression
    from privfunnel.neighbours.sdp import SDP
    from privfunnel.release.mechanism import Mechanism
    from privfunnel.release.repeated import joint_leakage
    from privfunnel.release.sequels import sequel
    from privfunnel.solving.curve import Curve
    from privfunnel.solving.free_disclosure import free_disclosure, free_disclosure_bounds
    from privfunnel.solving.point import solve
    from privfunnel.solving.request import Request
    from privfunnel.solving.solution import Solution
    from privfunnel.solving.tracing import trace
    from privfunnel.studies.comparison import Comparison, compare
    from privfunnel.studies.random_baselines import RandomMaps, RandomStarts

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
    "Comparison": "studies.comparison",
    "Curve": "solving.curve",
    "Mechanism": "release.mechanism",
    "Point": "model.problem",
    "PrivacyFunnel": "learning.estimator",
    "Problem": "model.problem",
    "Question": "model.question",
    "Request": "solving.request",
    "Solution": "solving.solution",
    "Status": "certificate.answer",
    "compare": "studies.comparison",
    "free_disclosure": "solving.free_disclosure",
    "free_disclosure_bounds": "solving.free_disclosure",
    "joint_leakage": "release.repeated",
    "kkt_residual": "model.stationarity",
    "sequel": "release.sequels",
    "solve": "solving.point",
    "trace": "solving.tracing",
}
#: Modules that are attributes of the package without having been imported, and where they are.
_MODULES = {
    "amounts": "model.amounts",
    "algorithms": "algorithms",
    "attackers": "model.attackers",
    "audit": "audit",
    "bottleneck": "neighbours.bottleneck",
    "cards": "infra.cards",
    "certificate": "certificate",
    "channels": "model.channels",
    "chi_squared_funnel": "neighbours.chi_squared_funnel",
    "comparison": "studies.comparison",
    "curve": "solving.curve",
    "decoys": "release.decoys",
    "deep": "learning.deep",
    "distortion": "release.distortion",
    "engines": "data.engines",
    "envelope": "model.envelope",
    "errors": "errors",
    "estimator": "learning.estimator",
    "explorer": "app.explorer",
    "gaussian": "neighbours.gaussian",
    "guessing_funnel": "neighbours.guessing_funnel",
    "inertia": "neighbours.inertia",
    "instances": "data.instances",
    "ledger": "release.ledger",
    "measures": "measures",
    "mechanism": "release.mechanism",
    "noise": "data.noise",
    "plot": "report.plot",
    "population": "data.population",
    "problem": "model.problem",
    "release": "release",
    "repeated": "release.repeated",
    "report": "report",
    "reproduce": "studies.reproduce",
    "sequels": "release.sequels",
    "solution": "solving.solution",
    "solving": "solving",
    "storage": "infra.storage",
    "tables": "data.tables",
    "tracing": "solving.tracing",
    "watching": "infra.watching",
    "worst_case": "neighbours.worst_case",
}


#: Packages without which a module cannot be imported.
_NEEDED = {"deep": "torch"}

if not TYPE_CHECKING:  # there, a name that is missing is an error

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of a module is not worth loading the registry for
            raise AttributeError(f"module 'privfunnel' has no attribute {name!r}")
        if name in _MODULES:
            return importlib.import_module(f"privfunnel.{_MODULES[name]}")
        module = f"privfunnel.{_NAMES[name]}" if name in _NAMES else _solver_classes().get(name)
        if module is None:
            raise AttributeError(f"module 'privfunnel' has no attribute {name!r}")
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value  # found without this function from now on
        return value


def __dir__() -> list[str]:
    # What cannot be had here is not offered: help() and editors ask for all that is listed.
    missing = {name for name, package in _NEEDED.items() if importlib.util.find_spec(package) is None}
    return sorted({*__all__, *_MODULES} - missing)


def _solver_classes() -> dict[str, str]:
    """Name of each solver's class to the module that defines it."""
    from privfunnel.algorithms.registry import SOLVERS

    return {attribute: module for module, attribute in SOLVERS.values()}
