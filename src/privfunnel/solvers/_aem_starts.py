"""Random feasible starts for AEM.

A start must disclose at least R and be positive wherever the solution may be, because the update is
multiplicative. Each is a random channel, mixed with an *anchor* (a deterministic map of the public symbols
onto the outputs) by the smallest weight that reaches R. With at least M outputs the anchor is a permuted
identity and discloses H(X); with fewer it is a balanced partition of the public symbols, and what it discloses
is the most that such starts can reach.

The rows of the random channel are Dirichlet draws whose concentration depends on the restart
(:data:`CONCENTRATIONS`): flat rows find solutions whose outputs share many symbols, sparse rows those whose
posteriors have few.

A start depends on the seed and on the index of the restart alone (and on R through the weight of the anchor),
never on the batch it runs in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from privfunnel.errors import InfeasibleError
from privfunnel.measures import Array, mutual_information
from privfunnel.solvers._aem_step import Tables

CONCENTRATIONS = (1.0, 0.1, 0.3)
# The start may disclose more than R by this share of H(X): the first iterations take up the slack.
SLACK = 1.0e-3


@dataclass
class Starts:
    """The starts of one problem, drawn on demand.

    Attributes:
        tables: The problem's tables.
        n_y: Number of outputs N.
        seed: The caller's seed.
    """

    tables: Tables
    n_y: int
    seed: int
    _drawn: tuple[int, Array, Array] | None = field(default=None, init=False, repr=False)

    def draw(self, restart: int) -> tuple[Array, Array]:
        """The random channel and the anchor of a restart, both (M, N)."""
        if self._drawn is None or self._drawn[0] != restart:
            rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(restart,)))
            concentration = CONCENTRATIONS[restart % len(CONCENTRATIONS)]
            self._drawn = (
                restart,
                random_channel(len(self.tables.p_x), self.n_y, concentration, rng),
                anchor(self.tables.p_x, self.n_y, rng),
            )
        return self._drawn[1], self._drawn[2]

    def channel(self, restart: int, disclosure: float) -> Array:
        """The start of a restart: a channel (M, N) with I(X;Y) ≥ ``disclosure``, in nats."""
        random, anchored = self.draw(restart)
        p_x = self.tables.p_x[:, None]

        def excess(weight: float) -> float:
            return float(mutual_information(p_x * mix(random, anchored, weight))) - disclosure

        if excess(0.0) >= 0.0:
            return random
        ceiling = excess(1.0) + disclosure
        if ceiling < disclosure:
            if self.n_y >= len(self.tables.p_x):
                return anchored  # R is H(X) up to rounding
            raise InfeasibleError(
                f"n_y={self.n_y} outputs reach a disclosure of {ceiling:.6g} nats from restart {restart}, less than "
                f"the {disclosure:.6g} asked for: raise n_y (M + 1 = {len(self.tables.p_x) + 1} always suffices)"
            )
        return mix(random, anchored, _smallest_weight(excess, SLACK * self.tables.h_x))


def mix(random: Array, anchored: Array, weight: float) -> Array:
    """(1 − weight)·random + weight·anchored."""
    return np.asarray((1.0 - weight) * random + weight * anchored)


def _smallest_weight(excess: Callable[[float], float], slack: float) -> float:
    """A weight with 0 ≤ excess ≤ slack. Disclosure is convex in the weight, so there is a single crossing."""
    low, high = 0.0, 1.0
    at_low, at_high = excess(low), excess(high)
    for _ in range(60):
        if at_high <= slack:
            break
        # A secant from below never overshoots a convex function's root from the feasible side; halve when it stalls.
        secant = high - at_high * (high - low) / (at_high - at_low)
        trial = 0.5 * (secant + high)
        value = excess(trial)
        if value >= 0.0:
            high, at_high = trial, value
        else:
            low, at_low = trial, value
    return high


def random_channel(n_x: int, n_y: int, concentration: float, rng: np.random.Generator) -> Array:
    """A channel (M, N) whose rows are symmetric Dirichlet draws, strictly positive."""
    # Gamma draws of small shape underflow: floor them far below anything that matters so that no entry is lost.
    draw = np.maximum(rng.gamma(concentration, size=(n_x, n_y)), 1.0e-100)
    return np.asarray(draw / draw.sum(axis=1, keepdims=True))


def anchor(p_x: Array, n_y: int, rng: np.random.Generator) -> Array:
    """A deterministic channel (M, N) that discloses as much as can be had with N outputs.

    With N ≥ M an injection drawn at random. Otherwise the symbols, heaviest first with a little jitter in
    their order, go each to the output with the least mass (the classical greedy for balanced partitions).
    """
    n_x = len(p_x)
    channel = np.zeros((n_x, n_y))
    columns = rng.permutation(n_y)
    if n_y >= n_x:
        channel[np.arange(n_x), columns[:n_x]] = 1.0
        return channel
    mass = np.zeros(n_y)
    for symbol in np.argsort(-p_x * rng.uniform(0.9, 1.1, size=n_x)):
        slot = int(np.argmin(mass))
        mass[slot] += p_x[symbol]
        channel[symbol, columns[slot]] = 1.0
    return channel
