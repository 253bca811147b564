"""Random feasible starts for AEM.

A start must disclose at least R and be positive wherever the solution may be, because the update is multiplicative.
Each is a random channel, mixed with an *anchor* (a deterministic map of the public symbols onto the outputs) by about
the smallest weight that reaches R. With at least M outputs the anchor is a permuted identity and discloses H(X); with
fewer it is a balanced partition of the public symbols, and what it discloses is the most that such starts can reach.

The rows of the random channel are Dirichlet draws whose concentration depends on the restart
(:data:`CONCENTRATIONS`). Flat rows alone (concentration 1) miss solutions whose posteriors have few symbols:
on the skewed synthetic problem they stop 5e-5 nats above the optimum at 0.90·H(X) and 1e-3 at 0.95·H(X); the
sparse rows (0.3) find both.

A start depends on the seed and on the index of the restart alone (and on R through the weight of the anchor),
never on the batch it runs in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InfeasibleError
from privfunnel.measures import Array, xlogx
from privfunnel.solvers._aem_step import Tables, pieces

CONCENTRATIONS = (1.0, 0.3, 0.1, 1.0)
# The start may disclose more than R by this share of H(X): the first iterations take up the slack.
SLACK = 1.0e-3
# Random channels kept for later use, in bytes.
KEPT_BYTES = 1 << 26


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
    _drawn: dict[int, Array] = field(default_factory=dict, init=False, repr=False)
    _anchors: dict[int, NDArray[np.intp]] = field(default_factory=dict, init=False, repr=False)

    def _begin(self, restart: int) -> np.random.Generator:
        """The generator of a restart after its anchor, which comes first so that it can be had alone."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(restart,)))
        self._anchors[restart] = anchor(self.tables.p_x, self.n_y, rng)
        return rng

    def anchor(self, restart: int) -> NDArray[np.intp]:
        """The output that the anchor of a restart sends each symbol to, shape (M,)."""
        if restart not in self._anchors:
            self._begin(restart)
        return self._anchors[restart]

    def draw(self, restart: int) -> Array:
        """The random channel (M, N) of a restart."""
        found = self._drawn.get(restart)
        if found is None:
            rng = self._begin(restart)
            concentration = CONCENTRATIONS[restart % len(CONCENTRATIONS)]
            found = random_channel(len(self.tables.p_x), self.n_y, concentration, rng)
            if (len(self._drawn) + 1) * found.nbytes <= KEPT_BYTES:
                self._drawn[restart] = found
        return found

    def channels(self, restarts: Sequence[int], disclosures: Array) -> Array:
        """The starts of several runs: channels (B, M, N) with I(X;Y) ≥ their ``disclosures`` (B,), in nats."""
        channels = np.empty((len(restarts), len(self.tables.p_x), self.n_y))
        for run, restart in enumerate(restarts):
            channels[run] = self.draw(restart)
        return self.lift(channels, restarts, disclosures)

    def lift(self, channels: Array, restarts: Sequence[int], disclosures: Array) -> Array:
        """Mix channels (B, M, N) with their restarts' anchors until they disclose what they must, in place.

        Raises:
            InfeasibleError: An anchor itself discloses less, because it has too few outputs.
        """
        outputs = np.stack([self.anchor(restart) for restart in restarts])
        mixture = Mixture.of(self.tables.p_x, channels, outputs)
        if self.n_y < outputs.shape[1]:
            short = disclosures - mixture.disclosure(np.ones((len(restarts), 1)))[:, 0]
            if short.max() > 0.0:
                worst = int(np.argmax(short))
                raise InfeasibleError(
                    f"n_y={self.n_y} outputs reach a disclosure of {disclosures[worst] - short[worst]:.6g} nats, "
                    f"less than the {disclosures[worst]:.6g} asked for: raise n_y "
                    f"(M + 1 = {outputs.shape[1] + 1} always suffices)"
                )
        weights = mixture.weights(disclosures, SLACK * self.tables.h_x)
        channels *= 1.0 - weights[:, None, None]
        runs, symbols = np.indices(outputs.shape)
        channels[runs, symbols, outputs] += weights[:, None]
        return channels


