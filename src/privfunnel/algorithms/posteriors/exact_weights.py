"""Weights of posteriors whose mixture is p(x) to rounding, not to the tolerance of a linear program."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from privfunnel.measures import Array

#: Up to this many public symbols the equations are solved by a dense decomposition, which also sees their rank;
DENSE_SYMBOLS = 300
#: beyond, so often by sparse normal equations, with this added to their diagonal.
CORRECTIONS, RIDGE = 3, 1e-13


def corrected(posteriors: Array, weights: Array, p_x: Array) -> Array:
    """Weights (n,) near those given, of posteriors (n, M) with few symbols each, whose mixture is p_x (M,).

    What is missing of p(x) is solved for by the normal equations, and again for what their rounding leaves. The time
    grows with the entries of the posteriors, where a dense decomposition takes minutes for thousands of symbols. Where
    there are no such weights, the mixture is as near as the posteriors allow.
    """
    rows = sparse.csr_array(posteriors)
    squares = sparse.csc_array(rows @ rows.T + RIDGE * sparse.eye_array(len(weights)))
    factored = splu(squares)
    for _ in range(CORRECTIONS):
        weights = weights + factored.solve(np.asarray(rows @ (p_x - rows.T @ weights)))
    return weights
