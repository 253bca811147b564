"""The checker refuses what is false, however fine the boxes are: all but those around a posterior below the claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from privfunnel.certificate.checker import check
from privfunnel.certificate.tree import LEAF, Case, Proof
from privfunnel.errors import CertificateError
from privfunnel.measures import entropy, xlogx

Array = np.ndarray[Any, Any]

#: How far above the least value found a false claim is, nats, and the width from which on boxes are not split.
TOO_MUCH, FINEST = 2e-3, 1.0 / 32.0


class Pricing(NamedTuple):
    """F(w) = −H(Pw) + μ H(w) − a·w with Pᵀ (M, K), a (M,) and μ."""

    columns: Array
    prices: Array
    slope: float

    def values(self, w: Array) -> Array:
        return np.asarray(-entropy(w @ self.columns) + self.slope * entropy(w) - w @ self.prices)

    def best_multipliers(self, low: Array, high: Array) -> tuple[Array, float, float]:
        """q of the middle of a box, the best of some ν, and the bound that they give."""
        middle = (low + high) / 2.0
        q = np.log(middle / middle.sum() @ self.columns)
        rates = self.columns @ q - self.prices
        nu = np.unique(np.concatenate([rates, np.linspace(rates.min() - 1.0, rates.max() + 1.0, 201)]))
        ends = np.stack([(rates - nu[:, None]) * w - self.slope * xlogx(w) for w in (low, high)])
        bounds = nu + ends.min(axis=0).sum(axis=1)
        return q, float(nu[bounds.argmax()]), float(bounds.max())


class Draft:
    """A tree that grows until every box is settled, has no posterior in it, or is as fine as boxes get."""

    def __init__(self, pricing: Pricing, claim: float) -> None:
        self.pricing, self.claim, self.open = pricing, claim, 0
        self.nodes: list[tuple[Array, float, int, tuple[float, float], int]] = []
        n_x = len(pricing.prices)
        self._grow([(np.zeros(n_x), np.ones(n_x))])

    def _grow(self, level: list[tuple[Array, Array]]) -> None:
        while level:
            children: list[tuple[Array, Array]] = []
            first = len(self.nodes) + len(level)
            for low, high in level:
                q, nu, bound = self.pricing.best_multipliers(low, high)
                widest = int(np.argmax(high - low))
                empty = low.sum() > 1.0 or high.sum() < 1.0
                fine = high[widest] - low[widest] <= FINEST
                self.open += fine and not empty and bound < self.claim
                if empty or fine or bound >= self.claim + 1e-9:
                    self.nodes.append((q, nu, LEAF, (0.0, 0.0), 0))
                    continue
                at = float(low[widest] + high[widest]) / 2.0
                self.nodes.append((q, nu, widest, (at, at), first + len(children)))
                for side in (0, 1):
                    ends = low.copy(), high.copy()
                    ends[1 - side][widest] = at
                    children.append(ends)
            level = children

    def case(self, claim: float) -> Case:
        """The tree as a proof of this claim."""
        q, nu, variable, split, first = zip(*self.nodes, strict=True)
        proof = Proof(claim=claim, q=np.array(q), nu=np.array(nu), variable=np.array(variable, dtype=np.int32),
                      split=np.array(split), first=np.array(first, dtype=np.int32))  # fmt: skip
        return Case(prices=self.pricing.prices, slope=self.pricing.slope, proof=proof)


def drawn(seed: int, n_x: int, n_s: int, slope: float) -> tuple[Pricing, Array]:
    """A pricing function whose least value is inside the simplex, or on its border, and a posterior close to it."""
    rng = np.random.default_rng(seed)
    pricing = Pricing(rng.dirichlet(np.full(n_s, 0.6), size=n_x), rng.normal(0.0, 0.3 * slope, n_x), slope)
    w = np.concatenate([rng.dirichlet(np.full(n_x, a), size=20_000) for a in (1.0, 0.3)])
    return pricing, w[pricing.values(w).argmin()]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    "drawing", [(0, 3, 2, 0.3), (5, 3, 3, 0.05), (4, 3, 3, 0.15), (3, 4, 3, 0.3), (9, 3, 2, 0.05)], ids=str
)
def test_a_false_claim_is_refused_where_only_the_finest_boxes_are_open(
    drawing: tuple[int, int, int, float], exclusive: bool
) -> None:
    pricing, w = drawn(*drawing)
    claim = float(pricing.values(w)) + TOO_MUCH
    draft = Draft(pricing, claim)
    assert 0 < draft.open < len(draft.nodes) / 4
    with pytest.raises(CertificateError, match=r"does not prove its claim: a box is \S+ nats short of it"):
        check(pricing.columns, [draft.case(claim)], exclusive=exclusive)


def test_a_true_claim_is_proved_by_the_same_boxes() -> None:
    """Which shows that a tree is refused for its claim, and not for its form."""
    pricing, w = drawn(5, 3, 3, 0.05)
    draft = Draft(pricing, float(pricing.values(w)) + TOO_MUCH)
    check(pricing.columns, [draft.case(float(pricing.values(w)) - 0.02)])


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_hole_with_a_posterior_below_the_claim_is_refused(side: float) -> None:
    """The two halves prove their claim; what lies between them does not."""
    pricing, w = drawn(4, 3, 3, 0.15)
    claim = float(pricing.values(w)) + TOO_MUCH
    case = Draft(pricing, claim).case(claim)
    i = int(case.proof.variable[0])
    split = case.proof.split.copy()
    split[0] = sorted((w[i] + side * 1e-3, w[i] - side * 0.2))
    with pytest.raises(CertificateError, match="does not prove its claim: a split leaves out too much"):
        check(pricing.columns, [replace(case, proof=replace(case.proof, split=split))])