@dataclass(frozen=True)
class Mixture:
    """The disclosures of (1 − w)·channel + w·anchor as functions of w alone, without building the mixtures.

    In a row all entries but the anchor's are scaled by 1 − w, so that the row's Σ c log c is known once and for all.

    Attributes:
        p_x: p(x), shape (M,).
        own: The channels' entry at each row's anchor, shape (B, M).
        rest: Σ c log c over the other entries of each row, shape (B, M).
        p_y: p(y) of the channels, shape (B, N).
        q_y: p(y) of the anchors, shape (B, N).
    """

    p_x: Array
    own: Array
    rest: Array
    p_y: Array
    q_y: Array

    @classmethod
    def of(cls, p_x: Array, channels: Array, outputs: NDArray[np.intp]) -> Mixture:
        """Mixtures of channels (B, M, N) with the anchors that send symbol i of run b to ``outputs[b, i]``."""
        runs, symbols = np.indices(outputs.shape)
        own = channels[runs, symbols, outputs]
        rest = -xlogx(own)
        for part in pieces(len(channels), 4 * channels[0].nbytes):
            rest[part] += xlogx(channels[part]).sum(axis=-1)
        q_y = np.zeros((len(channels), channels.shape[2]))
        np.add.at(q_y, (runs, outputs), np.broadcast_to(p_x, outputs.shape))
        return cls(p_x, own, rest, (channels * p_x[:, None]).sum(axis=1), q_y)

    def disclosure(self, weights: Array) -> Array:
        """I(X;Y) of each run (B,) at each of its weights w (B, G), in nats; shape (B, G)."""
        w, keep = weights[..., None], 1.0 - weights[..., None]
        own, rest = self.own[:, None], self.rest[:, None]
        rows = keep * rest + xlogx(keep) * (1.0 - own) + xlogx(keep * own + w)
        outputs = xlogx(keep * self.p_y[:, None] + w * self.q_y[:, None])
        return np.asarray((rows * self.p_x).sum(axis=-1) - outputs.sum(axis=-1))

    def weights(self, disclosures: Array, slack: float) -> Array:
        """About the smallest w (B,) that disclose ``disclosures`` (B,), from above, within ``slack`` if floats allow.

        Disclosure is convex in w, so there is a single crossing; seven weights a round cut the bracket to an eighth.
        """
        size = len(disclosures)
        low, high = np.zeros(size), np.ones(size)
        cuts = np.arange(1, 8) / 8.0
        enough = self.disclosure(np.zeros((size, 1)))[:, 0] >= disclosures
        high[enough] = 0.0
        done = enough.copy()
        for _ in range(18):
            if done.all():
                break
            grid = low[:, None] + (high - low)[:, None] * cuts
            excess = self.disclosure(grid) - disclosures[:, None]
            above = np.where(excess[:, -1] >= 0.0, np.argmax(excess >= 0.0, axis=1), len(cuts))
            runs = np.arange(size)
            new_high = np.where(above < len(cuts), grid[runs, np.minimum(above, len(cuts) - 1)], high)
            new_low = np.where(above > 0, grid[runs, np.maximum(above - 1, 0)], low)
            close = (above < len(cuts)) & (excess[runs, np.minimum(above, len(cuts) - 1)] <= slack)
            high, low = np.where(done, high, new_high), np.where(done, low, new_low)
            done |= close
        return high


def random_channel(n_x: int, n_y: int, concentration: float, rng: np.random.Generator) -> Array:
    """A channel (M, N) whose rows are symmetric Dirichlet draws, strictly positive."""
    # Gamma draws of small shape underflow: floor them far below anything that matters so that no entry is lost.
    draw = np.maximum(rng.gamma(concentration, size=(n_x, n_y)), 1.0e-100)
    return np.asarray(draw / draw.sum(axis=1, keepdims=True))


def anchor(p_x: Array, n_y: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """An output for each symbol (M,), such that the map discloses about as much as can be had with N outputs.

    With N ≥ M an injection drawn at random. Otherwise the symbols, heaviest first, go each to the output with
    the least mass (the classical greedy for balanced partitions), ties and the outputs' names drawn at random.
    """
    n_x = len(p_x)
    names = rng.permutation(n_y)
    if n_y >= n_x:
        return names[:n_x]
    mass = np.zeros(n_y)
    chosen = np.empty(n_x, dtype=np.intp)
    for symbol in np.lexsort((rng.uniform(size=n_x), -p_x)):
        slot = int(np.argmin(mass))
        mass[slot] += p_x[symbol]
        chosen[symbol] = names[slot]
    return chosen
