r"""Principal inertia components, and the funnel in its local approximation.

With B_S = diag(p_s)^−½ (p(s,x) − p(s)p(x)) diag(p_x)^−½ (K, M) the eigenvalues of B_SᵀB_S on the vectors orthogonal
to √p_x are the *principal inertia components* of (S, X): χ²(S;X) is their sum, the largest is the squared maximal
correlation, and a component 0 is a direction of X that tells nothing about S (du Pin Calmon, Makhdoumi, Médard,
Varia, Christiansen and Duffy, Principal Inertia Components and Applications, IEEE Trans. IT 63(8), 2017).

Bu, Wang and Wornell (SDP Methods for Sensitivity-Constrained Privacy Funnel and Information Bottleneck Problems, ISIT
2021) look at channels whose posteriors w_y stay near p_x. With φ_y = (w_y − p_x)/√p_x and Λ = Σ_y r_y φ_y φ_yᵀ,

    χ²(X;Y) = tr Λ,   χ²(S;Y) = tr(B_S Λ B_Sᵀ),   0 ⪯ Λ ⪯ I,   Λ√p_x = 0,   I ≈ χ²/2,

so that the funnel becomes a semidefinite program: least tr(B_SᵀB_S Λ) for tr Λ ≥ ρ, or, with a third variable U that
the release is for, for tr(B_UᵀB_U Λ) ≥ ρ. The spectral theorem solves both: Λ collects the smallest components, or
the eigenvectors of B_SᵀB_S − λ B_UᵀB_U below 0 at the one multiplier λ that meets ρ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privfunnel.errors import InfeasibleError, InvalidInputError, need
from privfunnel.infra.checks import is_number
from privfunnel.measures import TINY, Array
from privfunnel.model.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Components below this share of 1 are 0 but for rounding.
NOTHING = 1e-12
#: Public symbols beyond this make M × M matrices that fill the memory.
MOST_SYMBOLS = 4000


@dataclass(frozen=True, eq=False)
class Inertia:
    """The principal inertia components of a problem, largest first.

    Attributes:
        problem: The problem.
        values: The components, each in [0, 1], shape (M − 1,).
        directions: Their unit vectors, all orthogonal to √p(x), shape (M, M − 1).
    """

    problem: Problem
    values: Array
    directions: Array

    @property
    def chi_squared(self) -> float:
        """χ²(S;X), their sum."""
        return float(self.values.sum())

    @property
    def hidden(self) -> int:
        """How many directions of X tell nothing about S; where there is one, something can be released for free."""
        return int((self.values <= NOTHING).sum())

    @cached_property
    def maximal_correlation(self) -> float:
        """The largest correlation of a function of S with a function of X, in [0, 1]."""
        return float(np.sqrt(self.values.max(initial=0.0)))

    def plot(self) -> Figure:
        """The spectrum (needs matplotlib): how much each direction of X tells about S."""
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(5.2, 3.2), layout="constrained"
        )
        ax = figure.add_subplot()
        ax.bar(np.arange(1, self.values.size + 1), self.values, color="#0072B2", width=0.8)
        ax.set_xlabel(f"direction of X ({self.hidden} of {self.values.size} tell nothing)")
        ax.set_ylabel("principal inertia component")
        ax.set_ylim(0.0, 1.0)
        return figure


@dataclass(frozen=True, eq=False)
class LocalFunnel:
    """The funnel in its local approximation: Λ (M, M) and what it has of each χ².

    Attributes:
        matrix: Λ, 0 ⪯ Λ ⪯ I, Λ√p = 0.
        chi_squared_x: tr Λ.
        chi_squared_s: tr(B_S Λ B_Sᵀ).
        chi_squared_u: tr(B_U Λ B_Uᵀ) of a third variable, or None.
    """

    matrix: Array
    chi_squared_x: float
    chi_squared_s: float
    chi_squared_u: float | None = None


def normalised(p_ax: Array) -> Array:
    """B = diag(p_a)^−½ (p(a,x) − p(a)p(x)) diag(p_x)^−½ of a joint table (A, M) without empty rows or columns."""
    p_a, p_x = p_ax.sum(axis=1, keepdims=True), p_ax.sum(axis=0)
    return np.asarray((p_ax - p_a * p_x) / np.sqrt(p_a * p_x))


def components(problem: Problem) -> Inertia:
    """The principal inertia components of (S, X), by one eigenvalue decomposition."""
    values, directions = _spectrum(problem.p_x, _square(problem.p_sx))
    return Inertia(problem, np.clip(values[::-1], 0.0, 1.0), directions[:, ::-1])


def mixed_directions(problem: Problem, multiplier: float) -> tuple[Array, Array]:
    """Eigenvalues (M − 1,), increasing, and eigenvectors (M, M − 1) of B_SᵀB_S − λ B_UᵀB_U for the tasks U."""
    return _spectrum(problem.p_x, _square(problem.p_sx) - multiplier * _task_square(problem))


def local_funnel(problem: Problem, chi_squared: float, *, task: bool = False) -> LocalFunnel:
    """The least χ²(S;Y) for χ²(X;Y) ≥ ``chi_squared``, or χ²(U;Y) ≥ it for the problem's tasks U, near p(x).

    Args:
        problem: The problem.
        chi_squared: ρ ≥ 0, at most M − 1 (or χ²(U;X)).
        task: Whether ρ is asked of the problem's tasks instead of X.

    Raises:
        InfeasibleError: No channel has as much.
    """
    if not is_number(chi_squared) or not chi_squared >= 0.0:
        raise InvalidInputError(f"chi_squared={chi_squared!r} is not usable: give a number ≥ 0")
    square = _square(problem.p_sx)
    if not task:
        most = float(problem.n_x - 1)
        _, vectors = _spectrum(problem.p_x, square)
        _check_reach(chi_squared, most, "χ²(X;Y)")
        filled = np.clip(chi_squared - np.arange(vectors.shape[1]), 0.0, 1.0)
        matrix = (vectors * filled) @ vectors.T
        return LocalFunnel(matrix, float(np.trace(matrix)), float(np.sum(square * matrix)))
    wanted = _task_square(problem)
    _check_reach(chi_squared, float(np.trace(wanted)), "χ²(U;Y)")
    matrix = _meeting(problem.p_x, square, wanted, float(chi_squared))
    reached = float(np.sum(wanted * matrix))
    return LocalFunnel(matrix, float(np.trace(matrix)), float(np.sum(square * matrix)), reached)


def posteriors(problem: Problem, directions: Array, scales: tuple[float, ...]) -> Array:
    """Posteriors p ± c√p∘v (n, M) along ``directions`` (M, d), c each of ``scales`` times the largest."""
    found = []
    for sign in (1.0, -1.0):
        moves = sign * np.sqrt(problem.p_x)[:, None] * directions
        # p + c·move ≥ 0 for every symbol
        ratios = np.where(moves < 0.0, -moves / problem.p_x[:, None], 0.0).max(axis=0)
        largest = 1.0 / np.maximum(ratios, NOTHING)
        for scale in scales:
            found.append((problem.p_x[:, None] + scale * largest * moves).T)
    made = np.maximum(np.concatenate(found), 0.0)
    return np.asarray(made / made.sum(axis=1, keepdims=True))


def _check_reach(asked: float, most: float, name: str) -> None:
    if asked > most * (1.0 + 1e-9) + 1e-12:
        raise InfeasibleError(f"chi_squared={asked!r} is infeasible: {name} is at most {most:.6g}")


def _square(p_ax: Array) -> Array:
    """BᵀB, shape (M, M)."""
    table = normalised(p_ax)
    return np.asarray(table.T @ table)


def _task_square(problem: Problem) -> Array:
    """Σ ω BᵀB of the problem's tasks, shape (M, M)."""
    tasks = problem.required_tasks().tasks
    return np.asarray(sum(task.weight * _square(task.p_u_given_x * problem.p_x) for task in tasks))


