"""A trained attacker: gradient boosting that predicts a private attribute, scored on rows it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.audit.estimates import Interval, proportion
from privfunnel.errors import need
from privfunnel.measures import Array

FOLDS = 5
#: More categories than this are too many for scikit-learn's booster: their codes are then ordered numbers.
MAX_CATEGORIES = 250


@dataclass(frozen=True)
class Attack:
    """How often the attacker is right: knowing only the frequencies, from the release, from the original data."""

    prior: Interval
    release: Interval
    original: Interval | None


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


def accuracy(
    counts: Array,
    features: NDArray[np.int64],
    target: NDArray[np.int64],
    *,
    size: int,
    rng: np.random.Generator,
) -> Interval:
    """Cross-validated accuracy of guessing ``target[a]`` from ``features[b]``.

    Args:
        counts: Rows by (a, b).
        features: Category codes of each b, shape (b, features).
        target: Class of each a.
        size: Most rows to train on.
        rng: Chooses rows, folds and the booster's seed.

    Returns:
        Share of correct predictions on held-out rows with a Wilson interval.
    """
    ensemble, selection = need("sklearn.ensemble", "audit"), need("sklearn.model_selection", "audit")
    a, b = sample_rows(counts, size, rng)
    y, x = target[a], features[b]
    sizes = np.unique(y, return_counts=True)[1]
    seed = int(rng.integers(2**31))
    # A class with fewer rows than folds cannot be in every fold; plain folds then do.
    splitter: Any = selection.StratifiedKFold if sizes.min() >= FOLDS else selection.KFold
    folds = min(FOLDS, len(y))
    right = 0
    for train, test in splitter(folds, shuffle=True, random_state=seed).split(x, y):
        if len(np.unique(y[train])) < 2:
            right += int((y[test] == y[train][0]).sum())
            continue
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=100,
            max_leaf_nodes=15,
            min_samples_leaf=40,
            l2_regularization=1.0,
            # Most of what a good release leaves to learn is noise: stop as soon as held-out rows say so.
            early_stopping=min(np.unique(y[train], return_counts=True)[1]) > 10,
            n_iter_no_change=5,
            categorical_features=[
                j for j in range(x.shape[1]) if 1 < features[:, j].max() + 1 <= MAX_CATEGORIES
            ]
            or None,
            random_state=seed,
        )
        model.fit(x[train], y[train])
        right += int((model.predict(x[test]) == y[test]).sum())
    return proportion(right, len(y))


def prior(counts: Array, target: NDArray[np.int64]) -> Interval:
    """Share of the most frequent class: what an attacker without the release gets."""
    by_class = np.bincount(target, weights=counts.sum(axis=1))
    return proportion(float(by_class.max()), float(by_class.sum()))
