r"""Baselines of the funnel's worst-case neighbours: releases that keep every lift p(s|y)/p(s) within [e^−ε, e^ε].

That is *local information privacy*, the guarantee ``lip=ε``. :func:`privfunnel.solving.point.solve` with
``guarantees=["lip=ε"]`` gives the most disclosure that it allows, with a proof; the literature's methods are:

* ``vertex``: the posteriors of an optimal release are vertices of {w ≥ 0, Σ w = 1, e^−ε p(s) ≤ Pw ≤ e^ε p(s)}, since
  H is concave. All vertices are listed, and a linear program mixes them: the optimum, for small tables.
* ``watchdog``: symbols whose lifts are within ε are released as they are, all others as one symbol (Hsu, Asoodeh and
  Calmon 2019); while that symbol is not within ε, the released symbol that helps it most joins it.
* ``subset-merging``: risky symbols are merged in groups, each no larger than it has to be (Zarrabian, Ding and
  Sadeghi 2022).
* ``max-lift``: the output of the largest |log lift| is merged with the one that leaves the smallest, until all are
  within ε (in the manner of Ding and Sadeghi).
* ``randomised-response``: Y = X with probability a, and a fresh draw from p(x) otherwise. The lift of y is
  1 + a (lift of x − 1), which gives the largest a in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.optimize import linprog

from privfunnel import measures
from privfunnel.errors import InvalidInputError, SolverError
from privfunnel.infra.checks import is_number
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.guarantees import LocalInformationPrivacy
from privfunnel.model.problem import Point, Problem

#: Candidates for vertices, at most: each is a small linear system.
MOST_CANDIDATES = 3_000_000
#: Public symbols beyond this make merging, one pair after the other, take minutes.
MOST_SYMBOLS = 1000
#: Systems that are solved at one time.
_BATCH = 50_000
#: A lift may miss ε by this much, which is rounding; entries of a vertex above −ROUNDING are not negative.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class WorstCaseRelease:
    """A release and what it keeps; every number is computed from the channel.

    Attributes:
        problem: The problem.
        method: What made it.
        epsilon: ε, in nats: no |log lift| is to be larger.
        channel: p(y|x), shape (M, N).
    """

    problem: Problem
    method: str
    epsilon: float
    channel: Array

    @cached_property
    def _point(self) -> Point:
        return self.problem.evaluate(self.channel)

    @property
    def disclosure(self) -> float:
        """I(X;Y) in nats."""
        return self._point.disclosure

    @property
    def leakage(self) -> float:
        """I(S;Y) in nats."""
        return self._point.leakage

    @cached_property
    def reached(self) -> float:
        """The largest |log lift| that the channel has, in nats."""
        return LocalInformationPrivacy(self.epsilon).reached(self.problem, self.channel)

    def __repr__(self) -> str:
        """One line with the numbers."""
        return (
            f"WorstCaseRelease({self.method}: disclosure {self.disclosure:.6g}, |log lift| ≤ {self.reached:.6g} of "
            f"{self.epsilon:.6g})"
        )


def release(problem: Problem, epsilon: float, *, method: str = "vertex") -> WorstCaseRelease:
    """A release whose every |log lift| is at most ``epsilon`` (nats), by one of :data:`METHODS`.

    Raises:
        InvalidInputError: ε is no such number, the method is not known, or the table is too large for ``vertex``.
    """
    if not is_number(epsilon) or not 0.0 <= epsilon < math.inf:
        raise InvalidInputError(f"epsilon={epsilon!r} is not usable: give nats ≥ 0")
    if method not in METHODS:
        raise InvalidInputError(f"method={method!r} is not known: choose one of {', '.join(METHODS)}")
    if problem.n_x > MOST_SYMBOLS:
        raise InvalidInputError(
            f"the table has {problem.n_x} public symbols: these methods take up to {MOST_SYMBOLS}; use "
            f"pf.solve(problem, guarantees=['lip={epsilon:g}'])"
        )
    channel = METHODS[method](problem, float(epsilon))
    return WorstCaseRelease(problem=problem, method=method, epsilon=float(epsilon), channel=channel)


def _log_lift(problem: Problem, p_sy: Array) -> Array:
    """The largest |log lift| of each output with joint probabilities ``p_sy`` (K, N), shape (N,); infinite for a 0."""
    ratio = p_sy / (problem.p_s[:, None] * p_sy.sum(axis=0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(np.log(ratio)).max(axis=0))


def _merged(problem: Problem, groups: list[list[int]]) -> Array:
    """The deterministic map of groups of public symbols."""
    channel = np.zeros((problem.n_x, len(groups)))
    for y, group in enumerate(groups):
        channel[group, y] = 1.0
    return channel


def _lift_of(problem: Problem, group: list[int]) -> float:
    return float(_log_lift(problem, problem.p_sx[:, group].sum(axis=1, keepdims=True))[0])


def _watchdog(problem: Problem, epsilon: float) -> Array:
    """Release what is within ε, merge the rest, and let released symbols join it until it is within ε as well."""
    lifts = _log_lift(problem, problem.p_sx)
    alone = [int(x) for x in np.flatnonzero(lifts <= epsilon + ROUNDING)]
    together = [int(x) for x in np.flatnonzero(lifts > epsilon + ROUNDING)]
    if not together:
        return np.asarray(channels.identity(problem.n_x))
    while alone and _lift_of(problem, together) > epsilon + ROUNDING:
        best = min(alone, key=lambda x: _lift_of(problem, [*together, x]))
        alone.remove(best)
        together.append(best)
    return _merged(problem, [[x] for x in alone] + [together])


def _subset_merging(problem: Problem, epsilon: float) -> Array:
    """Groups of risky symbols, the riskiest first, each closed as soon as it is within ε; what is left joins one."""
    lifts = _log_lift(problem, problem.p_sx)
    groups = [[int(x)] for x in np.flatnonzero(lifts <= epsilon + ROUNDING)]
    left = [int(x) for x in np.argsort(-lifts, kind="stable") if lifts[x] > epsilon + ROUNDING]
    while left:
        group = [left.pop(0)]
        while left and _lift_of(problem, group) > epsilon + ROUNDING:
            best = min(left, key=lambda x: _lift_of(problem, [*group, x]))
            left.remove(best)
            group.append(best)
        while groups and _lift_of(problem, group) > epsilon + ROUNDING:
            best_group = min(groups, key=lambda other: _lift_of(problem, [*group, *other]))
            groups.remove(best_group)
            group += best_group
        groups.append(group)
    return _merged(problem, groups)


def _max_lift(problem: Problem, epsilon: float) -> Array:
    """Merge the worst output with whatever leaves the smallest |log lift|, until all are within ε."""
    groups = [[x] for x in range(problem.n_x)]
    while len(groups) > 1:
        lifts = [_lift_of(problem, group) for group in groups]
        worst = int(np.argmax(lifts))
        if lifts[worst] <= epsilon + ROUNDING:
            break
        group = groups.pop(worst)
        partner = min(groups, key=lambda other: _lift_of(problem, [*group, *other]))
        groups.remove(partner)
        groups.append([*group, *partner])
    return _merged(problem, groups)


def _randomised_response(problem: Problem, epsilon: float) -> Array:
    """Y = X with the largest probability a that keeps 1 + a (lift − 1) in [e^−ε, e^ε], a draw from p(x) otherwise."""
    lift = measures.lift(problem.p_sx)
    above, below = float(lift.max()) - 1.0, 1.0 - float(lift.min())
    kept = min(
        1.0,
        math.expm1(epsilon) / above if above > 0.0 else 1.0,
        -math.expm1(-epsilon) / below if below > 0.0 else 1.0,
    )
    return np.asarray(kept * np.eye(problem.n_x) + (1.0 - kept) * problem.p_x)


def vertices(problem: Problem, epsilon: float) -> Array:
    """All vertices of the posteriors that keep every lift within ε, shape (n, M).

    A vertex with m symbols meets m − 1 of the bounds on Pw, m ≤ rank(P): all choices of symbols, bounds and their sides
    are tried.

    Raises:
        InvalidInputError: There are more than three million choices.
    """
    n_s, n_x = problem.n_s, problem.n_x
    most = min(int(np.linalg.matrix_rank(problem.p_s_given_x)), n_x)
    total = sum(math.comb(n_x, m) * math.comb(n_s, m - 1) * 2 ** (m - 1) for m in range(1, most + 1))
    if total > MOST_CANDIDATES:
        raise InvalidInputError(
            f"the table has {total} candidates for vertices: use pf.solve(problem, guarantees=['lip={epsilon:g}'])"
        )
    low, high = math.exp(-epsilon) * problem.p_s, math.exp(epsilon) * problem.p_s
    found = []
    for m in range(1, most + 1):
        supports = np.array(list(combinations(range(n_x), m)))
        for rows in combinations(range(n_s), m - 1):
            for sides in product((0, 1), repeat=m - 1):
                right = np.array(
                    [*(float((low, high)[side][s]) for side, s in zip(sides, rows, strict=True)), 1.0]
                )
                for first in range(0, len(supports), _BATCH):
                    found.append(
                        _points(problem, supports[first : first + _BATCH], list(rows), right, low, high)
                    )
    return np.unique(np.round(np.concatenate(found), 12), axis=0)


def _points(problem: Problem, supports: Any, rows: list[int], right: Array, low: Array, high: Array) -> Array:
    """The posteriors (n, M) on some supports (·, m) that meet the rows with equality and all bounds."""
    table = problem.p_s_given_x
    chosen, ones = table[rows][:, supports].transpose(1, 0, 2), np.ones((len(supports), 1, supports.shape[1]))
    systems = np.concatenate([chosen, ones], axis=1)
    usable = np.abs(np.linalg.det(systems)) > 1e-13
    values = np.linalg.solve(
        systems[usable], np.broadcast_to(right, (int(usable.sum()), right.size))[..., None]
    )[..., 0]
    made = np.zeros((len(values), problem.n_x))
    np.put_along_axis(made, supports[usable], values, axis=1)
    made = made[(made >= -ROUNDING).all(axis=1)]
    told = made @ table.T
    inside = ((told >= low - ROUNDING) & (told <= high + ROUNDING)).all(axis=1)
    made = np.maximum(made[inside], 0.0)
    return np.asarray(made / made.sum(axis=1, keepdims=True))


def _vertex(problem: Problem, epsilon: float) -> Array:
    """Mix all vertices so that H(X|Y) is least."""
    listed = vertices(problem, epsilon)
    solver: Any = linprog
    found = solver(measures.entropy(listed), A_eq=listed.T, b_eq=problem.p_x, method="highs")
    if found.x is None:
        raise SolverError(f"the linear program over {len(listed)} vertices was not solved ({found.message})")
    used = found.x > 1e-13
    joint = (found.x[used, None] * listed[used]).T
    return channels.merge_outputs(joint / joint.sum(axis=1, keepdims=True), 1e-10)


#: The methods by name.
METHODS: dict[str, Callable[[Problem, float], Array]] = {
    "vertex": _vertex,
    "watchdog": _watchdog,
    "subset-merging": _subset_merging,
    "max-lift": _max_lift,
    "randomised-response": _randomised_response,
}
