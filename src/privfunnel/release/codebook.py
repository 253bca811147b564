"""The codebook beside a release: what each released symbol says about the public and the private data, rounded.

What may be in it is decided by :mod:`privfunnel.release.publication`: probabilities come in steps worth at least
``threshold`` rows of the design data, values and combinations of fewer rows are one entry, "(other)", and nothing is
in it that a guessed table could be checked against exactly. The exact numbers are in the mechanism, which stays with
the data.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.data.engines import Cut
from privfunnel.data.engines.bins import OTHER
from privfunnel.data.engines.cutting import rounded_all
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document, heading
from privfunnel.measures import Array
from privfunnel.model.channels import is_sparse
from privfunnel.release.batch_writer import neutral
from privfunnel.release.candidates import PARTS, ROW, WEIGHT
from privfunnel.release.mechanism import Mechanism, symbol_name
from privfunnel.release.publication import DIGITS, FINEST_PRIVATE, STEPS, Policy, Written
from privfunnel.release.records import RecordAlphabet, released_names

SCHEMA = "privfunnel/codebook"
#: How decoys are read.
READING = (
    "lines of one row are its candidates: the row was one of them, each with the probability that is its weight; sums "
    "and means over all lines, with the weights, estimate those of the table that was released, not of a population"
)


def precision(policy: Policy) -> str:
    """Say how the numbers of a codebook are rounded."""
    few = policy.threshold
    return (
        f"probabilities are multiples of their step, worth at least {few} rows of the design data (persons where they "
        "are known), and left out (step null) where too rare; values and combinations of fewer than "
        f"{few} rows are {OTHER!r}; entries that round to 0 are left out, so sums differ from 1; the promise has at "
        f"most {DIGITS} digits, leakage rounded up and disclosure down; rows are rounded to two digits or fewer"
    )


def to_dict(
    mechanism: Mechanism,
    policy: Policy | None = None,
    *,
    decoys: bool = False,
    records: RecordAlphabet | None = None,
) -> Document:
    """p(y), p(x|y) and p(s|y) with labels, rounded as :func:`precision` says, entries above 0 only, JSON-ready.

    Decoys say p(x|y) themselves, and symbols have no names there: of them it says how they are read.

    Args:
        mechanism: The mechanism.
        policy: What may be published.
        decoys: Whether it is released as decoys.
        records: Its records under that policy, where they are known already: of a wide table they take seconds.
    """
    policy = policy or Policy()
    rows = mechanism.behind
    records = records or RecordAlphabet.of(mechanism, policy)
    symbols = [] if decoys else _symbols(mechanism, records, policy)
    return {
        **heading(SCHEMA),
        "units": "nats",
        "precision": precision(policy),
        "threshold": policy.threshold,
        "public": list(released_names(mechanism)),
        "private": list(mechanism.private_names),
        "bins": {
            written.column.name: _bins(written) for written in records.written if written.numbers is not None
        },
        "promise": policy.promise(mechanism.promise, rows),
        "provenance": policy.provenance(mechanism.provenance),
        "p_y_step": policy.step(rows),
        **_further(mechanism, symbols, policy, decoys=decoys),
        "symbols": symbols,
    }


def _symbols(mechanism: Mechanism, records: RecordAlphabet, policy: Policy) -> list[Document]:
    """What is said of each symbol that is listed."""
    rows = mechanism.behind
    x_labels, x_of = _public_labels(mechanism, records, policy)
    p_s = mechanism.p_s_given_y @ mechanism.p_y
    s_labels, s_of = _grouped(mechanism.s_labels, policy.named(mechanism.s_alphabet, p_s, rows))
    step = policy.step(rows)
    listed = _listed(mechanism, policy)
    p_y = mechanism.p_y[listed]
    x_steps, s_steps = policy.steps(rows * p_y), policy.steps(rows * p_y, FINEST_PRIVATE)
    told = zip(
        listed.tolist(),
        [None] * len(p_y) if step is None else rounded_all(p_y, np.full(len(p_y), step)).tolist(),
        _rounded(x_labels, x_of @ mechanism.p_x_given_y[:, listed], x_steps),
        _given(x_steps),
        _rounded(s_labels, s_of @ mechanism.p_s_given_y[:, listed], s_steps),
        _given(s_steps),
        strict=True,
    )
    names = ("p_y", "p_x_given_y", "p_x_given_y_step", "p_s_given_y", "p_s_given_y_step")
    return [
        {"symbol": symbol_name(j, mechanism.n_y), **dict(zip(names, entry, strict=True))}
        for j, *entry in told
    ]


def _listed(mechanism: Mechanism, policy: Policy) -> NDArray[np.intp]:
    """The symbols that are listed: all of them, or those of a large mechanism of which something can be said."""
    if not mechanism.sparse:
        return np.arange(mechanism.n_y)
    return np.flatnonzero(mechanism.behind * mechanism.p_y >= policy.threshold / STEPS[-1])


def _given(steps: Array) -> list[float | None]:
    return [None if step != step else step for step in steps.tolist()]


def _rounded(labels: tuple[str, ...], table: Any, steps: Array) -> list[dict[str, float]]:
    """By column of a table, its entries that round to more than 0, by label, in order.

    Args:
        labels: Different names of the L rows.
        table: Shares, shape (L, n), an array or a SciPy sparse array.
        steps: The step of each column, NaN for one of which nothing is said, shape (n,).
    """
    if is_sparse(table):
        by_column = table.tocsc()
        by_column.sort_indices()
        row, shares = by_column.indices, by_column.data
        column = np.repeat(np.arange(len(steps)), np.diff(by_column.indptr))
    else:
        column, row = np.nonzero(table.T > 0.0)
        shares = table[row, column]
    said = (shares > 0.0) & ~np.isnan(steps[column])
    row, column, shares = row[said], column[said], shares[said]
    near = rounded_all(shares, steps[column])
    above = near > 0.0
    values, names = near[above].tolist(), [labels[i] for i in row[above].tolist()]
    ends = np.searchsorted(column[above], np.arange(len(steps) + 1)).tolist()
    return [dict(zip(names[a:b], values[a:b], strict=True)) for a, b in itertools.pairwise(ends)]


def _further(mechanism: Mechanism, symbols: list[Document], policy: Policy, *, decoys: bool) -> Document:
    """How decoys are read, or how many symbols have too few rows for anything to be said of them."""
    if decoys:
        return {"decoys": {"row": ROW, "weight": WEIGHT, "weight_step": 1.0 / PARTS, "reading": READING}}
    if not mechanism.sparse:
        return {}
    left = mechanism.n_y - len(symbols)
    return {"unlisted": f"{policy.about(left)} symbols of too few rows: nothing is said of them"}


def _bins(written: Written) -> list[Document]:
    """The bins of a column as they are written, and the number that stands for each."""
    assert written.numbers is not None
    assert isinstance(written.column.bins, Cut)
    whole = written.column.bins.integer
    told = {
        text: int(number) if whole else float(number)
        for text, number in zip(written.texts, written.numbers, strict=False)
    }
    return [{"bin": text, "number": number} for text, number in told.items()]


def _public_labels(
    mechanism: Mechanism, records: RecordAlphabet, policy: Policy
) -> tuple[tuple[str, ...], Any]:
    """Names of the combinations that are written, rare ones together, and which symbols each stands for."""
    if mechanism.sparse:
        return _few_labels(mechanism, records, policy)
    shown = sparse.csr_array(
        (np.ones(len(records.of_x)), (records.of_x, np.arange(len(records.of_x)))),
        shape=(len(records), len(records.of_x)),
    )
    labels, of = _grouped(records.labels, records.named(mechanism, policy))
    return labels, of @ shown


def _few_labels(
    mechanism: Mechanism, alphabet: RecordAlphabet, policy: Policy
) -> tuple[tuple[str, ...], Any]:
    """The same for very many combinations, of which few are listed: no others are given names."""
    kept = np.flatnonzero(alphabet.named(mechanism, policy))
    some = RecordAlphabet(alphabet.columns, alphabet.codes[kept], alphabet.written, kept, alphabet.header)
    names, of = _grouped((*some.labels, OTHER), np.append(np.ones(len(kept), dtype=bool), False))
    place = np.full(len(alphabet), len(kept))
    place[kept] = np.arange(len(kept))
    ones = (np.ones(len(alphabet.of_x)), (place[alphabet.of_x], np.arange(len(alphabet.of_x))))
    return names, of @ sparse.csr_array(ones, shape=(len(kept) + 1, len(alphabet.of_x)))


def _grouped(labels: tuple[str, ...], listed: Any) -> tuple[tuple[str, ...], Any]:
    """Different labels, those not listed as "(other)" last, and a sparse 0-1 matrix (labels, symbols) that adds."""
    names = [label if ok else OTHER for label, ok in zip(labels, listed, strict=True)]
    order = {name: i for i, name in enumerate(sorted(dict.fromkeys(names), key=lambda name: name == OTHER))}
    places = ([order[name] for name in names], np.arange(len(names)))
    adds = sparse.csr_array((np.ones(len(names)), places), shape=(len(order), len(names)))
    return tuple(order), adds


def to_csv(
    mechanism: Mechanism,
    policy: Policy | None = None,
    *,
    decoys: bool = False,
    records: RecordAlphabet | None = None,
    raw_text: bool = False,
) -> str:
    """One line an entry above 0: symbol, p(y), what it is about, label, probability given the symbol, rounding step.

    Labels that a spreadsheet would compute get an apostrophe, unless ``raw_text`` leaves them as they are.
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["symbol", "p_y", "of", "label", "p_given_y", "step"])
    for entry in to_dict(mechanism, policy, decoys=decoys, records=records)["symbols"]:
        for of, key in (("public", "p_x_given_y"), ("private", "p_s_given_y")):
            for label, value in entry[key].items():
                label = label if raw_text else neutral(label)
                writer.writerow([entry["symbol"], entry["p_y"], of, label, value, entry[f"{key}_step"]])
    return lines.getvalue()


