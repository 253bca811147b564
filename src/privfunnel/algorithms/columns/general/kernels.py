"""What guarded searches compile, or read from numba's cache: no time limit should pay for that."""

from __future__ import annotations

import functools

import numpy as np

from privfunnel.algorithms.columns.general.box_relaxation import Pricing, new_work
from privfunnel.algorithms.columns.general.compiled_branching import advance, search
from privfunnel.algorithms.columns.general.images import Images
from privfunnel.algorithms.columns.general.random_descents import descend_all
from privfunnel.algorithms.deadline import NEVER


@functools.cache
def load_kernels() -> None:
    """Search a table of two symbols, where searches are compiled."""
    if not hasattr(advance, "py_func"):
        return
    ends = np.array([0, 2], dtype=np.int64)
    images = Images(np.array([[0.9, 0.1], [0.1, 0.9]]), ends, np.arange(2, dtype=np.int64), ends)
    pricing = Pricing(images, np.zeros(2), 0.1)
    search(pricing, 1.0, np.ones(2), -1.0, 10, NEVER)
    descend_all(pricing, 1.0, np.full((1, 2), 0.5), 0.0, 1, new_work(2, 2, 1))
