"""Yes-or-no questions about S: each is a funnel with two private symbols, whose tangents are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from privfunnel import measures
from privfunnel.algorithms.binary.funnel import ClassOracle, Support
from privfunnel.algorithms.binary.proof import ALL_PAIRS, CLAIMS, pairs_proof, prove
from privfunnel.algorithms.binary.table import BinaryTable, binary_table
from privfunnel.certificate import PairsProof, cell_columns, check_pairs, halves_of, spread_within
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Questions that are tried first in each stratum, those that the public columns tell most about: so many where it has
#: no more than FEW private symbols, one elsewhere.
MOST_QUESTIONS, FEW = 3, 4

Members = NDArray[np.bool_]
Sides = NDArray[np.int32]


@dataclass(eq=False)
class Question:
    """One yes or no about S, asked of the private symbols that earlier ones have left.

    Attributes:
        halves: p(i|x) of the public symbols that are left, shape (2, M').
        left: Which these are, shape (M,).
        table: Their binary table.
        within: H(X|class) of that table, in nats.
        share: Probability of side 1 among the private symbols that are left.
    """

    halves: Array
    left: NDArray[np.bool_]
    table: BinaryTable
    within: float
    share: float
    curve: ClassOracle = field(init=False)
    _supports: dict[float, Support] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Prepare the curve."""
        self.curve = ClassOracle(self.table)

    @property
    def cells(self) -> NDArray[np.int32]:
        """The class of each public symbol that is left, shape (M',)."""
        return self.table.class_of.astype(np.int32)

    @cached_property
    def free(self) -> float:
        """The largest disclosure of the classes without leakage, in nats."""
        return self.curve.free().point.disclosure

    def support(self, slope: float) -> Support:
        """The point and tangent of a slope 0 < σ ≤ 1."""
        if slope not in self._supports:
            self._supports[slope] = self.curve.told() if slope >= 1.0 else self.curve.at(slope)
        return self._supports[slope]

    def tangent(self, slope: float) -> float:
        """α(σ): the tangent of slope σ at R = 0, in nats."""
        return self.support(slope).line(0.0) - slope * self.within

    def between(self, slopes: Sequence[float]) -> CubicHermiteSpline:
        """α as a function of σ, exact at some slopes: from its values there and its derivative −R(σ).

        At slope 0 it is 0, with the derivative −R0.
        """
        supports = [self.support(slope) for slope in slopes]
        values = [0.0, *(self.tangent(slope) for slope in slopes)]
        reached = np.array([self.free, *(support.point.disclosure for support in supports)]) + self.within
        return CubicHermiteSpline([0.0, *slopes], values, -reached)

    def proved(self, slope: float) -> tuple[Array, PairsProof]:
        """Prices (M',) of a tangent and the proof that its F is nowhere negative, but for rounding.

        Raises:
            CertificateError: Rounding keeps the checker from confirming it.
        """
        classes, n = self.curve.classes, self.table.n_classes
        prices = prove(classes, self.support(slope).prices, slope)
        if prices is not None:
            columns, _ = cell_columns(self.halves, self.cells)
            # Rounding of p(i|x) that a question is proved with: more than the checker allows for at 100 private
            # symbols.
            spread = spread_within(self.halves, columns, self.cells) + 3e-14
            for claim in CLAIMS:
                proof = pairs_proof(classes, prices, slope, claim, crossings=n > ALL_PAIRS)
                try:
                    check_pairs(columns, prices, slope, proof, spread)
                except CertificateError:
                    continue
                return prices[self.table.class_of], proof
        raise CertificateError(f"rounding keeps the tangent of slope {slope!r} from being confirmed")


def ask(problem: Problem, sides: Sides) -> Question:
    """The question that sends each private symbol to side 0 or 1, (K,); −1 for those that are ruled out."""
    halves, left = halves_of(problem.p_s_given_x, sides)
    joint = _told(problem, sides)[:, left]
    table = binary_table(joint / joint.sum())
    within = float(measures.entropy(table.p_x)) - float(measures.entropy(table.mass))
    share = float(problem.p_s[sides == 1].sum() / problem.p_s[sides >= 0].sum())
    return Question(halves, left, table, max(within, 0.0), share)


def first_questions(problem: Problem, members: Members) -> list[Sides]:
    """Ways to split some private symbols in two, those that X tells most about first."""
    own = np.flatnonzero(members)
    parts = [[int(s)] for s in own]
    # Private symbols up to which all ways to split them in two are looked at; beyond, one against the others.
    if own.size <= 8:
        parts = [
            [int(s) for i, s in enumerate(own) if mask >> i & 1] for mask in range(1, 2 ** (own.size - 1))
        ]
    found: list[tuple[float, Sides]] = []
    for part in parts:
        sides = np.where(members, 0, -1).astype(np.int32)
        sides[part] = 1
        told = _told(problem, sides)
        found.append((float(measures.mutual_information(told / told.sum())), sides))
    found.sort(key=lambda pair: -pair[0])
    return [sides for _, sides in found[: MOST_QUESTIONS if own.size <= FEW else 1]]


def _told(problem: Problem, sides: Sides) -> Array:
    """p(i, x), shape (2, M)."""
    return np.stack([problem.p_sx[sides == side].sum(axis=0) for side in (0, 1)])
