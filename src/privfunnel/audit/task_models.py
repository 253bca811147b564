"""What a release for a task is good for: how well a model for the task does that was trained on the release.

For each row of a table with the task's column a symbol is drawn by the mechanism. Gradient boosting predicts the task
from the symbols and, beside it, from the public columns themselves; both are cross-validated, so that every row is
judged by a model that has not seen it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import sparse

from privfunnel.audit.attacker import score
from privfunnel.audit.estimates import Interval
from privfunnel.audit.promise import channel_for
from privfunnel.audit.ranking import auc_words, below_chance
from privfunnel.audit.result import Audit
from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions
from privfunnel.errors import IdentifierWarning, InvalidInputError, ReadingWarning, SmallSampleWarning
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel
from privfunnel.neighbours.task_alternatives import TaskAlternative, instead_for_task
from privfunnel.release.mechanism import Mechanism


@dataclass(frozen=True)
class Usefulness:
    """How well a task is done on rows that no model has seen.

    Attributes:
        column: The task.
        prior: Share of right answers of its most frequent value.
        release: Of a model trained on released symbols, with its 95 % interval.
        original: Of one trained on the public columns themselves.
        auc: How well the first ranks rows (0.5 is chance), the mean over the values; ``auc_original`` the second.
        auc_interval: The 95 % interval of ``auc``; ``auc_original_interval`` of the other.
    """

    column: str
    prior: float
    release: Interval
    original: Interval
    auc: float
    auc_original: float
    auc_interval: Interval | None = None
    auc_original_interval: Interval | None = None

    @property
    def words(self) -> str:
        """The finding as a sentence."""
        return (
            f"A model of {self.column} trained on the release is right for {_percent(self.release)} of other rows and "
            f"ranks them with AUC {auc_words(self.auc, self.auc_interval)}; one trained on the public columns for "
            f"{_percent(self.original)}, AUC {auc_words(self.auc_original, self.auc_original_interval)}; the most "
            f"frequent value for {100 * self.prior:.1f} %."
        )

    def to_dict(self) -> Document:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class TaskFindings:
    """What an audit says of a release for a task.

    Attributes:
        tasks: How well each task is done.
        private: The same of each private column, which should not be done well.
        instead: Dropping columns and coarser categories that are as good for the tasks.
    """

    tasks: tuple[Usefulness, ...]
    private: tuple[Usefulness, ...]
    instead: tuple[TaskAlternative, ...]

    def words(self, units: str = "bits") -> list[str]:
        """The findings as sentences, in bits or nats."""
        every = (*self.tasks, *self.private)
        models = [*(each.words for each in every), *below_chance(each.auc for each in every)]
        return [*models, *(f"Instead: {each.words(units)}" for each in self.instead)]

    def to_dict(self) -> Document:
        """JSON-ready, in nats."""
        return {
            "tasks": [each.to_dict() for each in self.tasks],
            "private_models": [each.to_dict() for each in self.private],
            "instead_for_task": [each.to_dict() for each in self.instead],
        }


def usefulness(
    source: object,
    mechanism: Mechanism,
    *,
    task: Sequence[str] = (),
    read: ReadOptions | None = None,
    rows: int = 20_000,
    seed: int = 0,
) -> tuple[Usefulness, ...]:
    """How well each task is done with the release, beside the public columns themselves (needs scikit-learn).

    Args:
        source: A table with the mechanism's columns and the tasks', as for :func:`privfunnel.data.tables.count`.
        mechanism: The mechanism.
        task: The columns to predict; those that the mechanism was designed for by default.
        read: How to read the table; as the design data by default.
        rows: Most rows to train on and to judge by.
        seed: Fixes the symbols drawn, the folds and the models.

    Raises:
        InvalidInputError: No task is named, or a column is missing.
    """
    counts = _counted(source, mechanism, task, read)
    channel, _ = channel_for(mechanism, counts)
    rng = np.random.default_rng(seed)
    tables = {each.name: each.table for each in counts.tasks}
    return tuple(_models(name, np.rint(table), counts, channel, rows, rng) for name, table in tables.items())


def for_task(
    source: object,
    mechanism: Mechanism,
    *,
    read: ReadOptions | None = None,
    rows: int = 20_000,
    seed: int = 0,
    private: bool = True,
) -> TaskFindings:
    """All that an audit says of a release for a task: what it is good for, and what would be as good.

    Args:
        source: A table with the mechanism's columns and the tasks', as for :func:`privfunnel.data.tables.count`.
        mechanism: The mechanism, designed for a task.
        read: How to read the table; as the design data by default.
        rows: Most rows to train on and to judge by; 0 for no models.
        seed: Fixes the symbols drawn, the folds and the models.
        private: Also train models of the private columns.

    Raises:
        InvalidInputError: The mechanism was designed for no task, or a column is missing.
    """
    counts = _counted(source, mechanism, (), read)
    channel, _ = channel_for(mechanism, counts)
    problem = counts.problem()
    kept = float(problem.evaluate(channel).utility or 0.0)
    instead = instead_for_task(problem, kept, counts.x_alphabet)
    if rows <= 0:
        return TaskFindings((), (), instead)
    rng = np.random.default_rng(seed)
    done = tuple(_models(each.name, np.rint(each.table), counts, channel, rows, rng) for each in counts.tasks)
    secrets = counts.s_alphabet.by_column(np.rint(counts.table())) if private else {}
    secrets = {name: table for name, table in secrets.items() if np.count_nonzero(table.sum(axis=1)) > 1}
    guessed = tuple(_models(name, table, counts, channel, rows, rng) for name, table in secrets.items())
    return TaskFindings(done, guessed, instead)


def attackers(audit: Audit) -> tuple[Usefulness, ...]:
    """The models of single private columns that an audit has trained on a released file; none without one."""
    return tuple(
        Usefulness(
            each.name, each.attack.prior.value, each.attack.release, each.attack.original, each.attack.auc,
            each.attack.auc_original, each.attack.auc_interval, each.attack.auc_original_interval,
        )
        for each in audit.attributes
        if each.attack is not None
        and each.attack.original is not None
        and each.attack.auc_original is not None
    )  # fmt: skip


def _counted(
    source: object, mechanism: Mechanism, task: Sequence[str], read: ReadOptions | None
) -> tables.Counts:
    """The table counted as the mechanism's was, with these tasks, or its own."""
    weights = dict.fromkeys(task, 1.0) or mechanism.task_weights
    if not weights:
        raise InvalidInputError("the mechanism was designed for no task: name columns to predict, task=[…]")
    bins = mechanism.bins | {name: cut for name, cut in mechanism.task_bins.items() if name in weights}
    with warnings.catch_warnings():
        # The audit says by itself whom its rows speak for; columns that name people were told of at the design.
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", IdentifierWarning)
        warnings.simplefilter("ignore", ReadingWarning)
        return tables.count(
            source, private=mechanism.private_names, public=mechanism.public_names, bins=bins, task=weights,
            missing=mechanism.missing, read=mechanism.read_options(read),
        )  # fmt: skip


