"""What a release for a task is good for: how well a model for the task does that was trained on the release.

For each row of a table with the task's column a symbol is drawn by the mechanism. Gradient boosting predicts the task
from the symbols and, beside it, from the public columns themselves; both are cross-validated, so that every row is
judged by a model that has not seen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from privfunnel import tables
from privfunnel.audit.attacker import score
from privfunnel.audit.estimates import Interval
from privfunnel.audit.promise import channel_for
from privfunnel.engines import ReadOptions
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.mechanism import Mechanism


@dataclass(frozen=True)
class Usefulness:
    """How well a task is done on rows that no model has seen.

    Attributes:
        column: The task.
        prior: Share of right answers of its most frequent value.
        release: Of a model trained on released symbols, with its 95 % interval.
        original: Of one trained on the public columns themselves.
        auc: How well the first ranks rows (0.5 is chance), the mean over the values; ``auc_original`` the second.
    """

    column: str
    prior: float
    release: Interval
    original: Interval
    auc: float
    auc_original: float

    @property
    def words(self) -> str:
        """The finding as a sentence."""
        return (
            f"A model of {self.column} trained on the release is right for {_percent(self.release)} of other rows and "
            f"ranks them with AUC {self.auc:.3f}; one trained on the public columns for {_percent(self.original)}, AUC "
            f"{self.auc_original:.3f}; the most frequent value for {100 * self.prior:.1f} %."
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def usefulness(
    source: Any,
    mechanism: Mechanism,
    *,
    task: Sequence[str] = (),
    read: ReadOptions | None = None,
    rows: int = 20_000,
    seed: int = 0,
) -> tuple[Usefulness, ...]:
    """How well each task is done with the release, beside the public columns themselves (needs scikit-learn).

    Args:
        source: A table with the mechanism's columns and the tasks', as for :func:`privfunnel.tables.count`.
        mechanism: The mechanism.
        task: The columns to predict; those that the mechanism was designed for by default.
        read: How to read the table; as the design data by default.
        rows: Most rows to train on and to judge by.
        seed: Fixes the symbols drawn, the folds and the models.

    Raises:
        InvalidInputError: No task is named, or a column is missing.
    """
    columns = tuple(task) or mechanism.task
    if not columns:
        raise InvalidInputError("the mechanism was designed for no task: name columns to predict, task=[…]")
    counts = tables.count(
        source, private=mechanism.private_names, public=mechanism.public_names, bins=mechanism.bins, task=columns,
        missing=mechanism.missing, read=mechanism.read_options(read),
    )  # fmt: skip
    channel, _ = channel_for(mechanism, counts)
    rng = np.random.default_rng(seed)
    found = []
    for each in counts.tasks:
        by_x = np.rint(each.table)
        by_y = _drawn(by_x, channel, rng)
        classes = np.arange(by_x.shape[0])
        # Symbols in the order of what they say about the task: a model may then take them for numbers.
        likely = by_y[-1] / np.maximum(by_y.sum(axis=0), 1.0)
        place = np.argsort(np.argsort(likely, kind="stable"), kind="stable")[:, None].astype(np.int64)
        from_y = score(by_y, place, classes, size=rows, rng=rng)
        from_x = score(by_x, counts.x_codes.astype(np.int64), classes, size=rows, rng=rng)
        prior = float(by_x.sum(axis=1).max() / by_x.sum())
        found.append(Usefulness(each.name, prior, from_y.accuracy, from_x.accuracy, from_y.auc, from_x.auc))
    return tuple(found)


def _drawn(by_x: Array, channel: Any, rng: np.random.Generator) -> Array:
    """Rows by (u, y), drawn from rows by (u, x)."""
    table = np.zeros((by_x.shape[0], int(channel.shape[1])))
    held = channel if isinstance(channel, np.ndarray) else sparse.csr_array(channel)
    for u, x in zip(*np.nonzero(by_x), strict=True):
        p = held[x] if isinstance(held, np.ndarray) else held[[x]].toarray()[0]
        table[u] += rng.multinomial(int(by_x[u, x]), p / p.sum())
    return table


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.1f} % ({100 * share.low:.1f}–{100 * share.high:.1f} %)"
