"""One place that knows how a HiGHS model is set up here."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from privfunnel.algorithms.deadline import NEVER, Deadline

#: Feasibility tolerance of models, and HiGHS's own, which is the last resort of :func:`run_robustly`.
TOLERANCE, DEFAULT_TOLERANCE = 1e-10, 1e-7
#: HiGHS's numbers of the dual and the primal simplex method.
DUAL, PRIMAL = 1, 4


#: A bound that does not bind, and the two arrays of a row or column that has no entries yet.
INFINITY = float(highspy.kHighsInf)
NO_ROWS = np.array([], dtype=np.int32)
NO_VALUES = np.array([], dtype=np.float64)


def new_model(*, primal: bool = False) -> Any:
    """A single-threaded model that prints nothing, with tight tolerances; presolve is off, so that it starts warm.

    Args:
        primal: Use the primal simplex method, which stays feasible when columns are added.
    """
    lp = highspy.Highs()  # type: ignore[no-untyped-call]
    lp.silent()
    options: list[tuple[str, float | str]] = [
        ("presolve", "off"),
        ("threads", 1),
        ("primal_feasibility_tolerance", TOLERANCE),
        ("dual_feasibility_tolerance", TOLERANCE),
        # Matrix entries below this are dropped, and a rare symbol's are small.
        ("small_matrix_value", 1e-12),
    ]
    if primal:
        options.append(("simplex_strategy", PRIMAL))
    for name, value in options:
        lp.setOptionValue(name, value)
    return lp


def run_until(lp: Any, deadline: Deadline) -> None:
    """Run the model to its end or to a deadline.

    HiGHS counts the seconds of all runs of a model together, and by the clock on the wall: where the deadline is in CPU
    time, or the two clocks differ by a moment, it goes on from where it was.
    """
    while True:
        # Seconds that a run gets at least: the time limit of HiGHS is to be positive.
        lp.setOptionValue("time_limit", lp.getRunTime() + max(deadline.left(), 1e-3))
        lp.run()
        if lp.getModelStatus() != highspy.HighsModelStatus.kTimeLimit or deadline.passed():
            return


def run_robustly(lp: Any, deadline: Deadline = NEVER) -> bool:
    """Run the model until an optimum is reached, in other ways where the first one stalls; whether one worked.

    A warm basis may stall, and so may either method where the rarest symbol's probability is close to the tolerances:
    start over, by the dual method, and at last with HiGHS's own tolerances. The options are left as they were.
    """
    ways: list[dict[str, float]] = [
        {},
        {},
        {"simplex_strategy": DUAL},
        {"primal_feasibility_tolerance": DEFAULT_TOLERANCE, "dual_feasibility_tolerance": DEFAULT_TOLERANCE},
    ]
    for attempt, options in enumerate(ways):
        if attempt and deadline.passed():
            return False
        if attempt:
            lp.clearSolver()
        before = {name: lp.getOptionValue(name)[1] for name in options}
        for name, value in options.items():
            lp.setOptionValue(name, value)
        run_until(lp, deadline)
        done = is_optimal(lp)
        for name, value in before.items():
            lp.setOptionValue(name, value)
        if done:
            return True
    return False


def is_optimal(lp: Any) -> bool:
    """Whether the last run ended at an optimum."""
    return bool(lp.getModelStatus() == highspy.HighsModelStatus.kOptimal)


def is_infeasible(lp: Any) -> bool:
    """Whether the last run proved that there is no feasible point."""
    return bool(lp.getModelStatus() == highspy.HighsModelStatus.kInfeasible)
