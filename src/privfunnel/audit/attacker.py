"""A trained attacker: gradient boosting that predicts a private attribute, scored on rows it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.audit.estimates import Interval, proportion
from privfunnel.audit.persons import share_by_person
from privfunnel.audit.ranking import ranking
from privfunnel.errors import need
from privfunnel.measures import Array

FOLDS = 5
#: More categories than this are too many for scikit-learn's booster: their codes are then ordered numbers.
MAX_CATEGORIES = 250


@dataclass(frozen=True)
class Attack:
    """How well the attacker does: knowing only the frequencies, from the release, from the original data.

    Attributes:
        prior: Share of right guesses of one who knows the frequencies alone; ``release`` of one trained on the release,
            ``original`` on the original data.
        auc: How well the one trained on the release ranks rows (0.5 is chance), the mean over the values; of a rare
            value the share of right guesses says nothing. ``auc_original`` likewise, from the original data.
        auc_interval: The 95 % interval of ``auc``; ``auc_original_interval`` of the other.
    """

    prior: Interval
    release: Interval
    original: Interval | None
    auc: float = 0.5
    auc_original: float | None = None
    auc_interval: Interval | None = None
    auc_original_interval: Interval | None = None

    @classmethod
    def of(cls, prior: Interval, release: Score, original: Score) -> Attack:
        """How well attackers do who were scored on the release and on the original data."""
        return cls(
            prior=prior,
            release=release.accuracy,
            original=original.accuracy,
            auc=release.auc,
            auc_original=original.auc,
            auc_interval=release.ranking,
            auc_original_interval=original.ranking,
        )


class Score(NamedTuple):
    """Cross-validated share of right guesses with a Wilson interval, and the mean AUC over the classes with its own."""

    accuracy: Interval
    ranking: Interval

    @property
    def auc(self) -> float:
        """The AUC alone."""
        return self.ranking.value


def sample_rows(
    counts: Array, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs (a, b) of at most ``size`` rows drawn without replacement from a table of counts."""
    whole = counts.astype(np.int64).ravel()
    n = int(whole.sum())
    if n > size:
        whole = rng.multivariate_hypergeometric(whole, size, method="marginals")
    cells = rng.permutation(np.repeat(np.arange(len(whole)), whole))
    return cells // counts.shape[1], cells % counts.shape[1]


def score(
    counts: Array,
    features: NDArray[np.int64],
    target: NDArray[np.int64],
    *,
    size: int,
    rng: np.random.Generator,
) -> Score:
    """Cross-validated score of guessing ``target[a]`` from ``features[b]``.

    Args:
        counts: Rows by (a, b).
        features: Category codes of each b, shape (b, features).
        target: Class of each a.
        size: Most rows to train on.
        rng: Chooses rows, folds and the booster's seed.
    """
    a, b = sample_rows(counts, size, rng)
    return score_rows(features[b], target[a], unordered(features), rng)


def unordered(features: NDArray[np.int64]) -> list[int]:
    """The features, columns of codes, that are not too many to be categories without an order."""
    return [j for j in range(features.shape[1]) if 1 < features[:, j].max() + 1 <= MAX_CATEGORIES]


def score_rows(
    x: NDArray[np.int64],
    y: NDArray[np.int64],
    categories: list[int],
    rng: np.random.Generator,
    persons: NDArray[np.int64] | None = None,
) -> Score:
    """Cross-validated score of guessing the class ``y`` of each row from its codes ``x``.

    Args:
        x: Codes, shape (rows, features).
        y: Classes, shape (rows,).
        categories: Features whose codes have no order.
        rng: Chooses folds and the booster's seed.
        persons: Whom each row is about, shape (rows,): nobody is in two folds. Every row a person without it.
    """
    selection = need("sklearn.model_selection", "audit")
    classes, sizes = np.unique(y, return_counts=True)
    seed = int(rng.integers(2**31))
    # A class with fewer rows than folds cannot be in every fold; plain folds then do.
    splitter: Any = selection.StratifiedKFold if sizes.min() >= FOLDS else selection.KFold
    folds = min(FOLDS, len(y))
    if persons is not None:
        splitter, folds = _Persons, min(FOLDS, len(np.unique(persons)))
    right, chances = np.zeros(len(y), dtype=bool), np.zeros((len(y), len(classes)))
    for train, test in splitter(folds, shuffle=True, random_state=seed).split(x, y, persons):
        known = np.unique(y[train])
        if len(known) < 2:
            right[test] = y[test] == y[train][0]
            continue
        model = booster(y[train], categories, seed)
        model.fit(x[train], y[train])
        found = model.predict_proba(x[test])
        right[test] = model.classes_[found.argmax(axis=1)] == y[test]
        chances[np.ix_(test, np.searchsorted(classes, model.classes_))] = found
    share = proportion(int(right.sum()), len(y)) if persons is None else share_by_person(right, persons)
    return Score(share, ranking(np.searchsorted(classes, y), chances, persons))


def booster(y: NDArray[np.int64], categories: list[int], seed: int) -> Any:
    """A model that is going to be trained on classes ``y``, (rows,), from features some of which have no order."""
    return need("sklearn.ensemble", "audit").HistGradientBoostingClassifier(
        max_iter=100,
        max_leaf_nodes=15,
        min_samples_leaf=40,
        l2_regularization=1.0,
        # Most of what a good release leaves to learn is noise: stop as soon as held-out rows say so.
        early_stopping=min(np.unique(y, return_counts=True)[1]) > 10,
        n_iter_no_change=5,
        categorical_features=categories or None,
        random_state=seed,
    )


class _Persons:
    """Folds of whole persons, with the interface of scikit-learn's."""

    def __init__(self, folds: int, *, shuffle: bool, random_state: int) -> None:
        """Remember them."""
        self.folds, self.seed = folds, random_state if shuffle else 0

    def split(
        self, _x: NDArray[np.int64], _y: NDArray[np.int64], persons: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Rows to train on and rows to test on."""
        _, place = np.unique(persons, return_inverse=True)
        place = place.reshape(-1)
        fold = np.random.default_rng(self.seed).permutation(np.arange(int(place.max()) + 1) % self.folds)[
            place
        ]
        for k in range(self.folds):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def prior(counts: Array, target: NDArray[np.int64]) -> Interval:
    """Share of the most frequent class: what an attacker without the release gets."""
    by_class = np.bincount(target, weights=counts.sum(axis=1))
    return proportion(float(by_class.max()), float(by_class.sum()))
