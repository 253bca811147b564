"""The best deterministic map, by trying every partition of X: the floor for every merging method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.merging.partitions import channel_of, disclosed, leaked
from privfunnel.algorithms.options import check_whole
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY


@dataclass(frozen=True, kw_only=True)
class Deterministic(Solver):
    """The deterministic map of least leakage among all that disclose enough.

    Attributes:
        max_symbols: Tables with more public symbols are refused: 10 symbols have 115 975 partitions, 12 have 4 213 597.
    """

    name: ClassVar[str] = "deterministic"

    max_symbols: int = 10

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole("deterministic", 1, max_symbols=self.max_symbols)

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """The best partition with ``I(X;Y) = H(Y) ≥ disclosure`` (nats)."""
        return next(iter(self.trace(problem, [disclosure], seed=seed, progress=progress)))

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """The best partition for each disclosure; the partitions are listed once."""
        wanted = list(disclosures)
        if problem.n_x > self.max_symbols:
            message = (
                f"deterministic: {problem.n_x} public symbols have too many partitions to try (max_symbols="
                f"{self.max_symbols}): use greedy or submodular"
            )
            for _ in wanted:
                yield Answer(channel=channels.identity(problem.n_x), status=Status.FAILED, message=message)
            return
        labels = set_partitions(problem.n_x)
        disclosure, leakage = partition_points(problem.p_sx, labels)
        for done, asked in enumerate(wanted):
            enough = disclosure >= asked - FEASIBILITY / 2.0
            best = int(np.argmin(np.where(enough, leakage, np.inf)))
            yield Answer(channel=channel_of(labels[best]), status=Status.FEASIBLE, steps=len(labels))
            if progress is not None:
                progress(Progress(done=done + 1, total=len(wanted), message=f"R = {asked:.4f} nats"))


def set_partitions(n: int) -> NDArray[np.int64]:
    """All partitions of ``n`` symbols as restricted growth strings, shape (Bell(n), n)."""
    rows = np.zeros((1, 1), dtype=np.int64)
    for _ in range(1, n):
        choices = rows.max(axis=1) + 2
        parent = np.repeat(np.arange(len(rows)), choices)
        label = np.arange(len(parent)) - np.repeat(np.cumsum(choices) - choices, choices)
        rows = np.hstack([rows[parent], label[:, None]])
    return rows


def partition_points(p_sx: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """Disclosure, and leakage up to the constant H(S), of each partition (rows of ``labels``), in nats.

    Both are sums over blocks, so the values of all 2^M blocks are tabulated once.
    """
    n_x = p_sx.shape[1]
    members = ((np.arange(2**n_x)[:, None] >> np.arange(n_x)) & 1).astype(np.float64)
    block = members @ p_sx.T
    told, leak = disclosed(block.sum(axis=1)), leaked(block, axis=1)
    disclosure, leakage = np.zeros(len(labels)), np.zeros(len(labels))
    powers = 1 << np.arange(n_x)
    for label in range(n_x):
        which = (labels == label) @ powers
        disclosure += told[which]
        leakage += leak[which]
    return disclosure, leakage
