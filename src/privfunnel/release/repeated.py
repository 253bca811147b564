"""Releases of the same rows, one after another: what they tell together.

Y_1, …, Y_m are drawn independently given x. Leakages do not add up: two draws that tell nothing alone may tell much
together, because the decoys change while the true symbol stays. I(S;Y_1 … Y_m) is computed from the channel of the
tuple, p(y_1|x) ··· p(y_m|x), whose outputs are whole released symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from privfunnel.errors import InvalidInputError
from privfunnel.measures import INFORMATION, Channel, Measure
from privfunnel.model import channels
from privfunnel.model.problem import Problem

#: A joint channel may have so many entries that are not 0.
MOST_ENTRIES = 30_000_000


def joint_channel(problem: Problem, releases: Iterable[Any]) -> Channel:
    """p(y_1 … y_m|x) of releases drawn independently given x, shape (M, N): outputs that never occur are left out.

    Args:
        problem: The problem.
        releases: Channels p(y|x), or what has one: solutions, mechanisms.

    Raises:
        InvalidInputError: There is none, one does not fit the problem, or all together have too many outputs.
    """
    given = [problem.check_channel(getattr(release, "channel", release)) for release in releases]
    if not given:
        raise InvalidInputError("no channel is given: give a list with at least one")
    joint = given[0]
    for number, channel in enumerate(given[1:], 2):
        first, second = (sparse.csr_array(each) for each in (joint, channel))
        entries = int(np.diff(first.indptr) @ np.diff(second.indptr))
        if entries > MOST_ENTRIES:
            raise InvalidInputError(
                f"the first {number} releases have {entries:,} joint entries, more than {MOST_ENTRIES:,}: give "
                "fewer of them"
            )
        joint = channels.paired(first, second)
    return joint


def joint_leakage(
    problem: Problem, releases: Iterable[Any], *, known: object = None, measure: Measure | str = INFORMATION
) -> float:
    """What releases of the same rows tell together: I(S;Y_1 … Y_m) in nats, exactly.

    Args:
        problem: The problem.
        releases: Channels p(y|x), or what has one: solutions, mechanisms. The same one twice stands for two draws.
        known: What attackers may know besides, as for :meth:`Problem.evaluate`: the largest leakage among them.
        measure: What leakage is measured by.

    Raises:
        InvalidInputError: A channel does not fit, or all together have too many outputs.
    """
    return problem.evaluate(joint_channel(problem, releases), known=known, measure=measure).leakage
