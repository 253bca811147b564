"""The components of a problem: S and X fall into parts where the bipartite graph of p(s, x) does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import components
from privfunnel.measures import Array
from privfunnel.model.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One component C = c.

    Attributes:
        x: Its public symbols, shape (M_c,).
        p_sx: p(s,x) of these and its private symbols, which sum to the mass, shape (K_c, M_c).
        p_s_given_x: P of these and its private symbols, shape (K_c, M_c).
        columns: Pᵀ, C-contiguous, which the kernels want.
        mass: p(c).
    """

    x: NDArray[np.intp]
    p_sx: Array
    p_s_given_x: Array
    columns: Array
    mass: float


def split_problem(problem: Problem) -> list[Part]:
    """The components of a problem."""
    parts = []
    for s, x in components(problem.p_s_given_x):
        p = np.ascontiguousarray(problem.p_s_given_x[np.ix_(s, x)])
        columns = np.ascontiguousarray(p.T)
        mass = float(problem.p_x[x].sum())
        p_sx = problem.p_sx[np.ix_(s, x)]
        parts.append(Part(x=x, p_sx=p_sx, p_s_given_x=p, columns=columns, mass=mass))
    return parts
