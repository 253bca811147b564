"""Deep and continuous funnels: variational and adversarial methods for data that no table holds.

Every method of :mod:`privfunnel.deep.methods` is an objective from its paper, over stacked networks that
:func:`privfunnel.deep.trainer.train` trains for many multipliers and seeds at once. What a learnt encoder really
discloses and leaks is measured by others than itself: :mod:`privfunnel.deep.exact` by enumeration where X has finitely
many values. Needs PyTorch: ``pip install 'privfunnel[deep]'``.
"""

from privfunnel.deep.codes import Code, DiscreteCode, GaussianCode, LaplaceCode, RecordCode
from privfunnel.deep.layout import Layout
from privfunnel.deep.methods import METHODS, Method, Variables
from privfunnel.deep.trainer import Rows, Schedule, Trained, train

__all__ = [
    "METHODS",
    "Code",
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
    "train",
]
