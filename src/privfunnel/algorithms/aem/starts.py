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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.aem.state import Tables, pieces
from privfunnel.errors import InfeasibleError
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array, safe_log, xlogx

#: Concentrations of the Dirichlet rows, restart by restart in turn.
CONCENTRATIONS = (1.0, 0.3, 0.1, 1.0)
#: The start may disclose more than R by this share of H(X): the first iterations take up the slack.
SLACK = 1.0e-3
#: Evaluations for the weight of an anchor at most; Newton's method takes about six, bisection of [0, 1] 53.
WEIGHT_EVALUATIONS = 60


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
            # Random channels kept for later use, in bytes.
            if (len(self._drawn) + 1) * found.nbytes <= (1 << 26):
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
            short = disclosures - mixture.disclosure(np.ones(len(restarts)))
            if short.max() > 0.0:
                worst = int(np.argmax(short))
                raise InfeasibleError(
                    f"{self.n_y} outputs reach a disclosure of {disclosures[worst] - short[worst]:.6g} nats, "
                    f"less than the {disclosures[worst]:.6g} asked for: raise the option outputs "
                    f"(M + 1 = {outputs.shape[1] + 1} always suffices)"
                )
        weights = mixture.weights(disclosures, SLACK * self.tables.h_x)
        channels *= 1.0 - weights[:, None, None]
        runs, symbols = np.indices(outputs.shape)
        channels[runs, symbols, outputs] += weights[:, None]
        return channels


class Mixture(NamedTuple):
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

    def of_runs(self, runs: NDArray[np.intp]) -> Mixture:
        """The mixtures of some of the runs."""
        return Mixture(self.p_x, self.own[runs], self.rest[runs], self.p_y[runs], self.q_y[runs])

    def disclosure(self, weights: Array) -> Array:
        """I(X;Y) of each run at its weight w (B,), in nats, shape (B,)."""
        return disclosures_of(self, weights)[0]

    def weights(self, disclosures: Array, slack: float) -> Array:
        """About the smallest w (B,) with ``disclosures`` (B,) or more, by no more than ``slack`` if floats allow.

        Disclosure is convex in w, so that there is a single crossing, and a step of Newton's method lands at it or
        above. Half the slack is aimed for: a step that lands at the crossing itself might fall short by rounding.
        """
        if not COMPILED:
            return smallest_weights(self, disclosures, slack)
        weights = np.empty(len(disclosures))
        compiled_smallest_weights(self, disclosures, slack, weights)
        return weights


def disclosures_of(mixture: Mixture, weights: Array) -> tuple[Array, Array]:
    """I(X;Y) (B,) at the weights w (B,), in nats, and its derivative by w (without its infinite part where w = 1).

    Sums are taken term by term from the left as the compiled twin takes them.
    """
    p_x, own, rest, p_y, q_y = mixture
    w = weights[:, None]
    keep = 1.0 - w
    log_keep = safe_log(keep)
    entry = keep * own + w
    log_entry = safe_log(entry)
    r = keep * p_y + w * q_y
    log_r = safe_log(r)
    of_rows = p_x * (keep * (rest + (1.0 - own) * log_keep) + entry * log_entry)
    slope_of_rows = p_x * ((1.0 - own) * (log_entry - log_keep) - rest)
    value = np.add.accumulate(np.concatenate([of_rows, -(r * log_r)], axis=1), axis=1)
    slope = np.add.accumulate(np.concatenate([slope_of_rows, -((q_y - p_y) * log_r)], axis=1), axis=1)
    return value[:, -1], slope[:, -1]


def smallest_weights(mixture: Mixture, disclosures: Array, slack: float) -> Array:
    """The weights (B,) of :meth:`Mixture.weights`, all runs at once."""
    low, high, weights = np.zeros(len(disclosures)), np.ones(len(disclosures)), np.zeros(len(disclosures))
    runs = np.arange(len(disclosures))
    for _ in range(WEIGHT_EVALUATIONS):
        w = weights[runs]
        value, slope = disclosures_of(mixture.of_runs(runs), w)
        excess = value - disclosures[runs]
        enough = excess >= 0.0
        high[runs[enough]] = w[enough]
        low[runs[~enough]] = w[~enough]
        done = enough & ((excess <= slack) | (w == 0.0))
        floor, ceiling = low[runs], high[runs]
        steep = slope > 0.0
        newton = np.where(steep, w - (excess - 0.5 * slack) / np.where(steep, slope, 1.0), ceiling)
        middle = 0.5 * (floor + ceiling)
        inside = (floor < newton) & (newton < ceiling)
        done |= ~inside & ~((floor < middle) & (middle < ceiling))
        weights[runs] = np.where(inside, newton, middle)
        runs = runs[~done]
        if not len(runs):
            break
    return high


@compiled
def compiled_disclosure(mixture: Mixture, b: int, weight: float) -> tuple[float, float]:
    """:func:`disclosures_of` for run b, as a loop."""
    p_x, own, rest, p_y, q_y = mixture
    keep = 1.0 - weight
    log_keep = np.log(keep) if keep > 0.0 else 0.0
    value = 0.0
    slope = 0.0
    for i in range(p_x.size):
        entry = keep * own[b, i] + weight
        log_entry = np.log(entry) if entry > 0.0 else 0.0
        value += p_x[i] * (keep * (rest[b, i] + (1.0 - own[b, i]) * log_keep) + entry * log_entry)
        slope += p_x[i] * ((1.0 - own[b, i]) * (log_entry - log_keep) - rest[b, i])
    for j in range(p_y.shape[1]):
        r = keep * p_y[b, j] + weight * q_y[b, j]
        if r > 0.0:
            log_r = np.log(r)
            value -= r * log_r
            slope -= (q_y[b, j] - p_y[b, j]) * log_r
    return value, slope


@compiled
def compiled_smallest_weights(mixture: Mixture, disclosures: Array, slack: float, weights: Array) -> None:
    """:func:`smallest_weights` as a loop, into ``weights`` (B,)."""
    for b in range(disclosures.size):
        low = 0.0
        high = 1.0
        w = 0.0
        for _ in range(WEIGHT_EVALUATIONS):
            value, slope = compiled_disclosure(mixture, b, w)
            excess = value - disclosures[b]
            if excess >= 0.0:
                high = w
                if excess <= slack or w == 0.0:
                    break
            else:
                low = w
            w = w - (excess - 0.5 * slack) / slope if slope > 0.0 else high
            if not low < w < high:
                w = 0.5 * (low + high)
                if not low < w < high:
                    break
        weights[b] = high


#: Whether numba is there; interpreted, the loops above would take a hundred times as long as the arrays.
COMPILED = hasattr(compiled_smallest_weights, "py_func")


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
