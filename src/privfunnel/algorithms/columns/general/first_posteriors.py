"""The posteriors that a search begins with: allowed ones, of which p(x) is a mixture, that already disclose much.

A posterior with the private distribution p(s) of the table itself meets every guarantee about p(s|y) that can be met at
all. What k asks for is met by every part of p(x) with enough weight: r w ≤ p(x) gives w ≤ p(x)/r.
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.columns.general.tangent_relaxation import Relaxation
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.perfect.splitting import split
from privfunnel.certificate.attacker_images import stack
from privfunnel.measures import Array
from privfunnel.model.threat import Stratum, Threat

#: By how much a private posterior may miss the equations that make it private.
PRIVATE = 1e-11


def first_posteriors(
    stratum: Stratum, relaxation: Relaxation, threat: Threat, zero: bool, deadline: Deadline
) -> Array:
    """A posterior that says nothing, single symbols or groups of them, and splits of p(x) that tell nothing, (n, M).

    Args:
        stratum: The symbols.
        relaxation: The stratum's programs.
        threat: Attackers and guarantees.
        zero: Whether nothing may leak to any attacker.
        deadline: When to stop splitting; what is left stays together.
    """
    p_x = stratum.problem.p_x
    caps = relaxation.images.caps[: p_x.size]
    capped = caps < 1.0
    least = float((p_x[capped] / caps[capped]).max(initial=0.0))
    made = [p_x[None, :]]
    if not relaxation.constrained:
        made.append(together(p_x, np.eye(p_x.size), least))
    if zero and not threat.guarantees:
        rows, goal = relaxation.equations
        parts = split(rows, goal, p_x, deadline).posteriors.toarray()
        made.append(parts[np.abs(parts @ rows.T - goal).max(axis=1) <= PRIVATE])
    else:
        kept_from = [Threat(threat.attackers, threat.published)]
        if threat.guarantees and not zero and len(threat.attackers) > 1:
            kept_from.append(
                Threat(threat.attackers[:1], threat.published)
            )  # whose leakage guarantees are about
        # Where guarantees hold, parts of p(x) with less weight are put together: rounding has its share in them.
        made += [_private(stratum, each, max(least, 1e-9), deadline) for each in kept_from]
    return np.concatenate(made)


def _private(stratum: Stratum, threat: Threat, least: float, deadline: Deadline) -> Array:
    """Posteriors (n, M) that tell these attackers nothing, parts of p(x) with at least a weight each."""
    images = stack(stratum, threat, [0.0] * len(threat.averages), zero=True)
    rows, goal = Relaxation(images, stratum.problem.p_x).equations
    parts = split(rows, goal, stratum.problem.p_x, deadline)
    posteriors = together(parts.weights, parts.posteriors.toarray(), least)
    return np.asarray(posteriors[np.abs(posteriors @ rows.T - goal).max(axis=1) <= PRIVATE])


def together(weights: Array, posteriors: Array, least: float) -> Array:
    """Parts of p(x), weights (n,) and posteriors (n, M), with at least the weight ``least`` each: posteriors (k, M).

    What is heavy enough stays as it is, the others are put together in their order.
    """
    group = np.zeros(weights.size, dtype=np.intp)
    number, held = 0, 0.0
    for part in np.argsort(weights < least, kind="stable"):
        group[part] = number
        held += float(weights[part])
        if held >= least:
            number, held = number + 1, 0.0
    group = np.minimum(group, max(number - 1, 0))  # what is left at the end goes with the last
    sums = np.zeros((int(group.max()) + 1, posteriors.shape[1]))
    np.add.at(sums, group, weights[:, None] * posteriors)
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))
