"""The best mixture of a few atoms, posteriors of one box: a small convex program, solved for every box many times.

Minimise ``Σ_k t_k log t_k + g·w`` over the weights of ``w = Σ_j weights_j atom_j``, where ``t = Pw``. It takes Newton
steps on the atoms in use, and Frank-Wolfe steps to let one enter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import TINY, Array
from privfunnel.solvers.jit import compiled
from privfunnel.solvers.posteriors.boxes import copy, plogp

#: Steps at most.
MOST_STEPS = 40
#: Entries of t are raised to this in the curvature 1/t.
LEAST_IMAGE = 1e-14
#: This share of the curvature's trace is added to its diagonal: atoms may be (nearly) dependent.
RIDGE = 1e-10
#: Bisections of a line search at most.
MOST_BISECTIONS = 30
#: A length is good enough when it is known to this share of itself,
LENGTH_SHARE = 0.05
#: or when some descent is sure after this many bisections.
SURE_AFTER = 6


class Mixture(NamedTuple):
    """Up to n atoms and the weights that mix them, with the arrays that a step overwrites.

    ``atoms`` (n, M) with ``images`` (n, K) under P, linear ``values`` g·atom (n,) and ``weights`` (n,). Of the mixture:
    ``image`` t and its logarithm (K,), the ``change`` of t along a step (K,), the derivative in each weight
    ``gradient`` (n,), the atoms in use ``support`` (n,). Newton's ``matrix`` (n, n) and its two right sides (n, 2).
    """

    atoms: Array
    images: Array
    values: Array
    weights: Array
    image: Array
    log_image: Array
    change: Array
    gradient: Array
    support: NDArray[np.int64]
    matrix: Array
    rhs: Array


@compiled
def new_mixture(capacity: int, n_x: int, n_s: int) -> Mixture:
    """Room for ``capacity`` atoms."""
    return Mixture(
        np.zeros((capacity, n_x)),
        np.zeros((capacity, n_s)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(n_s),
        np.zeros(n_s),
        np.zeros(n_s),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros((capacity, capacity)),
        np.zeros((capacity, 2)),
    )


@compiled
def add_atom(mixture: Mixture, n: int, columns: Array, linear: Array, point: Array) -> None:
    """Write ``point`` (M,) in the n-th place, with weight 0; ``columns`` (M, K) is Pᵀ, ``linear`` (M,) is g."""
    image = mixture.images[n]
    copy(mixture.atoms[n], point)
    mixture.weights[n] = 0.0
    value = 0.0
    for k in range(image.size):
        image[k] = 0.0
    for i in range(point.size):
        if point[i] > 0.0:
            value += linear[i] * point[i]
            for k in range(image.size):
                image[k] += point[i] * columns[i, k]
    mixture.values[n] = value


@compiled(forceinline=True)
def move_atom(mixture: Mixture, target: int, source: int) -> None:
    """Overwrite one atom with another."""
    for i in range(mixture.atoms.shape[1]):
        mixture.atoms[target, i] = mixture.atoms[source, i]
    for k in range(mixture.images.shape[1]):
        mixture.images[target, k] = mixture.images[source, k]
    mixture.values[target] = mixture.values[source]
    mixture.weights[target] = mixture.weights[source]


@compiled
def drop_lightest(mixture: Mixture, n: int) -> bool:
    """Remove the lightest of ``n`` atoms, scaling up the others; False where it is all there is."""
    lightest = 0
    for j in range(1, n):
        if mixture.weights[j] < mixture.weights[lightest]:
            lightest = j
    scale = 1.0 - mixture.weights[lightest]
    if scale <= 0.0:
        return False
    for j in range(n):
        mixture.weights[j] /= scale
    move_atom(mixture, lightest, n - 1)
    return True


@compiled
def drop_unused(mixture: Mixture, n: int) -> int:
    """Remove the atoms of weight 0 from the first ``n``; return how many are left."""
    kept = 0
    for j in range(n):
        if mixture.weights[j] > 0.0:
            if kept < j:
                move_atom(mixture, kept, j)
            kept += 1
    return kept


@compiled
def blend(mixture: Mixture, n: int, point: Array) -> None:
    """Write the mixture of the first ``n`` atoms into ``point`` (M,)."""
    atoms, weights = mixture.atoms, mixture.weights
    for i in range(point.size):
        total = 0.0
        for j in range(n):
            total += weights[j] * atoms[j, i]
        point[i] = total


@compiled
def mix_atoms(mixture: Mixture, n: int, tolerance: float) -> float:
    """Minimise over the weights of the first ``n`` atoms, in place, to ``tolerance`` nats; return the value.

    The result is only used to propose a ``q``, so an approximate minimiser does no harm.
    """
    for _ in range(MOST_STEPS):
        best, mean = fill_gradient(mixture, n)
        if mean - mixture.gradient[best] <= tolerance:
            break
        if mixture.weights[best] <= 0.0:
            # A Frank-Wolfe step lets an atom enter: the whole mixture moves towards it.
            slope = direction_towards(mixture, n, best)
            step = line_search(mixture.image, mixture.change, slope, 1.0)
            for j in range(n):
                mixture.weights[j] *= 1.0 - step
            mixture.weights[best] += step
        else:
            # A Newton step among the atoms in use, cut where a weight would turn negative.
            size = fill_newton_system(mixture, n)
            if not solve_newton_system(mixture, size):
                break
            slope, longest, leaving = newton_direction(mixture, size)
            step = line_search(mixture.image, mixture.change, slope, longest)
            add_moves(mixture, size, step)
            if leaving >= 0 and step == longest:
                mixture.weights[leaving] = 0.0  # rounding would leave a trace of it
    value = 0.0
    for j in range(n):
        value += mixture.weights[j] * mixture.values[j]
    for k in range(mixture.image.size):
        value += plogp(mixture.image[k])
    return value


@compiled
def fill_gradient(mixture: Mixture, n: int) -> tuple[int, float]:
    """Write t, log t and the derivatives in the weights; return the atom of the least one, and their weighted mean.

    The constant 1 of d(t log t) is left out: it is the same for all atoms. By convexity the mean less the least bounds
    what is left to gain.
    """
    images, values, weights, gradient = mixture.images, mixture.values, mixture.weights, mixture.gradient
    image, log_image = mixture.image, mixture.log_image
    for k in range(image.size):
        total = 0.0
        for j in range(n):
            total += weights[j] * images[j, k]
        image[k] = total
        log_image[k] = np.log(max(total, TINY))
    mean = 0.0
    best = 0
    for j in range(n):
        derivative = values[j]
        for k in range(image.size):
            derivative += images[j, k] * log_image[k]
        gradient[j] = derivative
        mean += weights[j] * derivative
        if derivative < gradient[best]:
            best = j
    return best, mean


@compiled
def direction_towards(mixture: Mixture, n: int, entering: int) -> float:
    """Write the change of t on the way to one atom; return that of the linear part."""
    images, values, weights = mixture.images, mixture.values, mixture.weights
    image, change = mixture.image, mixture.change
    for k in range(image.size):
        change[k] = images[entering, k] - image[k]
    slope = float(values[entering])
    for j in range(n):
        slope -= weights[j] * values[j]
    return slope


@compiled
def fill_newton_system(mixture: Mixture, n: int) -> int:
    """List the atoms in use, write their curvature and the right sides (gradient, 1); return how many they are."""
    size = 0
    for j in range(n):
        if mixture.weights[j] > 0.0:
            mixture.support[size] = j
            size += 1
    trace = 0.0
    for x in range(size):
        for y in range(x + 1):
            entry = 0.0
            for k in range(mixture.image.size):
                entry += (
                    mixture.images[mixture.support[x], k]
                    * mixture.images[mixture.support[y], k]
                    / max(mixture.image[k], LEAST_IMAGE)
                )
            mixture.matrix[x, y] = entry
            mixture.matrix[y, x] = entry
        trace += mixture.matrix[x, x]
    for x in range(size):
        mixture.matrix[x, x] += RIDGE * trace
        mixture.rhs[x, 0] = mixture.gradient[mixture.support[x]]
        mixture.rhs[x, 1] = 1.0
    return size


@compiled
def newton_direction(mixture: Mixture, size: int) -> tuple[float, float, int]:
    """Write the moves (into ``rhs``) and the change of t that solve the system.

    Returns the change of the linear part, how far the step may go, and the atom that leaves there (−1 for none).
    """
    images, values, weights = mixture.images, mixture.values, mixture.weights
    support, change, rhs = mixture.support, mixture.change, mixture.rhs
    # The multiplier of Σ weights = 1 makes the moves add up to 0.
    top = 0.0
    bottom = 0.0
    for x in range(size):
        top += rhs[x, 0]
        bottom += rhs[x, 1]
    shift = top / bottom
    slope = 0.0
    longest = 1.0
    leaving = -1
    for k in range(change.size):
        change[k] = 0.0
    for x in range(size):
        j = support[x]
        move = shift * rhs[x, 1] - rhs[x, 0]
        rhs[x, 0] = move
        slope += move * values[j]
        for k in range(change.size):
            change[k] += move * images[j, k]
        if weights[j] + longest * move < 0.0:
            longest = weights[j] / -move
            leaving = j
    return slope, longest, leaving


@compiled
def add_moves(mixture: Mixture, size: int, step: float) -> None:
    """Move the weights in use by ``step`` times their moves; none turns negative by rounding."""
    weights, support, rhs = mixture.weights, mixture.support, mixture.rhs
    for x in range(size):
        j = support[x]
        weights[j] = max(weights[j] + step * rhs[x, 0], 0.0)


@compiled
def solve_newton_system(mixture: Mixture, size: int) -> bool:
    """Solve for both right sides in place, by Cholesky; False when the matrix is not positive definite."""
    for j in range(size):
        diagonal = mixture.matrix[j, j]
        for k in range(j):
            diagonal -= mixture.matrix[j, k] * mixture.matrix[j, k]
        if not diagonal > 0.0:
            return False
        diagonal = np.sqrt(diagonal)
        mixture.matrix[j, j] = diagonal
        for i in range(j + 1, size):
            entry = mixture.matrix[i, j]
            for k in range(j):
                entry -= mixture.matrix[i, k] * mixture.matrix[j, k]
            mixture.matrix[i, j] = entry / diagonal
    for c in range(2):
        for i in range(size):
            entry = mixture.rhs[i, c]
            for k in range(i):
                entry -= mixture.matrix[i, k] * mixture.rhs[k, c]
            mixture.rhs[i, c] = entry / mixture.matrix[i, i]
        for i in range(size - 1, -1, -1):
            entry = mixture.rhs[i, c]
            for k in range(i + 1, size):
                entry -= mixture.matrix[k, i] * mixture.rhs[k, c]
            mixture.rhs[i, c] = entry / mixture.matrix[i, i]
    return True


@compiled
def line_search(image: Array, change: Array, linear: float, longest: float) -> float:
    """Length in (0, longest] along which ``Σ t log t + linear`` decreases; t moves from ``image`` by ``change``."""
    low = 0.0
    high = longest
    for trial in range(MOST_BISECTIONS):
        step = high if trial == 0 else 0.5 * (low + high)
        slope = linear
        for k in range(image.size):
            if change[k] != 0.0:
                slope += change[k] * (1.0 + np.log(max(image[k] + step * change[k], TINY)))
        if slope <= 0.0:
            if trial == 0:
                return step
            low = step
            if high - low < LENGTH_SHARE * high:
                break
        else:
            high = step
            if trial > SURE_AFTER and low > 0.0:
                break
    return low if low > 0.0 else 0.5 * high
