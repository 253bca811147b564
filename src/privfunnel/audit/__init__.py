"""Audits: what a release really says about the private columns, every number with an interval.

* :func:`mechanism` looks at a mechanism alone,
* :func:`table` counts a table again and checks the promise made for it,
* :func:`release` compares an original and a released table,
* :func:`holdout` designs on some rows and audits on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.audit import findings, promise
from privfunnel.audit.alignment import align, recount
from privfunnel.audit.attacker import Attack
from privfunnel.audit.estimates import (
    Information,
    Interval,
    exact_information,
    information,
    resample,
    resampling,
)
from privfunnel.audit.findings import Resampled
from privfunnel.audit.held_out import holdout
from privfunnel.audit.population import (
    GuessingBound,
    PopulationBound,
    guaranteed_outputs,
    population_bound,
    population_guessing,
    population_lift,
    population_lower_bound,
)
from privfunnel.audit.promise import Draws, Recount
from privfunnel.audit.result import LIMITS, Attribute, Audit, Holdout, Symbol
from privfunnel.engines import Alphabet, ReadOptions
from privfunnel.errors import InvalidInputError
from privfunnel.mechanism import Mechanism

__all__ = [
    "LIMITS", "Attack", "Attribute", "Audit", "Draws", "GuessingBound", "Holdout", "Information", "Interval",
    "PopulationBound", "Recount", "Symbol", "guaranteed_outputs", "holdout", "mechanism", "population_bound",
    "population_guessing", "population_lift", "population_lower_bound", "release", "table",
]  # fmt: skip

BOOTSTRAP = 400
PERMUTATIONS = 199
ATTACKER_ROWS = 20_000


def mechanism(designed: Mechanism) -> Audit:
    """Audit a mechanism alone: its own exact numbers for the table it was designed on."""
    tables = _split(designed.s_alphabet, (designed.p_sy, ()))
    attributes = findings.attributes(
        {name: exact_information(*resampled) for name, resampled in tables.items()}, tables, {}, {}
    )
    from_x = {guess.name: findings.exact(guess.original) for guess in designed.guesses}
    return Audit(
        rows=int(designed.provenance.get("rows", 0)),
        n_y=designed.n_y,
        private=designed.private_names,
        public=designed.public_names,
        disclosure=exact_information(designed.channel * designed.p_x[:, None], ()),
        disclosure_ceiling=float(designed.promise["disclosure_ceiling"]),
        leakage_ceiling=float(designed.promise["leakage_ceiling"]),
        attributes=tuple(replace(each, original=from_x.get(each.name)) for each in attributes),
        symbols=findings.symbols((designed.p_sy, ()), designed.y_labels, designed.s_labels),
        exact=True,
        mechanism_known=True,
    )


def table(
    original: Any,
    designed: Mechanism,
    *,
    read: ReadOptions | None = None,
    bootstrap: int = BOOTSTRAP,
    seed: int = 0,
) -> Audit:
    """Audit a mechanism on a table, the one it was designed on or another, and check its promise.

    The numbers are exact for the table; the intervals are those of the population behind it.

    Args:
        original: The table, as for :func:`privfunnel.tables.count`.
        designed: The mechanism.
        read: How to read a text file.
        bootstrap: Number of resampled tables.
        seed: Fixes the resampling.
    """
    rng = np.random.default_rng(seed)
    counts = recount(original, designed.private_names, designed.public_names, designed.bins, read)
    channel, _ = promise.channel_for(designed, counts)
    p_sx = counts.table() / counts.n
    drawn = resample(p_sx, counts.n, bootstrap, rng)
    sy: Resampled = (p_sx @ channel, [draw @ channel for draw in drawn])
    p_x = p_sx.sum(axis=0)
    tables = _split(counts.s_alphabet, sy)
    return Audit(
        rows=counts.n,
        n_y=designed.n_y,
        private=designed.private_names,
        public=designed.public_names,
        disclosure=exact_information(
            channel * p_x[:, None], [channel * draw.sum(axis=0)[:, None] for draw in drawn]
        ),
        disclosure_ceiling=float(measures.entropy(p_x)),
        leakage_ceiling=float(measures.mutual_information(p_sx)),
        attributes=findings.attributes(
            {name: exact_information(*resampled) for name, resampled in tables.items()},
            tables,
            _split(counts.s_alphabet, (p_sx, drawn)),
            {},
        ),
        symbols=findings.symbols(sy, designed.y_labels, counts.s_labels),
        recount=promise.recount(designed, counts, drawn),
        exact=True,
        mechanism_known=True,
    )


def release(
    original: Any,
    released: Any,
    *,
    mechanism: Mechanism | None = None,
    private: str | Iterable[str] | None = None,
    public: str | Iterable[str] | None = None,
    bins: Mapping[str, Any] | None = None,
    on: str | None = None,
    read: ReadOptions | None = None,
    read_released: ReadOptions | None = None,
    bootstrap: int = BOOTSTRAP,
    permutations: int = PERMUTATIONS,
    attacker_rows: int = ATTACKER_ROWS,
    seed: int = 0,
) -> Audit:
    """Audit a released table against its original.

    Args:
        original: The table before the release, as for :func:`privfunnel.tables.count`.
        released: The table after it: symbols, records, or (without a mechanism) any columns.
        mechanism: The mechanism, if there is one; it brings the columns and bins and has its promise checked.
        private: Names of the private columns; with a mechanism, its own.
        public: Names of the public columns; with a mechanism, its own.
        bins: Bins of original and released columns; with a mechanism, its own.
        on: Column in both tables that matches rows; by order without it.
        read: How to read the original, if it is a text file.
        read_released: How to read the release, if it is one; with a header by default.
        bootstrap: Number of resampled tables behind an interval.
        permutations: Number of permuted pairings behind the null; 0 for none.
        attacker_rows: Most rows an attacker trains on; 0 for no attacker.
        seed: Fixes resampling, permutations and folds.

    Raises:
        InvalidInputError: The tables cannot be read or matched, or columns are missing.
    """
    if mechanism is not None:
        private, public, bins = mechanism.private_names, mechanism.public_names, mechanism.bins
    if private is None or public is None:
        raise InvalidInputError(
            "without a mechanism, name the private and the public columns of the original"
        )
    private, public = ((names,) if isinstance(names, str) else tuple(names) for names in (private, public))
    used = {name: rule for name, rule in (bins or {}).items() if name in {*private, *public}}
    counts = recount(original, private, public, used, read)
    sample = align(
        original,
        released,
        counts,
        mechanism=mechanism,
        on=on,
        bins=bins,
        read=read,
        # A mechanism's own texts come back as they were written, blanks and all.
        read_released=read_released or ReadOptions(header=True, trim=mechanism is None),
    )
    rng = np.random.default_rng(seed)
    p_sx = counts.table() / counts.n
    drawn = resample(p_sx, counts.n, bootstrap, rng)
    sy: Resampled = (sample.sy / sample.n, resample(sample.sy, sample.n, bootstrap, rng))
    worst = sy
    check: Draws | None = None
    bias: dict[str, float] = {}
    if mechanism is not None:
        check, bias = promise.draws(mechanism, sample, size=bootstrap, rng=rng)
        if check.agrees:
            channel = promise.channel_of(mechanism, sample)
            worst = (p_sx @ channel, [draw @ channel for draw in drawn])
        else:  # a mechanism says nothing about rows that it did not draw, nor about their bias
            bias = {}
    rows = _split(counts.s_alphabet, sy)
    leakage = {
        name: information(p * sample.n, draws, permutations=permutations, rng=rng, bias=bias.get(name))
        for name, (p, draws) in rows.items()
    }
    return Audit(
        rows=sample.n,
        n_y=len(sample.y_alphabet),
        private=private,
        public=public,
        disclosure=information(
            sample.xy,
            resampling(sample.xy, sample.n, bootstrap, rng),
            permutations=0,
            rng=rng,
            bias=bias.get(promise.DISCLOSURE),
        ),
        disclosure_ceiling=float(measures.entropy(p_sx.sum(axis=0))),
        leakage_ceiling=float(measures.mutual_information(p_sx)),
        attributes=findings.attributes(
            leakage,
            _split(counts.s_alphabet, worst),
            _split(counts.s_alphabet, (p_sx, drawn)),
            findings.attacks(sample, attacker_rows, rng) if attacker_rows else {},
        ),
        symbols=findings.symbols(worst, sample.y_labels, counts.s_labels),
        recount=None if mechanism is None else promise.recount(mechanism, counts, drawn),
        draws=check,
        mechanism_known=check is not None and check.agrees,
        unmatched=sample.unmatched,
    )


def _split(private: Alphabet, joint: Resampled) -> dict[str, Resampled]:
    """Tables of each single attribute, and of all together, with their resampled ones."""
    whole = private.collapse(joint[0])
    drawn = [private.collapse(draw) for draw in joint[1]]
    return {name: (table, [each[name] for each in drawn]) for name, table in whole.items()}
