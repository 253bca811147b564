"""The best mixture of a few atoms, posteriors of one box: a small convex program, solved for every box many times.

Minimise ``Σ_k t_k log t_k + g·w`` over the weights of ``w = Σ_j weights_j atom_j``, where ``t = Pw``. It takes Newton
steps on the atoms in use, and Frank-Wolfe steps to let one enter.

The parts of a step take single arrays and are inlined: this is the innermost loop, where handing a group of arrays on,
and counting the references to them, would take a tenth of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.posteriors.boxes import copy, plogp
from privfunnel.algorithms.posteriors.cholesky import factor, solve_factored
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array

#: Entries of t are raised to this in the curvature 1/t.
LEAST_IMAGE = 1e-14
#: A length is good enough when it is known to this share of itself,
LENGTH_ERROR = 0.05
#: or when some descent is sure after this many bisections.
SURE_AFTER = 6


class Mixture(NamedTuple):
    """Up to n atoms and the weights that mix them, with the arrays that a step overwrites.

    ``atoms`` (n, M) with ``images`` (n, K) under P, linear ``values`` g·atom (n,) and ``weights`` (n,). Of the mixture:
    ``image`` t and its logarithm (K,), the ``change`` of t along a step (K,), the derivative in each weight
    ``gradient`` (n,), the atoms in use ``support`` (n,). Newton's ``matrix`` (n, n) and its two right sides (2, n).
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


@compiled(later=True)
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
        np.zeros((2, capacity)),
    )


@compiled(later=True)
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


@compiled(forceinline=True, later=True)
def move_atom(mixture: Mixture, target: int, source: int) -> None:
    """Overwrite one atom with another."""
    for i in range(mixture.atoms.shape[1]):
        mixture.atoms[target, i] = mixture.atoms[source, i]
    for k in range(mixture.images.shape[1]):
        mixture.images[target, k] = mixture.images[source, k]
    mixture.values[target] = mixture.values[source]
    mixture.weights[target] = mixture.weights[source]


@compiled(later=True)
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


@compiled(later=True)
def drop_unused(mixture: Mixture, n: int) -> int:
    """Remove the atoms of weight 0 from the first ``n``; return how many are left."""
    kept = 0
    for j in range(n):
        if mixture.weights[j] > 0.0:
            if kept < j:
                move_atom(mixture, kept, j)
            kept += 1
    return kept


@compiled(later=True)
def blend(mixture: Mixture, n: int, point: Array) -> None:
    """Write the mixture of the first ``n`` atoms into ``point`` (M,)."""
    atoms, weights = mixture.atoms, mixture.weights
    for i in range(point.size):
        total = 0.0
        for j in range(n):
            total += weights[j] * atoms[j, i]
        point[i] = total


@compiled(later=True)
def mix_atoms(mixture: Mixture, n: int, tolerance: float) -> float:
    """Minimise over the weights of the first ``n`` atoms, in place, to ``tolerance`` nats; return the value.

    The result is only used to propose a ``q``, so an approximate minimiser does no harm.
    """
    _, images, values, weights, image, log_image, change, gradient, support, matrix, rhs = mixture
    # Steps at most.
    for _ in range(40):
        best, mean = fill_gradient(images, values, weights, n, image, log_image, gradient)
        if mean - gradient[best] <= tolerance:
            break
        if weights[best] <= 0.0:
            # A Frank-Wolfe step lets an atom enter: the whole mixture moves towards it.
            slope = direction_towards(images, values, weights, n, best, image, change)
            step = line_search(image, change, slope, 1.0)
            for j in range(n):
                weights[j] *= 1.0 - step
            weights[best] += step
        else:
            # A Newton step among the atoms in use, cut where a weight would turn negative.
            size = fill_newton_system(images, weights, n, image, gradient, support, matrix, rhs)
            if not solve_newton_system(matrix, rhs, size):
                break
            slope, longest, leaving = newton_direction(images, values, weights, support, size, change, rhs)
            step = line_search(image, change, slope, longest)
            add_moves(weights, support, rhs, size, step)
            if leaving >= 0 and step == longest:
                weights[leaving] = 0.0  # rounding would leave a trace of it
    value = 0.0
    for j in range(n):
        value += weights[j] * values[j]
    for k in range(image.size):
        value += plogp(image[k])
    return value


