"""What counts as one piece of evidence in an audit: a row, a person with all rows, or a cluster of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from privfunnel import measures
from privfunnel.audit import estimates
from privfunnel.audit.alignment import Sample
from privfunnel.audit.persons import ALONE, Together
from privfunnel.data.engines import ReadOptions, open_table
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism

Pair = Literal["sx", "sy", "xy"]


def chosen_columns(
    original: object,
    read: ReadOptions | None,
    mechanism: Mechanism | None,
    person: str | None,
    cluster: str | None,
) -> Together:
    """The columns that say which rows go together: those named, or the mechanism's where the table has them.

    Raises:
        InvalidInputError: A column named is one of the mechanism's.
    """
    asked = {"who a row is about": person, "which rows belong together": cluster}
    for what, column in asked.items():
        if column and mechanism is not None and column in {*mechanism.public_names, *mechanism.private_names}:
            raise InvalidInputError(
                f"column {column!r} cannot say {what}: it is public or private in this mechanism"
            )
    own = ALONE if mechanism is None else Together(mechanism.person, mechanism.cluster)
    chosen = Together(own.person if person is None else person, own.cluster if cluster is None else cluster)
    if (person is None and own.person) or (cluster is None and own.cluster):
        with open_table(original, read) as table:
            there = table.columns
        chosen = Together(
            chosen.person if person is not None or chosen.person in there else None,
            chosen.cluster if cluster is not None or chosen.cluster in there else None,
        )
    return Together(chosen.person or None, chosen.cluster or None)


def resampling(sample: Sample, pair: Pair, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Tables of relative frequencies of a pair of symbols, from rows, persons or clusters drawn with replacement."""
    people, table = sample.people, _table(sample, pair)
    if people is None:
        n = sample.counts.n if pair == "sx" else sample.n
        return estimates.resampling(table, n, size, rng)
    codes = {"s": people.s, "x": people.x, "y": people.y}
    n_a, n_b = table.shape
    return people.resampling(codes[pair[0]], codes[pair[1]], (n_a, n_b), size, rng)


def resample(sample: Sample, pair: Pair, size: int, rng: np.random.Generator) -> list[Array]:
    """The same held together; fewer if they would be huge."""
    return list(resampling(sample, pair, min(size, estimates.fitting(_table(sample, pair))), rng))


def _table(sample: Sample, pair: Pair) -> Array:
    if pair == "sx":
        return sample.counts.table() / sample.counts.n
    return sample.sy if pair == "sy" else sample.xy


def nulls(sample: Sample, permutations: int, rng: np.random.Generator) -> dict[str, Array]:
    """Informations of each private attribute, and of all together, with released rows exchanged between pieces."""
    private = sample.counts.s_alphabet
    found: dict[str, list[float]] = {name: [] for name in private.collapse(sample.sy)}
    n_s, n_y = sample.sy.shape
    if sample.people is not None:
        for table in sample.people.permuted((n_s, n_y), permutations, rng):
            for name, each in private.collapse(table / sample.n).items():
                found[name].append(float(measures.mutual_information(each)))
    return {name: np.array(values) for name, values in found.items()}