def _models(
    name: str, by_x: Array, counts: tables.Counts, channel: Channel, rows: int, rng: np.random.Generator
) -> Usefulness:
    """Models of a column from drawn symbols and from the public columns; ``by_x`` are its rows by (u, x)."""
    by_y = _drawn(by_x, channel, rng)
    classes = np.arange(by_x.shape[0])
    # Symbols in the order of what they say about the column: a model may then take them for numbers.
    likely = by_y[-1] / np.maximum(by_y.sum(axis=0), 1.0)
    place = np.argsort(np.argsort(likely, kind="stable"), kind="stable")[:, None].astype(np.int64)
    from_y = score(by_y, place, classes, size=rows, rng=rng)
    from_x = score(by_x, counts.x_codes.astype(np.int64), classes, size=rows, rng=rng)
    prior = float(by_x.sum(axis=1).max() / by_x.sum())
    return Usefulness(
        name, prior, from_y.accuracy, from_x.accuracy, from_y.auc, from_x.auc, from_y.ranking, from_x.ranking
    )


def _drawn(by_x: Array, channel: Channel, rng: np.random.Generator) -> Array:
    """Rows by (u, y), drawn from rows by (u, x)."""
    table = np.zeros((by_x.shape[0], int(channel.shape[1])))
    held = channel if isinstance(channel, np.ndarray) else sparse.csr_array(channel)
    for u, x in zip(*np.nonzero(by_x), strict=True):
        p = held[x] if isinstance(held, np.ndarray) else held[[x]].toarray()[0]
        table[u] += rng.multinomial(int(by_x[u, x]), p / p.sum())
    return table


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.1f} % ({100 * share.low:.1f}–{100 * share.high:.1f} %)"
