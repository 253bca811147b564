"""What a mechanism's file claims, checked against its own channel: numbers that someone changed are not believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from privfunnel import measures
from privfunnel.data.engines import Column
from privfunnel.errors import InvalidInputError
from privfunnel.model.channels import entries_of
from privfunnel.release.channel_files import is_number

if TYPE_CHECKING:
    from privfunnel.release.mechanism import Mechanism

AGREEMENT = 1e-9  # nats within which a file's claims must agree with its channel


def wrong(mechanism: Mechanism) -> Iterator[str]:
    """What does not fit, most basic things first: later checks rely on earlier ones."""
    checks = (_wrong_columns, _wrong_numbers, _wrong_shapes, _wrong_probabilities, _wrong_claims)
    return chain.from_iterable(check(mechanism) for check in checks)


def _wrong_columns(mechanism: Mechanism) -> Iterator[str]:
    roles = (mechanism.private_names, mechanism.public_names)
    # One column may have both roles, but no role has it twice.
    if any(len(set(names)) < len(names) or not names for names in roles):
        listed = " and ".join(", ".join(names) or "none" for names in roles)
        yield f"the private and public columns of the mechanism ({listed}) are missing or named twice"


def _wrong_numbers(mechanism: Mechanism) -> Iterator[str]:
    """Promises, guesses and rows that are not the numbers they must be."""
    finite = {
        f"promised {name}": mechanism.promise[name]
        for name in ("lower_bound", "disclosure_ceiling", "leakage_ceiling")
    }
    # What was asked for: one of the two, so that the other is null.
    finite |= {
        f"promised {name}": mechanism.promise[name]
        for name in ("requested", "budget")
        if mechanism.promise[name] is not None
    }
    finite |= {
        f"guess {name} of {guess.name!r}": getattr(guess, name)
        for guess in mechanism.guesses
        for name in ("before", "after", "original")
    }
    for name, value in finite.items():
        if not is_number(value) or not math.isfinite(value):
            yield f"the {name} of the mechanism is {value!r}, no finite number"
    for name in ("disclosure", "leakage"):  # their values are recomputed later
        if not is_number(mechanism.promise[name]):
            yield f"the mechanism claims {name} {mechanism.promise[name]!r}, no number"
    rows = mechanism.provenance.get("rows", 1)
    if not is_number(rows) or not 0 < rows < math.inf:
        yield f"the mechanism's number of rows is {rows!r}"


def _wrong_shapes(mechanism: Mechanism) -> Iterator[str]:
    for name, alphabet in (("s_codes", mechanism.s_alphabet), ("x_codes", mechanism.x_alphabet)):
        if not alphabet.fits:
            yield f"{name} of the mechanism do not fit its columns"
        if alphabet.repeats:  # a row of such a symbol would have two channels
            yield f"{name} of the mechanism hold a symbol twice"
    n_x, n_y = mechanism.channel.shape
    records = mechanism.outputs
    if records is not None and not (
        records.shape == (n_y,)
        and ((records >= 0) & (records < n_x)).all()
        and np.unique(records).size == n_y
    ):
        yield "the records that the mechanism's symbols stand for do not fit its channel"
    fits = {
        "x_codes": len(mechanism.x_alphabet) == n_x,
        "p_x": mechanism.p_x.shape == (n_x,),
        "p_s_given_y": mechanism.p_s_given_y.shape == (len(mechanism.s_alphabet), n_y),
    }
    yield from (f"{name} of the mechanism does not fit its channel" for name, fit in fits.items() if not fit)


def _wrong_probabilities(mechanism: Mechanism) -> Iterator[str]:
    sums = {
        "channel": mechanism.channel.sum(axis=1),
        "p_x": mechanism.p_x.sum(),
        # A symbol that never occurs says nothing, and its column is 0.
        "p_s_given_y": mechanism.p_s_given_y[:, mechanism.p_y > 0.0].sum(axis=0),
    }
    for name, total in sums.items():
        array = getattr(mechanism, name)
        array = entries_of(array)
        if not np.isfinite(array).all() or (array < 0.0).any() or np.abs(total - 1.0).max() > AGREEMENT:
            yield f"{name} of the mechanism holds no probabilities"


def _wrong_claims(mechanism: Mechanism) -> Iterator[str]:
    """The promise is recomputed from the channel; only the lower bound cannot be, without its certificate."""
    found = {
        "disclosure": float(measures.mutual_information(mechanism.p_xy)),
        "leakage": float(measures.mutual_information(mechanism.p_sy)),
    }
    for name, value in found.items():
        # Written so that a NaN, which is within no distance of anything, is refused too.
        if not abs(float(mechanism.promise[name]) - value) <= AGREEMENT:
            yield f"the mechanism claims {name} {mechanism.promise[name]!r}, its channel gives {value!r}"
    if mechanism.promise["lower_bound"] > mechanism.leakage + AGREEMENT:
        yield (
            f"the mechanism claims the lower bound {mechanism.promise['lower_bound']!r} above its own leakage "
            f"{mechanism.leakage!r}"
        )


def check_values(columns: Iterable[Column]) -> None:
    """Refuse infinite values, before the file is written and after it was read: JSON has no word for them."""
    for column in columns:
        for value in column.values:
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInputError(
                    f"column {column.name!r} has the value {value!r}, which a mechanism cannot keep: bin it, e.g. "
                    f"--bin '{column.name}=edges:0,18,65,inf'"
                )