def _spectrum(p_x: Array, matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, increasing, and eigenvectors of a symmetric matrix on the vectors orthogonal to √p(x)."""
    if p_x.size > MOST_SYMBOLS:
        raise InvalidInputError(
            f"the table has {p_x.size} public symbols: the spectrum takes up to {MOST_SYMBOLS}; use fewer columns"
        )
    # Columns 2 … M of the reflection that takes the first unit vector to √p are a basis of them.
    v = -np.sqrt(p_x)
    v[0] += 1.0 if p_x[0] < 0.5 else -1.0
    basis = (np.eye(p_x.size) - 2.0 * np.outer(v, v) / max(float(v @ v), TINY))[:, 1:]
    values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
    return values, np.asarray(basis @ vectors)


def _meeting(p_x: Array, square: Array, wanted: Array, asked: float) -> Array:
    """Λ (M, M): the projector on the negative directions of ``square − λ wanted``, mixed where it meets ``asked``."""
    low, high = 0.0, 1.0

    def projector(multiplier: float) -> tuple[Array, float]:
        values, vectors = _spectrum(p_x, square - multiplier * wanted)
        chosen = vectors[:, values < 0.0]
        matrix = np.asarray(chosen @ chosen.T)
        return matrix, float(np.sum(wanted * matrix))

    while projector(high)[1] < asked and high < 1e12:
        low, high = high, 4.0 * high
    # Halvings of the bracket of a multiplier.
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if projector(middle)[1] >= asked else (middle, high)
    below, had = projector(low)
    above, has = projector(high)
    share = 1.0 if has <= had else min(max((asked - had) / (has - had), 0.0), 1.0)
    return np.asarray(share * above + (1.0 - share) * below)
