"""Compile the kernels that most runs need, so that the tests, which run in several processes, find them in the cache.

    python scripts/compile_kernels.py

Nothing has to be compiled ahead: whatever is not in the cache is compiled when it is first needed.
"""

from __future__ import annotations

import warnings

import privfunnel as pf
from privfunnel.solvers.global_ import cliqued, supported
from privfunnel.solvers.guarded import kernels as guarded_kernels


def main() -> None:
    """Solve small problems of each kind that has kernels of its own."""
    warnings.simplefilter("ignore")
    heart, pair = pf.instances.load("heart-failure"), pf.Problem([[5, 1, 2, 4], [1, 6, 3, 4]])
    pf.trace(heart, points=4)
    pf.solve(heart, leakage=0.02)
    pf.solve(pair, disclosure=0.8 * pair.disclosure_ceiling, solver="binary")
    for accelerate in (True, False):
        pf.solve(heart, disclosure=1.5, solver=pf.AEM(restarts=2, max_steps=5, accelerate=accelerate))
    known = next(iter(heart.public_columns))
    pf.solve(heart, disclosure=0.9 * heart.disclosure_ceiling, known=[known])
    guarded_kernels.load_kernels()
    supported.load_kernels()
    cliqued.load_kernels()
    print("the kernels are compiled")


if __name__ == "__main__":
    main()
