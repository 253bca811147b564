"""How much work the estimates of an audit are worth, and what counts as one piece of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from privfunnel.data.population.views import View

BOOTSTRAP = 400
PERMUTATIONS = 199
ATTACKER_ROWS = 20_000


class EffortKeywords(TypedDict, total=False):
    """The fields of :class:`Effort`, as keywords of an audit."""

    bootstrap: int
    permutations: int
    attacker_rows: int
    seed: int
    confidence: float
    view: View | None
    person: str | None
    cluster: str | None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often to resample, and how long to train.

    Attributes:
        bootstrap: Number of resampled tables behind an interval.
        permutations: Number of permuted pairings behind the null; 0 for none.
        attacker_rows: Most rows an attacker trains on; 0 for no attacker.
        seed: Fixes resampling, permutations and folds.
        confidence: Of bounds for the population.
        view: What the original is: ``"register"``, the population, or ``"sample"``; by default a small table is one.
        person: Column of the original that says who a row is about: the rows of a person are resampled, permuted and
            split together. That of the mechanism by default; "" for none.
        cluster: Column that says which rows were sampled together, a household for example: the same for these.
    """

    bootstrap: int = BOOTSTRAP
    permutations: int = PERMUTATIONS
    attacker_rows: int = ATTACKER_ROWS
    seed: int = 0
    confidence: float = 0.95
    view: View | None = None
    person: str | None = None
    cluster: str | None = None
