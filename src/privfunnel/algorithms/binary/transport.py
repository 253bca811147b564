r"""Perfect privacy for two private symbols, in closed form.

A posterior w leaks nothing iff Σ w_x (π_x − p(s)) = 0, π_x = p(s=1|x). The vertices of that set are the symbols with
π_x = p(s) alone, and the pairs of a symbol at distance u below p(s) and one at distance v above it, with weights
v/(u+v) and u/(u+v). A pair that carries the moment f = m_b u = m_a v (m its masses) costs f·c(u, v) nats of disclosure,

    c(u, v) = log(1 + v/u)/v + log(1 + u/v)/u,          ∂²c/∂u∂v = 1/(u v (u+v)) > 0,

so that the largest free disclosure R0 = H(X) − Σ f c(u, v) is a transport problem with marginals
p_x u_x below and p_x v_x above. By the sign of the mixed derivative its north-west-corner plan, largest u with
smallest v first, is optimal.

The proof that goes with a plan are prices φ_b, ψ_a with φ_b + ψ_a ≤ c(u_b, v_a) for all pairs, which hold on the plan's
staircase alone already: see :mod:`privfunnel.certificate.private_stairs`. A violation −ε of them is worth ε u v/(u+v)
nats in a posterior, which is what the bound on R0 is raised by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import measures
from privfunnel.algorithms.binary.pairing import PairRelease
from privfunnel.algorithms.binary.table import Index, check_table
from privfunnel.certificate.private_stairs import (
    AT,
    EPS,
    Sides,
    Staircase,
    north_west,
    unit_cost,
    worst_violation,
)
from privfunnel.measures import TINY, Array
from privfunnel.model.problem import Point, Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class FreePairs:
    """The largest disclosure without leakage, and its proof.

    Attributes:
        disclosure: R0 in nats, of ``release`` as it is.
        leakage: Leakage of ``release`` in nats: 0 up to rounding.
        upper: Proved: no release without leakage discloses more, in nats.
        release: The outputs.
        prices: Shape (M,); a·w ≤ H(w) + ``slack`` for every posterior w that leaks nothing.
        slack: In nats, rounding included.
    """

    disclosure: float
    leakage: float
    upper: float
    release: PairRelease
    prices: Array
    slack: float


def split(p_sx: Array) -> Sides:
    """The symbols below and above p(s=1), each sorted as the plan takes them."""
    p_x = p_sx.sum(axis=0)
    # From p(s, x): the difference π − p(s) computed without the cancellation that 1 − π would bring near 1.
    total = p_sx.sum(axis=1)
    distance = (p_sx[1] * total[0] - p_sx[0] * total[1]) / (p_x * total.sum())
    below, above = np.flatnonzero(distance < -AT), np.flatnonzero(distance > AT)
    below = below[np.argsort(distance[below], kind="stable")]
    above = above[np.argsort(distance[above], kind="stable")]
    return Sides(below, above, -distance[below], distance[above])


def _exhaust(cells: Index, masses: Array, wanted: Array) -> tuple[Array, Array]:
    """Scale the masses of each symbol so that they sum to what it has; what cannot be scaled is left over."""
    have = np.bincount(cells, weights=masses, minlength=wanted.size)
    factor = np.where(have > 0.0, wanted / np.where(have > 0.0, have, 1.0), 0.0)
    return masses * factor[cells], np.where(have > 0.0, 0.0, wanted)


def plan_release(p_x: Array, sides: Sides, stairs: Staircase) -> PairRelease:
    """The outputs of a plan: its pairs, and alone the symbols at p(s) (and those too rare for the arithmetic)."""
    cells = stairs.moment > 0.0
    rows, columns, moment = stairs.row[cells], stairs.column[cells], stairs.moment[cells]
    mass_below, lost_below = _exhaust(rows, moment / sides.u[rows], p_x[sides.below])
    mass_above, lost_above = _exhaust(columns, moment / sides.v[columns], p_x[sides.above])
    alone = p_x.copy()
    alone[sides.below], alone[sides.above] = lost_below, lost_above
    told = np.flatnonzero(alone > 0.0)
    return PairRelease(
        first=np.concatenate([sides.below[rows], told]),
        second=np.concatenate([sides.above[columns], told]),
        mass_first=np.concatenate([mass_below, alone[told]]),
        mass_second=np.concatenate([mass_above, np.zeros(told.size)]),
    )


def potentials(sides: Sides, stairs: Staircase) -> tuple[Array, Array]:
    """φ (rows) and ψ (columns) with φ + ψ = c on the staircase: sums of the cost's changes along it."""
    cost = unit_cost(sides.u[stairs.row], sides.v[stairs.column])
    change = np.diff(cost)
    is_row = np.diff(stairs.row) > 0
    phi = 0.5 * cost[0] + np.concatenate([[0.0], np.cumsum(change[is_row])])
    psi = 0.5 * cost[0] + np.concatenate([[0.0], np.cumsum(change[~is_row])])
    return phi, psi


def free_pairs(p_sx: ArrayLike) -> FreePairs:
    """The largest disclosure without leakage for p(s, x) of shape (2, M), with plan and proof; O(M log M)."""
    table = check_table(p_sx)
    p_x = table.sum(axis=0)
    sides = split(table)
    prices = np.zeros(p_x.size)
    if sides.below.size == 0 or sides.above.size == 0:
        nowhere = np.empty(0, dtype=np.intp)
        stairs, slack = Staircase(nowhere, nowhere, np.empty(0)), 0.0
        sides = Sides(nowhere, nowhere, np.empty(0), np.empty(0))
    else:
        stairs = north_west(p_x[sides.below] * sides.u, p_x[sides.above] * sides.v)
        phi, psi = potentials(sides, stairs)
        prices[sides.below], prices[sides.above] = sides.u * phi, sides.v * psi
        slack = worst_violation(sides, stairs, phi, psi)
    release = plan_release(p_x, sides, stairs)
    point: Point = release.point(table)
    # Proved: Σ r H(w) ≥ a·p − slack for every release that leaks nothing.
    h_x = float(measures.entropy(p_x))
    terms = prices * p_x
    rounding = 4.0 * EPS * float(np.sum(np.abs(terms))) + 64.0 * EPS * h_x
    upper = h_x - math.fsum(terms) + slack + rounding
    return FreePairs(
        disclosure=point.disclosure,
        leakage=point.leakage,
        upper=max(upper, point.disclosure),
        release=release,
        prices=prices,
        slack=slack,
    )


def proved_pairs(problem: Problem) -> tuple[FreePairs, float]:
    """The same of a problem with two private symbols, and what no release without leakage exceeds, in nats.

    Pairs weigh symbols by their distance from p(s). A share of these distances is rounding: of 1 where S and X are
    nearly independent. Moving a share e of the weight changes an entropy by at most −e log e and e log M.
    """
    found = free_pairs(problem.p_sx)
    deviation = float(np.abs(problem.p_s_given_x[0] - problem.p_s[0]) @ problem.p_x)
    # Roundings that a distance between p(s|x) and p(s) went through.
    share = min(2.0 * EPS / max(deviation, TINY), 1.0)
    rounding = share * (math.log(problem.n_x) - math.log(share))
    return found, min(found.upper + rounding, problem.disclosure_ceiling)
