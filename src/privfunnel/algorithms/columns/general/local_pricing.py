"""Local searches for posteriors with a small bracket F: quick, and no proof."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.columns.general.branching import INSIDE, Bracket, value
from privfunnel.algorithms.columns.general.tangent_relaxation import Relaxation
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.posteriors.boxes import Box
from privfunnel.algorithms.posteriors.points import sparse_starts
from privfunnel.measures import TINY, Array

#: Steps of a descent, and the gain in nats below which it ends.
STEPS, GAIN = 60, 1e-11
#: Linear steps learn tangents until those known are this close, in nats: their point is only the start of the next.
CLOSE = 1e-7
#: Entries are raised to this before −log gives the next cost of a linear step; below VANISHED they are dropped.
LEAST_ENTRY, VANISHED = 1e-6, 1e-12
#: Starts of each kind where leakage is traded inside W.
FEW_STARTS = 5
#: How much of the uniform distribution is mixed into a posterior in use.
SPREAD = 0.1


def descend(relaxation: Relaxation, bracket: Bracket, starts: Array) -> Array:
    """Local minima of F from every row of ``starts`` (n, M), where all posteriors are allowed.

    A step is w_i ← w_i^(1+μ/Θ) exp((a_i − Σ_a θ_a q_a·T_ai)/Θ), normalised, with q = log t/Σt of each block and Θ = Σθ:
    the divergence of the images is at most that of the posteriors, so that no step makes F larger. A task's concave
    term counts by its tangent, a_i + λ Σ_d ω_d Q_di log v_d in place of a_i.
    """
    total = float(bracket.weights.sum())
    if total <= 0.0:
        return starts
    w, leaking = starts, relaxation.sums.any(axis=1)
    columns = relaxation.images.columns[: relaxation.n_x, leaking]
    scaled = columns * relaxation.scale(bracket.weights)[leaking]
    sums, tasks = relaxation.sums[leaking], relaxation.images.tasks
    for _ in range(STEPS):
        if relaxation.deadline.passed():
            break
        image = w @ columns
        q = np.log(np.maximum(image, TINY)) - np.log(np.maximum(image @ sums, TINY)) @ sums.T
        power = (1.0 + bracket.slope / total) * np.log(np.maximum(w, TINY))
        power += (bracket.prices - q @ scaled.T) / total
        if tasks is not None and bracket.task is not None:
            power += (np.log(np.maximum(w @ tasks.rows.T, TINY)) * bracket.task) @ tasks.rows / total
        power = np.where(w > VANISHED, power, -np.inf)
        new = np.exp(power - power.max(axis=1, keepdims=True))
        new /= new.sum(axis=1, keepdims=True)
        moved = float(np.abs(new - w).max())
        w = new
        if moved < GAIN:
            break
    return w


def settle(relaxation: Relaxation, bracket: Bracket, start: Array) -> Array | None:
    """An allowed posterior where F is locally least, by repeated linear minimisation; None where none was found.

    H is replaced by its tangent at the last posterior, which lies above it: no step makes F larger.
    """
    box = Box(relaxation.images.floors, relaxation.images.caps)
    w, best = relaxation.images.points(start), np.inf
    found: Array | None = None
    for _ in range(STEPS):
        cost = -bracket.slopes * np.log(np.maximum(w, LEAST_ENTRY)) - bracket.costs
        solved = relaxation.minimise(cost, box)
        if solved is None:
            return found
        more = relaxation.sharpen(solved.point, bracket.weights, CLOSE)
        w = solved.point
        if solved.violation > INSIDE:
            if not more:
                return found
            continue
        allowed = relaxation.pulled(w)
        new = float(value(relaxation, bracket, allowed[None, :])[0])
        if new >= best - GAIN and not more:
            break
        if new < best:
            best, found = new, allowed
    return found


def candidates(
    relaxation: Relaxation, bracket: Bracket, active: Array, rng: Generator, deadline: Deadline = NEVER
) -> Array:
    """Local minima of F, (n, M): from the posteriors in use, their neighbourhood and random ones, as time allows."""
    relaxation.deadline = deadline
    relaxation.weigh(bracket.weights)
    n_x = relaxation.n_x
    support = max(2, min(n_x, relaxation.images.columns.shape[1] + 1, n_x // 2 + 1))
    # Random starts of a round: so many, or a third of the symbols.
    random = sparse_starts(rng, max(20, n_x // 3), n_x, support)
    # Of the posteriors in use, at most this many lend their neighbourhood in one round.
    lenders = active[rng.permutation(len(active))[:30]]
    near = (1.0 - SPREAD) * lenders + SPREAD / n_x
    if relaxation.free and bracket.weights.any() and relaxation.measure.is_information:
        return descend(relaxation, bracket, np.concatenate([active, near, random]))
    if bracket.weights.any():  # each step is a program with tangents, and there are many of them
        near, random = near[:FEW_STARTS], random[:FEW_STARTS]
    some: list[Array] = []
    for start in (*near, *random):
        if deadline.passed():
            break
        settled = settle(relaxation, bracket, start)
        if settled is not None:
            some.append(settled)
    return np.array(some).reshape(-1, n_x)