def render(
    mechanism: Mechanism,
    path: Path,
    policy: Policy | None = None,
    *,
    decoys: bool = False,
    records: RecordAlphabet | None = None,
    raw_text: bool = False,
) -> str:
    """The text of a codebook file in the format of its suffix; arguments as for :func:`to_dict` and :func:`to_csv`.

    Raises:
        InvalidInputError: The suffix is neither .json nor .csv.
    """
    if path.suffix.lower() == ".json":
        found = to_dict(mechanism, policy, decoys=decoys, records=records)
        return indented(found) + "\n"
    if path.suffix.lower() == ".csv":
        return to_csv(mechanism, policy, decoys=decoys, records=records, raw_text=raw_text)
    raise InvalidInputError(
        f"the codebook {str(path)!r} is neither .json nor .csv: the suffix chooses the format"
    )


def indented(data: object, depth: int = 0) -> str:
    """What ``json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)`` gives, in a fifth of the time.

    The standard library indents in Python, token by token; here each entry is one text.
    """
    if not isinstance(data, dict | list) or not data:
        return _plain(data)
    line = "\n" + " " * (depth + 1)
    if isinstance(data, dict):
        inner = [
            f"{encode_basestring(key)}: {indented(v, depth + 1) if isinstance(v, dict | list) else _plain(v)}"
            for key, v in data.items()
        ]
        return "{" + line + ("," + line).join(inner) + line[:-1] + "}"
    return "[" + line + ("," + line).join([indented(each, depth + 1) for each in data]) + line[:-1] + "]"


def _plain(value: object) -> str:
    """The JSON text of what holds nothing; ``repr`` is what the standard library writes a finite number as."""
    if type(value) is float and math.isfinite(value):
        return repr(value)
    return encode_basestring(value) if type(value) is str else _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def default_path(out: Path) -> Path:
    """``release.csv`` → ``release.codebook.json``."""
    return out.parent / f"{out.stem}.codebook.json"
