"""What a release tells attackers who know some of the public columns already: I(S;Y|A), exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel import measures
from privfunnel.attackers import Attacker, few_columns
from privfunnel.engines import Alphabet
from privfunnel.measures import Array
from privfunnel.quantities import amount, told

#: Public symbols up to which attackers who know two columns are looked at; beyond, those who know one.
PAIRS_UP_TO = 2000


@dataclass(frozen=True)
class Informed:
    """An attacker who knows public columns of the target.

    Attributes:
        columns: What is known, names joined by commas.
        leakage: I(S;Y|A) in nats: what the release adds for this attacker, on average.
        ceiling: I(S;X|A) in nats: what publishing the public columns as they are would add.
    """

    columns: str
    leakage: float
    ceiling: float


def informed(x_alphabet: Alphabet, p_sx: Array, channel: Array) -> tuple[Informed, ...]:
    """The attackers who know any one or two public columns, the one who learns most first.

    Args:
        x_alphabet: The M public symbols.
        p_sx: p(s, x), shape (K, M).
        channel: p(y|x), shape (M, N).
    """
    n_x = p_sx.shape[1]
    columns = {name: tuple(values) for name, values in x_alphabet.column_labels.items()}
    some = few_columns(columns, 2 if n_x <= PAIRS_UP_TO else 1)
    found = []
    for each in some:
        ceiling = _ceiling(p_sx, each)
        found.append(Informed(each.name, min(each.leakage(p_sx, channel), ceiling), ceiling))
    return tuple(sorted(found, key=lambda each: -each.leakage))


def _ceiling(p_sx: Array, attacker: Attacker) -> float:
    """I(S;X|A) = H(S|A) − H(S|X) in nats."""
    p_sa = np.stack([p_sx[:, group].sum(axis=1) for group in attacker.groups()], axis=1)
    return max(float(measures.conditional_entropy(p_sa) - measures.conditional_entropy(p_sx)), 0.0)


def words(found: tuple[Informed, ...], alone: float) -> list[str]:
    """What the attacker who learns most learns, beside one who knows nothing.

    Args:
        found: The attackers, the one who learns most first.
        alone: I(S;Y), what the release tells an attacker who knows nothing else, in nats.
    """
    if not found:
        return []
    worst = found[0]
    several = "one or two" if any("," in each.columns for each in found) else "one"
    return [
        f"Of attackers who know {several} of the public columns of their target, one who knows {worst.columns} learns "
        "most: "
        f"{amount(worst.leakage)} of the {told(worst.ceiling)} that the columns as they are would "
        f"add; one who knows nothing learns {amount(alone)}."
    ]