@compiled(forceinline=True, later=True)
def fill_gradient(
    images: Array, values: Array, weights: Array, n: int, image: Array, log_image: Array, gradient: Array
) -> tuple[int, float]:
    """Write t, log t and the derivatives in the weights; return the atom of the least one, and their weighted mean.

    The constant 1 of d(t log t) is left out: it is the same for all atoms. By convexity the mean less the least bounds
    what is left to gain.
    """
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


@compiled(forceinline=True, later=True)
def direction_towards(
    images: Array, values: Array, weights: Array, n: int, entering: int, image: Array, change: Array
) -> float:
    """Write the change of t on the way to one atom; return that of the linear part."""
    for k in range(image.size):
        change[k] = images[entering, k] - image[k]
    slope = float(values[entering])
    for j in range(n):
        slope -= weights[j] * values[j]
    return slope


@compiled(forceinline=True, later=True)
def fill_newton_system(
    images: Array,
    weights: Array,
    n: int,
    image: Array,
    gradient: Array,
    support: NDArray[np.int64],
    matrix: Array,
    rhs: Array,
) -> int:
    """List the atoms in use, write their curvature and the right sides (gradient, 1); return how many they are."""
    size = 0
    for j in range(n):
        if weights[j] > 0.0:
            support[size] = j
            size += 1
    trace = 0.0
    for x in range(size):
        for y in range(x + 1):
            entry = 0.0
            for k in range(image.size):
                entry += images[support[x], k] * images[support[y], k] / max(image[k], LEAST_IMAGE)
            matrix[x, y] = entry
            matrix[y, x] = entry
        trace += matrix[x, x]
    for x in range(size):
        # This share of the curvature's trace is added to its diagonal: atoms may be (nearly) dependent.
        matrix[x, x] += 1e-10 * trace
        rhs[0, x] = gradient[support[x]]
        rhs[1, x] = 1.0
    return size


@compiled(forceinline=True, later=True)
def newton_direction(
    images: Array,
    values: Array,
    weights: Array,
    support: NDArray[np.int64],
    size: int,
    change: Array,
    rhs: Array,
) -> tuple[float, float, int]:
    """Write the moves (into ``rhs``) and the change of t that solve the system.

    Returns the change of the linear part, how far the step may go, and the atom that leaves there (−1 for none).
    """
    # The multiplier of Σ weights = 1 makes the moves add up to 0.
    top = 0.0
    bottom = 0.0
    for x in range(size):
        top += rhs[0, x]
        bottom += rhs[1, x]
    shift = top / bottom
    slope = 0.0
    longest = 1.0
    leaving = -1
    for k in range(change.size):
        change[k] = 0.0
    for x in range(size):
        j = support[x]
        move = shift * rhs[1, x] - rhs[0, x]
        rhs[0, x] = move
        slope += move * values[j]
        for k in range(change.size):
            change[k] += move * images[j, k]
        if weights[j] + longest * move < 0.0:
            longest = weights[j] / -move
            leaving = j
    return slope, longest, leaving


@compiled(forceinline=True, later=True)
def add_moves(weights: Array, support: NDArray[np.int64], rhs: Array, size: int, step: float) -> None:
    """Move the weights in use by ``step`` times their moves; none turns negative by rounding."""
    for x in range(size):
        j = support[x]
        weights[j] = max(weights[j] + step * rhs[0, x], 0.0)


@compiled(later=True)
def solve_newton_system(matrix: Array, rhs: Array, size: int) -> bool:
    """Solve for both right sides in place, by Cholesky; False when the matrix is not positive definite."""
    if not factor(matrix, size):
        return False
    solve_factored(matrix, rhs[0], size, 0)
    solve_factored(matrix, rhs[1], size, 0)
    return True


@compiled(later=True)
def line_search(image: Array, change: Array, linear: float, longest: float) -> float:
    """Length in (0, longest] along which ``Σ t log t + linear`` decreases; t moves from ``image`` by ``change``."""
    low = 0.0
    high = longest
    # Bisections of a line search at most.
    for trial in range(30):
        step = high if trial == 0 else 0.5 * (low + high)
        slope = linear
        for k in range(image.size):
            if change[k] != 0.0:
                slope += change[k] * (1.0 + np.log(max(image[k] + step * change[k], TINY)))
        if slope <= 0.0:
            if trial == 0:
                return step
            low = step
            if high - low < LENGTH_ERROR * high:
                break
        else:
            high = step
            if trial > SURE_AFTER and low > 0.0:
                break
    return low if low > 0.0 else 0.5 * high
