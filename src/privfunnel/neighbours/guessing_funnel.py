r"""The guessing funnel: how often X can be guessed right from a release that lets S be guessed right at most so often.

Asoodeh, Diaz, Alajaji and Linder (Estimation Efficiency Under Privacy Constraints, IEEE Trans. IT 65(3), 2019) replace
both informations of the privacy funnel by the probability of a right guess, P_c(X|Y) = Σ_y max_x p(x,y):

    maximise P_c(X|Y)   subject to   P_c(S|Y) ≤ c.

Outputs that lead to the same guess of X may be merged: the first number stays, the second does not rise. So M outputs,
each named after a guess, are enough, and with u = p(x,y) ≥ 0, Σ_y u_xy = p(x),

    maximise Σ_y u_yy   subject to   Σ_y m_y ≤ c,   m_y ≥ Σ_x p(s|x) u_xy for every s,

is a linear program with the exact answer. Its dual variables are the certificate. The curve is concave and piecewise
linear from c = max p(s) to P_c(S|X).

    >>> import privfunnel as pf
    >>> problem = pf.Problem([[0.4, 0.1], [0.1, 0.4]])
    >>> round(pf.guessing_funnel.solve(problem, 0.65).public_accuracy, 6)
    0.75
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from privfunnel import measures
from privfunnel.certificate import Certificate, GuessingBody
from privfunnel.errors import InfeasibleError, InvalidInputError, SolverError
from privfunnel.infra.checks import is_number, is_whole
from privfunnel.infra.storage import Document, Stored
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.problem import Problem

#: Public symbols beyond this make a program of M² unknowns that takes minutes.
MOST_SYMBOLS = 400
#: A release keeps an asked accuracy when it exceeds it by no more than this.
KEPT = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class GuessingPoint:
    """A release of the guessing funnel; probabilities, all computed from the channel.

    Attributes:
        problem: The problem.
        channel: p(y|x), shape (M, N).
        requested: c, how often S may be guessed right.
        certificate: Proves :attr:`upper_bound`.
    """

    problem: Problem
    channel: Array
    requested: float
    certificate: Certificate

    @cached_property
    def public_accuracy(self) -> float:
        """P_c(X|Y), how often the best guess of X is right."""
        return float(measures.guessing_accuracy(channels.joint(self.problem.p_x, self.channel)))

    @cached_property
    def private_accuracy(self) -> float:
        """P_c(S|Y), how often the best guess of S is right."""
        return float(measures.guessing_accuracy(self.problem.p_sx @ self.channel))

    @property
    def upper_bound(self) -> float:
        """Proved: no release that keeps c lets X be guessed right more often."""
        return min(self.certificate.upper_bound(self.requested), 1.0)

    @property
    def gap(self) -> float:
        """What :attr:`public_accuracy` is below the proved bound, never negative."""
        return max(self.upper_bound - self.public_accuracy, 0.0)

    def __repr__(self) -> str:
        """One line with the numbers."""
        return (
            f"GuessingPoint(X guessed {self.public_accuracy:.6g} ≤ {self.upper_bound:.6g}, S guessed "
            f"{self.private_accuracy:.6g} of {self.requested:.6g} allowed)"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class GuessingCurve(Stored):
    """The guessing funnel, point by point, from max p(s) to P_c(S|X).

    Attributes:
        problem: The problem.
        points: The points, by increasing c.
    """

    schema: ClassVar[str] = "privfunnel/guessing-curve"

    problem: Problem
    points: tuple[GuessingPoint, ...]

    def __repr__(self) -> str:
        """One line with the number of points."""
        return f"GuessingCurve({len(self.points)} points of {self.problem!r})"

    def proved(self, accuracy: float) -> float:
        """The least that the certified lines allow P_c(X|Y) to be where P_c(S|Y) ≤ ``accuracy``."""
        return min(1.0, *(point.certificate.upper_bound(accuracy) for point in self.points))

    def rows(self) -> list[dict[str, float]]:
        """One dictionary a point: accuracies, bound and gap."""
        return [
            {"allowed": p.requested, "private_accuracy": p.private_accuracy, "public_accuracy": p.public_accuracy,
             "upper_bound": p.upper_bound, "gap": p.gap}
            for p in self.points
        ]  # fmt: skip

    def to_dict(self) -> Document:
        """A JSON-ready form with channels and multipliers; numbers are computed again when it is read."""
        points = [
            {"requested": p.requested, "channel": channels.to_stored(p.channel), "slope": p.certificate.slope,
             "weights": p.certificate.body_of(GuessingBody).weights.tolist(), "intercept": p.certificate.intercept}
            for p in self.points
        ]  # fmt: skip
        return {**self.heading(), "problem": self.problem.to_dict(), "points": points}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every certificate is verified.

        Raises:
            CertificateError: A certificate in it does not prove what it claims.
        """
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            points = []
            for each in data["points"]:
                claim = GuessingBody.claim(float(each["slope"]), float(each["intercept"]))
                weights = np.array(each["weights"], dtype=np.float64)
                certificate = Certificate(problem.fingerprint, claim, GuessingBody(weights=weights))
                certificate.verify(problem)
                points.append(GuessingPoint(
                    problem=problem, channel=channels.from_stored(each["channel"]),
                    requested=float(each["requested"]), certificate=certificate,
                ))  # fmt: skip
            return cls(problem=problem, points=tuple(points))


