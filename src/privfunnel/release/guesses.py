"""What an attacker who knows all frequencies can guess: how often it is right, and about whom it learns most.

A guess that is right as often as before can still hide that some people became much likelier to have a rare value;
:class:`Exposure` says that in people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.data.engines import Alphabet
from privfunnel.measures import Array, guessing_accuracy, lift


@dataclass(frozen=True)
class Guess:
    """How often the best guess of a private attribute is right (probabilities).

    Attributes:
        name: The attribute, or the combination of all of them.
        before: Without the release.
        after: From the released symbol.
        original: From the public data itself.
    """

    name: str
    before: float
    after: float
    original: float

    @property
    def attribute(self) -> str:
        """The attribute, under the name it has in mechanism files."""
        return self.name


def blind_accuracy(p_ab: Array) -> Array:
    """``max_a p(a)`` of a joint table, shape (a, b): how often the best guess of A is right that does not look at B."""
    return guessing_accuracy(np.sum(p_ab, axis=1, keepdims=True))


def best_guesses(
    private: Alphabet, p_sx: Array, channel: Array, *, together: str | None = None
) -> tuple[Guess, ...]:
    """One guess a private attribute and, of several, one for all together, last.

    Args:
        private: The K private symbols.
        p_sx: p(s, x), shape (K, M).
        channel: p(y|x), shape (M, N).
        together: What to call the combination; all names joined by "and" by default.
    """
    return tuple(
        _best_guess(name, table, channel) for name, table in private.collapse(p_sx, together=together).items()
    )


def _best_guess(name: str, p_ax: Array, channel: Array) -> Guess:
    before = float(blind_accuracy(p_ax))
    # Looking at Y can never be worse than ignoring it, nor X worse than Y; what rounding says otherwise is not real.
    after = max(float(guessing_accuracy(p_ax @ channel)), before)
    return Guess(name, before, after, max(float(guessing_accuracy(p_ax)), after))


@dataclass(frozen=True)
class Exposure:
    """Whom the release exposes most as having one private value.

    The *exposed* are those whose released symbol brings the value's probability at least half-way from what it was to
    the highest that any symbol brings it to.

    Attributes:
        attribute: The private column; ``value`` its value as text, ``attribute=value``.
        before: p(value); ``after`` the least p(value|y) among the exposed; ``highest`` the largest of all.
        share: Share of the exposed.
        rows: Their expected number; 0 where the number of rows is not known. ``of`` the number of all rows.
        lift: ``highest / before``.
        auc: How well p(value|y) ranks those who have the value above those who do not: 0.5 is chance, 1 perfect.
    """

    attribute: str
    value: str
    before: float
    after: float
    highest: float
    share: float
    rows: int
    of: int
    lift: float
    auc: float

    @property
    def notable(self) -> bool:
        """Whether the value becomes noticeably more likely for someone."""
        # A private value that nobody's release makes more likely than by this factor is not told among the exposed
        # ones.
        return self.lift >= 1.1

    @property
    def words(self) -> str:
        """The exposure as a sentence about people."""
        return self._sentence("people")

    @property
    def row_words(self) -> str:
        """The same about rows, where people have several."""
        return self._sentence("rows")

    def _sentence(self, of_whom: str) -> str:
        who = (
            f"{self.rows:,} of {self.of:,} {of_whom}"
            if self.of
            else f"{_percent(self.share)} of the {of_whom}"
        )
        if self.of and self.rows == 0:
            who = f"fewer than one of {self.of:,} {of_whom} on average"
        top = "" if self.highest - self.after < 5e-4 else f", at most {_percent(self.highest)}"
        return (
            f"For {who} the chance of {self.value} rises from {_percent(self.before)} to {_percent(self.after)} or more"
            f"{top} (lift {self.lift:.2f}; AUC of the best attacker {self.auc:.3f})."
        )


def exposures(private: Alphabet, p_sy: Array, rows: int = 0) -> tuple[Exposure, ...]:
    """One exposure a private value that occurs, the largest lift first.

    Args:
        private: The K private symbols.
        p_sy: p(s, y), shape (K, N).
        rows: Number of rows the table stands for; 0 where it is not known.
    """
    found = []
    for j, table in enumerate(private.by_column(p_sy).values()):
        column = private.columns[j]
        p_y = table.sum(axis=0)
        used = p_y > 0.0
        for code, joint in enumerate(table):
            if joint.sum() > 0.0:
                value = column.label(code)
                found.append(_exposure(column.name, value, joint[used], p_y[used], rows))
    return tuple(sorted(found, key=lambda each: -each.lift))


def _exposure(attribute: str, value: str, joint: Array, p_y: Array, rows: int) -> Exposure:
    """The exposure of one value from p(value, y) and p(y), both over symbols that occur."""
    before, posterior = float(joint.sum()), joint / p_y
    highest = max(float(posterior.max()), before)
    # Rounding must not split symbols that say the same.
    exposed = posterior >= before + 0.5 * (highest - before) - 1e-12
    share = float(p_y[exposed].sum())
    return Exposure(
        attribute=attribute,
        value=value,
        before=before,
        after=min(max(float(posterior[exposed].min()), before), highest),
        highest=highest,
        share=share,
        rows=round(share * rows),
        of=rows,
        lift=max(float(lift(np.stack([joint, p_y - joint]))[0].max()), 1.0) if before < 1.0 else 1.0,
        auc=ranking_auc(joint, p_y - joint, posterior),
    )


def ranking_auc(positive: Array, negative: Array, score: Array) -> float:
    """Probability that a positive case scores above a negative one, ties counting half; 0.5 where one kind is missing.

    Args:
        positive: Weight of the positive cases at each score, shape (N,).
        negative: Weight of the others.
        score: The scores, shape (N,).
    """
    _, place = np.unique(np.round(score, 12), return_inverse=True)
    above = np.bincount(place, weights=positive)
    below = np.maximum(np.bincount(place, weights=negative), 0.0)
    if above.sum() <= 0.0 or below.sum() <= 0.0:
        return 0.5
    beaten = np.cumsum(below) - 0.5 * below
    return float(np.sum(above * beaten) / (above.sum() * below.sum()))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
