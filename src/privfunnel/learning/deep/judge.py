"""One judge for all methods: attackers who see codes of rows that were held out, and bounds called by their names.

The judge knows nothing of a method but what it releases. Half of the rows train four attackers and choose, by
cross-validation among them, the one to be believed; the other half scores them, so that the choice flatters nobody.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel import measures
from privfunnel.audit.estimates import Interval, proportion
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.checks import check_seed
from privfunnel.infra.storage import Document
from privfunnel.learning.deep.columns import classes_of
from privfunnel.measures import Array

#: Fewer rows than this of each half say nothing.
LEAST_ROWS = 50
#: Folds that choose among the attackers.
FOLDS = 3
#: Half the width of a 95 % interval in standard errors.
_Z = 1.959963984540054


@dataclass(frozen=True)
class Attack:
    """How an attacker does on rows that it has not seen.

    Attributes:
        name: ``"logistic regression"``, ``"nearest neighbours"``, ``"gradient boosting"`` or ``"neural network"``.
        cross_validated: Share of right guesses by cross-validation on the training half; what attackers are chosen by.
        accuracy: Share of right guesses on the other half.
        information: ``H(S) + E log q(s|y)`` in nats on the other half: a lower bound of I(S;Y), which may be negative
            where the attacker is surer than it should be.
    """

    name: str
    cross_validated: float
    accuracy: Interval
    information: Interval


@dataclass(frozen=True)
class Judgement:
    """What attackers learn from released codes.

    Attributes:
        prior: Share of the most frequent class: what is right without looking.
        attacks: Each attacker.
        rows: Rows of both halves together.
    """

    prior: Interval
    attacks: tuple[Attack, ...]
    rows: int

    @property
    def best(self) -> Attack:
        """The attacker that cross-validation chooses."""
        return max(self.attacks, key=lambda attack: attack.cross_validated)

    @property
    def words(self) -> str:
        """The finding as a sentence."""
        best, told = self.best, self.best.accuracy
        least = best.information.low
        shown = f"it shows at least {least:.4f} nats of leakage" if least > 0.0 else "it shows no leakage"
        return (
            f"The best attacker, {best.name}, is right for {100 * told.value:.1f} % of rows it has not seen (95 %: "
            f"{100 * told.low:.1f} to {100 * told.high:.1f} %), the most frequent value for "
            f"{100 * self.prior.value:.1f} %; {shown}."
        )


def attackers(seed: int) -> Document:
    """Untrained attackers by name."""
    pipeline = need("sklearn.pipeline", "deep").make_pipeline
    scale = need("sklearn.preprocessing", "deep").StandardScaler
    logistic = need("sklearn.linear_model", "deep").LogisticRegression(max_iter=200)
    near = need("sklearn.neighbors", "deep").KNeighborsClassifier(n_neighbors=25)
    boosted = need("sklearn.ensemble", "deep").HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, min_samples_leaf=20, l2_regularization=1.0, random_state=seed
    )
    network = need("sklearn.neural_network", "deep").MLPClassifier(
        (32,),
        alpha=1e-3,
        batch_size=128,
        early_stopping=True,
        n_iter_no_change=5,
        max_iter=60,
        random_state=seed,
    )
    return {
        "logistic regression": pipeline(scale(), logistic),
        "nearest neighbours": pipeline(scale(), near),
        "gradient boosting": boosted,
        "neural network": pipeline(scale(), network),
    }


def judge(codes: ArrayLike, s: ArrayLike, *, seed: int = 0, most_rows: int = 10_000) -> Judgement:
    """Let attackers guess S from released codes.

    Args:
        codes: Codes of rows that no method was fitted to, shape (n, columns); a single column of whole numbers is taken
            for symbols.
        s: What is private, as in ``fit``: classes, numbers, which are cut into quarters, or several columns, which are
            guessed together.
        seed: Fixes the halves, the folds and the attackers.
        most_rows: More rows than this are sampled.

    Raises:
        InvalidInputError: There are too few rows, or classes.
    """
    check_seed(seed)
    y, target = as_features(codes), classes_of(s)
    if len(y) != len(target):
        raise InvalidInputError(f"{len(y)} codes for {len(target)} private values: give one of each a row")
    classes = np.unique(target)
    rows = np.random.default_rng(seed).permutation(len(y))[:most_rows]
    y, target = y[rows], target[rows]
    half = len(y) // 2
    counts = np.bincount(target[:half], minlength=len(classes))
    if half < LEAST_ROWS or (counts >= 2 * FOLDS).sum() < 2:
        raise InvalidInputError(
            f"{len(y)} rows of {len(classes)} classes are too few to judge by: give at least {2 * LEAST_ROWS} rows "
            "and two frequent classes"
        )
    usual = int(counts.argmax())
    prior = proportion(int((target[half:] == usual).sum()), len(y) - half)
    found = [_attack(name, model, y, target, half) for name, model in attackers(seed).items()]
    return Judgement(prior, tuple(found), len(y))


def as_features(codes: ArrayLike) -> Array:
    """Codes as numbers, shape (rows, features): whole numbers in a single column and texts are symbols."""
    y = np.asarray(codes)
    if y.ndim == 1:
        y = y[:, None]
    if y.ndim != 2:
        raise InvalidInputError(f"codes have shape {y.shape}: give (rows, columns)")
    if y.shape[1] == 1 and y.dtype.kind in "iu":
        _, place = np.unique(y[:, 0], return_inverse=True)
        return np.asarray(np.eye(int(place.max()) + 1)[place.reshape(-1)])
    made = np.concatenate([_number_or_classes(y[:, j]) for j in range(y.shape[1])], axis=1)
    if not np.isfinite(made).all():
        raise InvalidInputError("codes hold NaN or infinity: leave such rows out")
    return made


def _number_or_classes(column: NDArray[Any]) -> Array:
    try:
        return np.asarray(column.astype(np.float64)[:, None])
    except (TypeError, ValueError):
        _, place = np.unique(column.astype(str), return_inverse=True)
        return np.asarray(np.eye(int(place.max()) + 1)[place.reshape(-1)])


def _attack(name: str, model: Any, y: Array, target: NDArray[np.int64], half: int) -> Attack:
    selection = need("sklearn.model_selection", "deep")
    x, t = y[:half], target[:half]
    with _quiet():
        folds = selection.KFold(FOLDS)  # the rows are in random order
        chosen = selection.cross_val_score(model, x, t, cv=folds, scoring="accuracy")
        model.fit(x, t)
        chances = model.predict_proba(y[half:])
    known = np.asarray(model.classes_)
    asked = target[half:]
    accuracy = proportion(int((known[chances.argmax(axis=1)] == asked).sum()), len(asked))
    # Nobody is certain: a class that was never predicted would cost infinitely much.
    floor = 1e-4
    place = np.searchsorted(known, asked).clip(0, len(known) - 1)
    own = np.where(known[place] == asked, chances[np.arange(len(asked)), place], 0.0)
    log_q = np.log((1.0 - floor) * own + floor / (int(target.max()) + 1))
    value, error = measures.predicted_information(log_q, np.bincount(asked) / len(asked))
    return Attack(
        name, float(chosen.mean()), accuracy, Interval(value, value - _Z * error, value + _Z * error)
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings: attackers that stop at their cap are as good as their score says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class Bounds:
    """Bounds of I(S;Y) in nats for the very rows that were given, each Gaussian code with their densities known.

    Attributes:
        low: A lower bound, from pairwise distances of the codes' densities.
        high: An upper bound, likewise.
    """

    low: float
    high: float


def density_bounds(mean: Array, deviation: Array, s: ArrayLike) -> Bounds:
    """Pairwise-distance bounds of I(S;Y) where Y is normal given each row (Kolchinsky, Tracey 2017).

    Both bounds of the entropy of a mixture are tight where components coincide or lie far apart. They are of the rows
    given, each with the same probability, and no estimate of a population.

    Args:
        mean: Means of q(y|x), shape (n, size).
        deviation: Deviations, shape (n, size).
        s: Classes, shape (n,).
    """
    names = np.asarray(s).reshape(-1)
    low, high = measures.mixture_entropy_bounds(mean, deviation)
    low_given = high_given = 0.0
    for value in np.unique(names):
        own = names == value
        inner = measures.mixture_entropy_bounds(mean[own], deviation[own])
        low_given, high_given = low_given + own.mean() * inner[0], high_given + own.mean() * inner[1]
    # Nothing tells more of S than there is.
    most = float(measures.entropy(np.unique(names, return_counts=True)[1] / len(names)))
    return Bounds(min(max(low - high_given, 0.0), most), min(high - low_given, most))