def accuracy_range(problem: Problem) -> tuple[float, float]:
    """How often S is guessed right without the release, max p(s), and from X itself, P_c(S|X)."""
    return float(problem.p_s.max()), float(measures.guessing_accuracy(problem.p_sx))


def solve(problem: Problem, accuracy: float) -> GuessingPoint:
    """The most P_c(X|Y) with P_c(S|Y) ≤ ``accuracy``, exactly, with its proof.

    Args:
        problem: The problem, with at most 400 public symbols.
        accuracy: How often S may be guessed right, from max p(s) on; 1 or more restrains nothing.

    Raises:
        InfeasibleError: S is guessed right more often without any release.
    """
    if not is_number(accuracy) or not accuracy >= 0.0:
        raise InvalidInputError(f"accuracy={accuracy!r} is not usable: give a probability")
    if problem.n_x > MOST_SYMBOLS:
        raise InvalidInputError(
            f"the table has {problem.n_x} public symbols: the guessing funnel takes up to {MOST_SYMBOLS}; use fewer "
            "columns or wider bins"
        )
    least, most = accuracy_range(problem)
    if accuracy < least - KEPT:
        raise InfeasibleError(
            f"accuracy={accuracy!r} is infeasible: without any release S is guessed right {least:.6g} of the time"
        )
    allowed = min(max(float(accuracy), least), most)
    return _solved(problem, allowed, float(accuracy))


def trace(problem: Problem, *, points: int = 20, accuracies: Iterable[float] | None = None) -> GuessingCurve:
    """The curve of P_c(X|Y) against P_c(S|Y).

    Args:
        problem: The problem, with at most 400 public symbols.
        points: Number of accuracies, uniform from max p(s) to P_c(S|X).
        accuracies: The accuracies, instead of ``points``.
    """
    if not is_whole(points) or points < 2:
        raise InvalidInputError(f"points={points!r} is not usable: give a whole number ≥ 2")
    chosen = np.linspace(*accuracy_range(problem), points) if accuracies is None else accuracies
    wanted = sorted({float(accuracy) for accuracy in chosen})
    if not wanted:
        raise InvalidInputError("accuracies is empty: give at least one")
    return GuessingCurve(problem=problem, points=tuple(solve(problem, accuracy) for accuracy in wanted))


def _solved(problem: Problem, allowed: float, requested: float) -> GuessingPoint:
    """Solve the program; unknowns are u_xy by guess y, then m_y."""
    n_s, n_x = problem.n_s, problem.n_x
    ones: Any = sparse.eye_array(n_x)
    # Σ_x p(s|x) u_xy − m_y ≤ 0, one row for each guess y and symbol s; then Σ_y m_y ≤ c.
    told: Any = sparse.hstack([sparse.kron(ones, problem.p_s_given_x), -sparse.kron(ones, np.ones((n_s, 1)))])
    budget = sparse.csr_array(np.concatenate([np.zeros(n_x * n_x), np.ones(n_x)])[None])
    spent: Any = sparse.hstack([sparse.kron(np.ones((1, n_x)), ones), sparse.csr_array((n_x, n_x))])
    cost = np.concatenate([-np.eye(n_x).ravel(), np.zeros(n_x)])
    limits = np.concatenate([np.zeros(n_s * n_x), [allowed]])
    solver: Any = linprog
    found = solver(
        cost, A_ub=sparse.csr_array(sparse.vstack([told, budget])), b_ub=limits,
        A_eq=sparse.csr_array(spent), b_eq=problem.p_x, method="highs",
    )  # fmt: skip
    if found.x is None:
        raise SolverError(f"the linear program of the guessing funnel was not solved ({found.message})")
    joint = np.maximum(found.x[: n_x * n_x].reshape(n_x, n_x).T, 0.0)
    channel = channels.merge_outputs(joint / joint.sum(axis=1, keepdims=True))
    duals = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    weights = np.ascontiguousarray(duals[:-1].reshape(n_x, n_s).T)
    certificate = GuessingBody.build(problem, float(duals[-1]), weights)
    return GuessingPoint(problem=problem, channel=channel, requested=requested, certificate=certificate)
