"""Audits of a mechanism without a release: its own exact numbers, alone or on a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.audit import findings, promise
from privfunnel.audit.alignment import recount
from privfunnel.audit.effort import BOOTSTRAP
from privfunnel.audit.estimates import exact_information, resample
from privfunnel.audit.findings import Resampled, split
from privfunnel.audit.result import Audit
from privfunnel.engines import ReadOptions
from privfunnel.mechanism import Mechanism


def mechanism(designed: Mechanism) -> Audit:
    """Audit a mechanism alone: its own exact numbers for the table it was designed on."""
    tables = split(designed.s_alphabet, (designed.p_sy, ()))
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
    tables = split(counts.s_alphabet, sy)
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
            split(counts.s_alphabet, (p_sx, drawn)),
            {},
        ),
        symbols=findings.symbols(sy, designed.y_labels, counts.s_labels),
        recount=promise.recount(designed, counts, drawn),
        exact=True,
        mechanism_known=True,
    )
