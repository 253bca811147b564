"""The information bottleneck, the funnel's dual: most I(S;Y) for at most R nats of I(X;Y).

Same :class:`~privfunnel.model.problem.Problem`, same channel X → Y, opposite wish: S is what the release should tell,
and I(X;Y) is the rate it may cost. Three methods: the Blahut-Arimoto iteration of Tishby, Pereira and Bialek
(:mod:`.blahut_arimoto`), which needs a multiplier β, the slope of the curve being ``1/β``; ABP (:mod:`.abp`), which
takes a rate or a relevance as it is; and agglomerative merging (:mod:`.agglomerative`), a baseline. Points between
two answers are reached by time sharing. The curve is concave and lies between the funnel's and ``min(R, I(S;X))``;
:func:`prove` and ``trace(certify=True)`` give a proved bound that meets it (:mod:`.proving`).

    >>> import privfunnel as pf
    >>> problem = pf.Problem([[0.4, 0.1], [0.1, 0.4]])
    >>> round(pf.bottleneck.solve(problem, rate=0.3).leakage, 4)
    0.1001
    >>> proved = pf.bottleneck.prove(problem, 0.3)
    >>> proved.gap <= 1e-6
    True
"""

from __future__ import annotations

from privfunnel.neighbours.bottleneck.asking import METHODS, solve, trace
from privfunnel.neighbours.bottleneck.blahut_arimoto import iterate, update
from privfunnel.neighbours.bottleneck.curves import SOLVER, BottleneckCurve
from privfunnel.neighbours.bottleneck.proving import ProvedPoint, certify, prove

__all__ = [
    "METHODS",
    "SOLVER",
    "BottleneckCurve",
    "ProvedPoint",
    "certify",
    "iterate",
    "prove",
    "solve",
    "trace",
    "update",
]
