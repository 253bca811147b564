"""Lines below the curve at any numbers of private and public symbols, in a moment: bounds by thinning.

With ε = 1 − μ, p(s|x) the columns of P, and q_x distributions that ε q(s|x) ≤ p(s|x) allows,

    L(R) ≥ I(S;X) − J(ε) − (1 − ε)(H(X) − R),     J(ε) = ε min over q and π of Σ p(x) KL(q_x‖π),

see :mod:`privfunnel.certificate.thinning`. ε = 1 gives L ≥ 0 and ε → 0 the closed form R − H(X|S). J is convex, with
the derivative Σ p(x) log λ_x, so that the best ε at a disclosure is found by bisection; q and π improve each other
in turns, and any π will do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.certificate import Certificate, PlainBody, ThinProof, thinned, thinning_prices
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Halvings of the interval of ε, and turns of q and π after each, which go on from the π before.
HALVINGS, TURNS = 16, 60
#: Private symbols whose π falls below this keep so much of it: π has to be positive.
LEAST_MEASURE = 1e-12
#: What a line claims less than it sums up to, in nats, the first that the checker confirms.
MARGINS = (1e-12, 1e-10, 1e-8)
#: Lines that a leakage budget asks for, and the slope below which one does not rise through it.
CEILINGS, LEAST_SLOPE = 4, 1e-6


def thinning_line(problem: Problem, disclosure: float, deadline: Deadline = NEVER) -> Certificate | None:
    """The certificate of the highest line by thinning at ``disclosure`` nats; None where the closed forms are no lower.

    What is found by the deadline is a line as well, if not the highest.
    """
    room = problem.disclosure_ceiling - disclosure
    measure = np.maximum(problem.p_s, LEAST_MEASURE)
    measure /= measure.sum()
    # The least ε that is tried: with less, the line is the closed form.
    low, high = 1e-4, 1.0
    best = 0.5
    for _ in range(HALVINGS):
        best = 0.5 * (low + high)
        measure, steepness = _settle(problem, best, measure, TURNS, deadline)
        if steepness < room:
            low = best
        else:
            high = best
        if deadline.passed():
            break
    # Turns at the ε that is taken.
    measure, _ = _settle(problem, best, measure, 300, deadline)
    line = _certificate(problem, best, measure)
    if line is None or line.lower_bound(disclosure) <= float(problem.lower_bound(disclosure)):
        return None
    return line


def ceiling_lines(
    problem: Problem, disclosure: float, budget: float, deadline: Deadline = NEVER
) -> Iterator[Certificate]:
    """Lines that rise through a leakage budget beyond ``disclosure``, in nats: each is best where the one before does.

    L(R) ≥ c + μR gives R ≤ (budget − c)/μ for whatever leaks no more than the budget.
    """
    reach = min(problem.disclosure_ceiling, problem.h_x_given_s + budget)
    for _ in range(CEILINGS):
        line = thinning_line(problem, reach, deadline) if reach > disclosure else None
        if line is None:
            return
        yield line
        if line.slope <= LEAST_SLOPE:
            return
        reach = min(reach, (budget - line.intercept) / line.slope)


def _settle(
    problem: Problem, share: float, measure: Array, turns: int, deadline: Deadline
) -> tuple[Array, float]:
    """π after some turns, (K,), and Σ p(x) log λ_x, the derivative of J at ε = ``share``."""
    columns, p_x = problem.p_s_given_x, problem.p_x
    steepness = 0.0
    for _ in range(turns):
        kept, level = thinned(columns, share, measure)
        steepness = float(p_x @ np.log(level))
        new = np.maximum(kept @ p_x / share, LEAST_MEASURE)
        new /= new.sum()
        moved = float(np.max(np.abs(new - measure)))
        measure = new
        # The turns end when no entry of π changes by more than this.
        if moved < 1e-7 or deadline.passed():
            break
    return measure, steepness


def _certificate(problem: Problem, share: float, measure: Array) -> Certificate | None:
    """The line of a share ε and a measure π, confirmed by the checker."""
    slope = 1.0 - share
    kept, _ = thinned(problem.p_s_given_x, 1.0 - slope, measure)
    prices = thinning_prices(problem.p_s_given_x, kept, 1.0 - slope, measure)
    for margin in MARGINS:
        made = PlainBody.build(problem, prices, slope, [ThinProof(claim=-margin, measure=measure)])
        try:
            made.verify(problem)
        except CertificateError:
            continue  # the checker's rounding allowance is its own: claim a little less
        return made
    return None
