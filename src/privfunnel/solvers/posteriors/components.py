"""The components of a problem: S and X fall into parts where the bipartite graph of p(s, x) does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import components, rivalry
from privfunnel.measures import Array
from privfunnel.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One component: its symbols, its p(s|x), the transpose the kernels want, and when symbols exclude each other."""

    x: NDArray[np.intp]
    p_s_given_x: Array
    columns: Array
    mass: float
    rivalry: Array


def split_problem(problem: Problem) -> list[Part]:
    """The components of a problem."""
    parts = []
    for s, x in components(problem.p_s_given_x):
        p = np.ascontiguousarray(problem.p_s_given_x[np.ix_(s, x)])
        columns = np.ascontiguousarray(p.T)
        mass = float(problem.p_x[x].sum())
        parts.append(Part(x=x, p_s_given_x=p, columns=columns, mass=mass, rivalry=rivalry(columns)))
    return parts
