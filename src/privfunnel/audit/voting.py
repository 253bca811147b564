"""An attacker who knows which released rows are one person's, and adds up what they say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.audit.estimates import Interval
from privfunnel.audit.persons import PersonRows, share_by_person
from privfunnel.data.engines.categories import Codes
from privfunnel.measures import Array
from privfunnel.model.amounts import told
from privfunnel.release.guesses import ranking_auc

FOLDS = 5
#: Added to every count, so that a symbol which was not seen rules nothing out.
PRIOR = 0.5


@dataclass(frozen=True)
class Vote:
    """How well an attribute is guessed from a released row, and from all rows of a person.

    Attributes:
        attribute: The private column.
        alone: Share of rows guessed right from the row's own symbol; ``together`` from all symbols of its person.
        auc_alone: How well the row's own symbol ranks rows (0.5 is chance), the mean over the values;
            ``auc_together`` likewise.
    """

    attribute: str
    alone: Interval
    together: Interval
    auc_alone: float
    auc_together: float


@dataclass(frozen=True)
class Persons:
    """Whom the rows of an audit are about.

    Attributes:
        column: The column that says so.
        persons: How many.
        varying: Those whose public values differ from row to row; ``varying_private`` whose private values do.
        drawn_once: Whether rows of a person with the same public values have the same released symbol; None where
            nothing was released.
        votes: What adding rows up brings an attacker, one entry a private column.
    """

    column: str
    persons: int
    varying: int
    varying_private: int
    drawn_once: bool | None = None
    votes: tuple[Vote, ...] = ()


def persons_of(
    rows: PersonRows, private: dict[str, Codes] | None = None, *, n_y: int = 0, seed: int = 0
) -> Persons:
    """Describe whom rows are about.

    Args:
        rows: The rows.
        private: Category of each private symbol by private column, shape (K,); with it the rows' symbols are added up.
        n_y: Number of released symbols.
        seed: Chooses the folds.
    """
    votes = tuple(
        _vote(name, target[rows.s], rows, n_y, np.random.default_rng(seed))
        for name, target in (private or {}).items()
    )
    return Persons(
        column=rows.column,
        persons=rows.persons,
        varying=rows.varying(rows.x),
        varying_private=rows.varying(rows.s),
        drawn_once=rows.drawn_once if len(rows.y) else None,
        votes=votes,
    )


def _vote(name: str, target: Codes, rows: PersonRows, n_y: int, rng: np.random.Generator) -> Vote:
    """Naive Bayes from symbols of persons it has not seen: p(a|y₁…yₖ) ∝ p(a) Π p(yᵢ|a)."""
    classes, target = np.unique(target, return_inverse=True)
    target = target.reshape(-1)
    chances = [np.zeros((rows.n, len(classes))) for _ in range(2)]
    fold = rng.permutation(np.arange(rows.pieces) % FOLDS)[rows.piece]
    # A draw that several rows share says no more than one of them.
    draws = rows.units * n_y + rows.y if rows.drawn_once else np.arange(rows.n)
    first = np.unique(draws, return_index=True)[1]
    for k in range(FOLDS):
        train, test = fold != k, np.flatnonzero(fold == k)
        counts = np.full((len(classes), n_y), PRIOR / n_y)
        np.add.at(counts, (target[train], rows.y[train]), 1.0)
        prior = np.log(counts.sum(axis=1) / counts.sum())
        said = np.log(counts / counts.sum(axis=1, keepdims=True))  # (classes, N)
        chances[0][test] = _posterior(prior + said.T[rows.y[test]])
        mine = first[fold[first] == k]
        total = np.zeros((rows.persons, len(classes)))
        np.add.at(total, rows.person[mine], said.T[rows.y[mine]])
        chances[1][test] = _posterior(prior + total[rows.person[test]])
    (alone, auc_alone), (together, auc_together) = (_score(each, target, rows.piece) for each in chances)
    return Vote(name, alone, together, auc_alone, auc_together)


def _posterior(logs: Array) -> Array:
    """Probabilities from their logarithms, up to a constant, one row each."""
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _score(chances: Array, target: Codes, piece: Codes) -> tuple[Interval, float]:
    ranked = [
        ranking_auc((target == j).astype(float), (target != j).astype(float), chances[:, j])
        for j in range(chances.shape[1])
    ]
    return share_by_person(chances.argmax(axis=1) == target, piece), float(np.mean(ranked))


def words(found: Persons, rows: int, leakage: float, *, clustered: bool = False) -> list[str]:
    """Whom the rows are about and what that means, as sentences.

    Args:
        found: The persons.
        rows: The number of rows.
        leakage: I(S;Y) of one row, in nats.
        clustered: Whether whole clusters of persons are resampled, permuted and split, not persons.
    """
    about = f"{rows:,} rows are about {found.persons:,} persons ({found.column})"
    how = "" if clustered else "; intervals, permutations and attackers take the rows of a person together"
    if found.drawn_once is None:
        return [f"{about}{how}."]
    if not found.drawn_once:
        drawn = "rows of one person with the same public values were drawn one by one, so that they can be added up"
    elif found.varying:
        drawn = (
            f"each person was drawn once for each combination of public values, and {found.varying:,} of them have "
            "several"
        )
    else:
        drawn = "each person was drawn once"
    lines = [f"{about}: {drawn}{how}."]
    for each in found.votes:
        lines.append(
            f"Whoever knows which rows are one person's guesses {each.attribute} right "
            f"{100 * each.together.value:.1f} % of the time (95 % interval {100 * each.together.low:.1f} to "
            f"{100 * each.together.high:.1f}; AUC {each.auc_together:.3f}) by adding them up, from one row "
            f"{100 * each.alone.value:.1f} % (AUC {each.auc_alone:.3f})."
        )
    if found.varying or not found.drawn_once:
        lines.append(f"The {told(leakage)} of leakage are for one row, not for all rows of a person.")
    return lines
