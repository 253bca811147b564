"""Models among public columns: is what one learns from released records true of the table they come from?

Each of some public columns is predicted from the others, by a model trained on released records and by one trained on
the rows themselves; both are judged on other rows of the table. Half of the rows (of the persons, where a column says
who they are), and what was released for them, train; the other half judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.audit.alignment import Sample
from privfunnel.audit.attacker import booster, unordered
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import RecordAlphabet

#: Columns that are predicted, the first that have two values or more, and how many of them at most.
MOST_MODELS, MOST_VALUES = 4, 20
#: Fewer rows than this to train on, or to judge by, say nothing.
LEAST_ROWS = 50

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """How often a column is predicted rightly on rows of the table that no model has seen.

    Attributes:
        column: The column that is predicted, from all other public ones.
        prior: Share of right answers of its most frequent value.
        original: Of a model trained on rows of the table.
        release: Of a model trained on released records.
    """

    column: str
    prior: float
    original: float
    release: float

    @property
    def words(self) -> str:
        """The finding as a sentence."""
        return (
            f"A model of {self.column} from the other public columns, trained on the release, is right for "
            f"{100 * self.release:.1f} % of other rows of the table; one that is trained on the table for "
            f"{100 * self.original:.1f} %, the most frequent value for {100 * self.prior:.1f} %."
        )


def models(
    mechanism: Mechanism | None, sample: Sample, size: int, rng: np.random.Generator
) -> tuple[Model, ...]:
    """Models of some public columns; none where the release holds no records, or there is but one column.

    Args:
        mechanism: The mechanism.
        sample: Rows by (x, y).
        size: Most rows, for training and judging together.
        rng: Chooses the rows, the halves and the models' seeds.
    """
    records = sample.y_alphabet
    if mechanism is None or not isinstance(records, RecordAlphabet) or len(records.columns) < 2:
        return ()
    x, y, train, judge = _halves(sample, size, rng)
    place = mechanism.x_alphabet.places(sample.counts.x_alphabet)[x]
    known = place >= 0
    train, judge = train[known], judge[known]
    if min(train.sum(), judge.sum()) < LEAST_ROWS:
        return ()
    old = records.codes[records.of_x[place[known]]].astype(np.int64)
    new = records.codes[y[known]].astype(np.int64)
    found: list[Model] = []
    for j, written in enumerate(records.written):
        values = np.unique(np.repeat(old[:, j], judge))
        if 2 <= len(values) <= MOST_VALUES and len(found) < MOST_MODELS:
            asked = np.repeat(old, judge, axis=0)
            most = np.bincount(np.repeat(old[:, j], train)).argmax()
            found.append(
                Model(
                    written.column.name,
                    float(np.mean(asked[:, j] == most)),
                    _right(np.repeat(old, train, axis=0), asked, j, rng),
                    _right(np.repeat(new, train, axis=0), asked, j, rng),
                )
            )
    return tuple(found)


def _halves(sample: Sample, size: int, rng: np.random.Generator) -> tuple[Codes, Codes, Codes, Codes]:
    """Public and released symbol of kinds of rows, and how many of each train and judge; all (kinds,)."""
    if sample.people is not None:
        people = sample.people
        used = rng.random(people.pieces) < min(size / max(people.n, 1), 1.0)
        side = rng.random(people.pieces) < 0.5
        train, judge = (
            np.asarray(part[people.piece], dtype=np.int64) for part in (used & side, used & ~side)
        )
        return people.x, people.y, train, judge
    rows = sparse.coo_array(sample.xy)
    n = rows.data.astype(np.int64)
    if n.sum() > size:
        n = np.asarray(rng.binomial(n, size / n.sum()), dtype=np.int64)
    train = np.asarray(rng.binomial(n, 0.5), dtype=np.int64)
    return rows.row.astype(np.int64), rows.col.astype(np.int64), train, np.asarray(n - train)


def _right(known: Codes, asked: Codes, j: int, rng: np.random.Generator) -> float:
    """Share of the rows ``asked`` whose column ``j`` a model of the rows ``known`` predicts; both (rows, columns)."""
    others = [i for i in range(known.shape[1]) if i != j]
    x, y = known[:, others], known[:, j]
    if len(np.unique(y)) < 2:
        return float(np.mean(asked[:, j] == y[0]))
    categories = unordered(np.concatenate([x, asked[:, others]]))
    model = booster(y, categories, int(rng.integers(2**31)))
    model.fit(x, y)
    return float(np.mean(model.predict(asked[:, others]) == asked[:, j]))
