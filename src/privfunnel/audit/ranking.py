"""How well a model ranks rows it has not seen: the area under its curve, with a 95 % interval."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privfunnel.audit.estimates import LEVEL, Interval
from privfunnel.measures import Array
from privfunnel.release.guesses import ranking_auc

#: Said where an attacker's AUC is below that of guessing.
BELOW_CHANCE = (
    "An AUC below 0.5 is chance in rows that are finite, and no gain: nobody knows beforehand which way to turn the "
    "guesses."
)


def ranking(y: NDArray[np.int64], chances: Array, persons: NDArray[np.int64] | None = None) -> Interval:
    """The mean over the classes of the AUC of each against the others, with a 95 % interval.

    The variance is DeLong's: each row moves the AUC by how far its own share of won comparisons is off, and the rows of
    a person move it together. The interval is symmetric in the log odds. Where no row is off, as in a perfect ranking,
    the variance is the largest that is possible, θ(1−θ)/m with m persons of the rarer kind (Birnbaum and Klose
    1957), at a θ half a person away from the end.

    Args:
        y: The class of each row, 0 … classes − 1, shape (rows,).
        chances: p(class) that the model gives each row, shape (rows, classes).
        persons: Whom each row is about, shape (rows,); every row a person without it.
    """
    n_classes = chances.shape[1]
    value = float(np.mean([ranking_auc(y == j, y != j, chances[:, j]) for j in range(n_classes)]))
    moves = np.mean([_moves(y == j, chances[:, j]) for j in range(n_classes)], axis=0)
    piece = np.arange(len(y)) if persons is None else np.unique(persons, return_inverse=True)[1].reshape(-1)
    moves = np.bincount(piece, weights=moves)
    pieces = len(moves)
    variance = float((moves**2).sum()) * pieces / max(pieces - 1, 1)
    kinds = (np.unique(piece[kind]).size for j in range(n_classes) for kind in (y == j, y != j))
    rarer = float(max(min(kinds), 1))
    inside = min(max(value, 0.5 / (rarer + 1.0)), 1.0 - 0.5 / (rarer + 1.0))
    spread = inside * (1.0 - inside)
    variance = min(variance, spread / rarer) if variance > 0.0 else spread / rarer
    half = float(special.ndtri(0.5 + LEVEL / 2.0)) * float(np.sqrt(variance)) / spread
    low, high = special.expit(special.logit(inside) + np.array([-half, half]))
    return Interval(value, min(float(low), value), max(float(high), value))


def auc_words(value: float, ends: Interval | None) -> str:
    """An AUC, with its interval where there is one."""
    return f"{value:.3f}" if ends is None else f"{value:.3f} ({ends.low:.3f} to {ends.high:.3f})"


def below_chance(aucs: Iterable[float]) -> list[str]:
    """What an AUC below 0.5 means, where one is that is shown to be."""
    low = any(round(value, 3) < 0.5 for value in aucs)
    return [BELOW_CHANCE] if low else []


def _moves(positive: NDArray[np.bool_], score: Array) -> Array:
    """By how much each row moves the AUC of ``positive`` rows against the others, shape (rows,)."""
    n_above, n_below = int(positive.sum()), int((~positive).sum())
    if n_above == 0 or n_below == 0:
        return np.zeros(len(score))
    _, place = np.unique(np.round(score, 12), return_inverse=True)
    place = place.reshape(-1)
    above, below = np.bincount(place, weights=positive), np.bincount(place, weights=~positive)
    won = (np.cumsum(below) - 0.5 * below)[place] / n_below
    lost = 1.0 - (np.cumsum(above) - 0.5 * above)[place] / n_above
    centre = won[positive].mean()
    return np.asarray(np.where(positive, (won - centre) / n_above, (lost - centre) / n_below))
