"""How often an attacker who knows all frequencies guesses a private attribute right: blind, from Y, from X itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.engines import Alphabet
from privfunnel.measures import Array, guessing_accuracy


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
