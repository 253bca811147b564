"""Deep and continuous funnels: variational and adversarial methods for data that no table holds.

    >>> from privfunnel import deep
    >>> model = deep.CLUB(strength=2.0).fit(X, s)            # doctest: +SKIP
    >>> codes = model.transform(X_new)                       # doctest: +SKIP
    >>> deep.judge.judge(codes, s_new).words                 # doctest: +SKIP

Every method of :mod:`privfunnel.learning.deep.methods` is an objective from its paper, over stacked networks that
:func:`privfunnel.learning.deep.trainer.train` trains for many multipliers and seeds at once; :func:`sweep` does so for
the estimators. What a learnt encoder really discloses and leaks is measured by others than itself: :mod:`.judge` lets
attackers try, :mod:`.exact` enumerates where X has finitely many values. Needs PyTorch: ``pip install
'privfunnel[deep]'``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from privfunnel.learning.deep.codes import Code, DiscreteCode, GaussianCode, LaplaceCode, RecordCode
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods import METHODS, Method, Variables
from privfunnel.learning.deep.trainer import Rows, Schedule, Trained, train

if TYPE_CHECKING:
    from privfunnel.learning.deep import judge
    from privfunnel.learning.deep.estimator import DeepFunnel, load, sweep
    from privfunnel.learning.deep.estimators import ALR, CLUB, DCA, DVPF, PPAN, VPAF

__all__ = [
    "ALR",
    "CLUB",
    "DCA",
    "DVPF",
    "METHODS",
    "PPAN",
    "VPAF",
    "Code",
    "DeepFunnel",
    "DiscreteCode",
    "GaussianCode",
    "LaplaceCode",
    "Layout",
    "Method",
    "RecordCode",
    "Rows",
    "Schedule",
    "Trained",
    "Variables",
    "judge",
    "load",
    "sweep",
    "train",
]

#: Where the names are that need scikit-learn; training does without it.
_LATER = {
    **dict.fromkeys(("ALR", "CLUB", "DCA", "DVPF", "PPAN", "VPAF"), "estimators"),
    **dict.fromkeys(("DeepFunnel", "load", "sweep"), "estimator"),
}
_MODULES = ("closed_forms", "columns", "data", "estimator", "estimators", "exact", "judge")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"privfunnel.learning.deep.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'privfunnel.learning.deep' has no attribute {name!r}")
    return getattr(importlib.import_module(f"privfunnel.learning.deep.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
