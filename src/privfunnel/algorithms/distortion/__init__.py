"""Least leakage for records that stay close to the true ones: a convex program, solved and proved in one pass.

It solves min I(S;Y) subject to E d(X,Y) ≤ D by Newton's method on the path of a barrier (:mod:`.newton`), with the
ends of the curve from linear programs (:mod:`.work`). What it proves are cuts of mutual information at the channel it
found (:mod:`privfunnel.certificate.kinds.distortion`). It costs M·N·K numbers a step; beyond 20 million it refuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from privfunnel.algorithms.options import check_positive, check_seconds, check_whole


@dataclass(frozen=True, kw_only=True)
class DistortionFunnel:
    """The solver of the distortion funnel.

    Attributes:
        gap: Nats that the leakage may be above its proved bound.
        max_steps: Newton steps a point, at most.
        time_limit: Seconds a point may take, after which the best is returned with the bound that it has.
    """

    name: ClassVar[str] = "distortion"

    gap: float = 1e-9
    max_steps: int = 300
    time_limit: float = math.inf

    def __post_init__(self) -> None:
        check_positive(self.name, gap=self.gap)
        check_whole(self.name, 1, max_steps=self.max_steps)
        check_seconds(self.name, self.time_limit)
