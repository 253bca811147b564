"""Pools of achieved channels: a method that only reaches scattered points still answers every disclosure.

So do a sweep over a multiplier and a family of deterministic maps, by the lower convex
:mod:`~privfunnel.model.envelope`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.answer import Answer, Record, Status
from privfunnel.measures import Array, entropy, mutual_information
from privfunnel.model import channels as ch
from privfunnel.model.envelope import Envelope, lower_envelope


def evaluate_batch(p_sx: Array, channels: Array) -> tuple[Array, Array]:
    """Disclosure and leakage (runs,) of a batch of channels (runs, M, N), in nats."""
    p_x = p_sx.sum(axis=0)
    p_xy = p_x[:, None] * channels
    return mutual_information(p_xy), mutual_information((p_sx / p_x) @ p_xy)


#: Seconds that making and judging a channel takes, about, for each of its entries.
ENTRY_SECONDS = 2e-7


@dataclass(frozen=True, eq=False)
class Candidate:
    """A channel that a run ended with, its point, and how it got there (``multiplier`` is λ, a slope)."""

    channel: Array
    disclosure: float
    leakage: float
    status: Status
    steps: int = 0
    multiplier: float | None = None


class Pool:
    """Channels achieved so far for one problem, thinned to those that can still matter.

    Kept are the vertices of the lower envelope and the least leakage in every bin of disclosure of the given width.
    The constant and the identity channel are there from the start: they are the exact answers for λ = 0 and λ ≥ 1.

    Args:
        p_sx: The joint table (K, M).
        width: Width of the bins in nats.
        iterative: Whether the runs have a stopping test of their own.
    """

    def __init__(self, p_sx: Array, width: float = 0.1, *, iterative: bool = True) -> None:
        """Start with the two ends of the curve."""
        self.p_sx = p_sx
        self.width = width
        self.iterative = iterative
        n_x = p_sx.shape[1]
        ceiling = float(entropy(p_sx.sum(axis=0)))
        self._kept = [
            Candidate(ch.constant(n_x), 0.0, 0.0, Status.CONVERGED, multiplier=0.0),
            Candidate(
                ch.identity(n_x), ceiling, float(mutual_information(p_sx)), Status.CONVERGED, multiplier=1.0
            ),
        ]
        self.runs = 0
        self.converged = 0
        #: Whether something was left out for want of time.
        self.cut = False

    def add(self, channels: Array, statuses: list[Status], steps: NDArray[Any], multipliers: Array) -> None:
        """Offer a batch of channels (runs, M, N) with their statuses, step counts and multipliers λ."""
        if not len(channels):
            return
        disclosure, leakage = evaluate_batch(self.p_sx, channels)
        old_i = np.array([c.disclosure for c in self._kept])
        old_l = np.array([c.leakage for c in self._kept])
        n_old = len(self._kept)
        all_i, all_l = np.concatenate([old_i, disclosure]), np.concatenate([old_l, leakage])
        wanted = (
            set(lower_envelope(all_i, all_l).tolist()) | set(_best_in_bins(all_i, all_l, self.width)) | {0, 1}
        )
        kept = []
        for i in sorted(wanted):
            if i < n_old:
                kept.append(self._kept[i])
                continue
            k = i - n_old
            channel = channels[k][:, channels[k].any(axis=0)].copy()
            kept.append(
                Candidate(
                    channel,
                    float(disclosure[k]),
                    float(leakage[k]),
                    statuses[k],
                    int(steps[k]),
                    float(multipliers[k]),
                )
            )
        self._kept = kept

    def __iter__(self) -> Iterator[Candidate]:
        """Everything kept, by growing disclosure."""
        return iter(sorted(self._kept, key=lambda c: (c.disclosure, c.leakage)))

    def envelope(self) -> Envelope:
        """The lower convex envelope of everything kept; its index counts by growing disclosure."""
        kept = list(self)
        return Envelope.of([(c.disclosure, c.leakage) for c in kept], [c.channel for c in kept])

    def value(self, disclosure: float) -> float:
        """Leakage of the envelope at ``disclosure``."""
        return float(self.envelope().value(disclosure))

    def answer(self, disclosure: float, *, message: str = "", seconds: float = 0.0) -> Answer:
        """The envelope at ``disclosure`` as a channel that time-shares its two neighbours."""
        envelope, kept = self.envelope(), list(self)
        at = envelope.vertex(disclosure)
        around = [kept[envelope.index[i]] for i in envelope.neighbours(disclosure)[:2]]
        return Answer(
            channel=envelope.channel(disclosure),
            status=Status.FEASIBLE if at is None else kept[envelope.index[at]].status,
            slope=min(max(envelope.slope(disclosure), 0.0), 1.0),
            steps=sum(candidate.steps for candidate in around),
            seconds=seconds,
            message=message,
            record=self.record(),
        )

    def answers(self, *, message: str = "") -> Iterator[Answer]:
        """Everything kept but the two ends, by growing disclosure: what a sweep found."""
        ends = self._kept[:2]
        for c in self:
            if c not in ends:
                yield Answer(
                    channel=c.channel, status=c.status, slope=c.multiplier, steps=c.steps, message=message,
                    record=self.record(),
                )  # fmt: skip

    def record(self) -> Record:
        """How many runs the pool has seen and, where they have one, how many met their own stopping test."""
        series = {"runs": np.array([float(self.runs)])}
        if self.iterative:
            series["converged"] = np.array([float(self.converged)])
        return Record(series=series)

    def slope(self, disclosure: float) -> float:
        """Slope of the envelope's segment at ``disclosure``."""
        return self.envelope().slope(disclosure)


def _best_in_bins(disclosure: Array, leakage: Array, width: float) -> list[int]:
    """Index of the least leakage in every occupied bin of disclosure."""
    bins = np.round(disclosure / width).astype(np.int64)
    order = np.lexsort((leakage, bins))
    first = np.ones(len(order), dtype=bool)
    first[1:] = bins[order[1:]] != bins[order[:-1]]
    return [int(i) for i in order[first]]
