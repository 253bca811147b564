"""The codebook beside a release: what each released symbol says about the public and the private data, rounded.

A release hides persons, and its codebook must not bring them back: from exact p(x|y), p(s|y) and p(y) the channel
follows, and from it, by linear equations in whole numbers, the joint counts of private and public values, single
persons included. Published probabilities are therefore coarse. Those of the private values come in steps that are each
worth at least ``PERSONS`` rows of the design data, so that no number tells one person from none; a symbol too rare for
that has none at all. Fingerprints of the design data, its exact size and the solver's seed, against which a guessed
table could be checked, are left out. The exact numbers are in the mechanism, which stays with the data.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from privfunnel.errors import InvalidInputError
from privfunnel.mechanism import Mechanism

SCHEMA = "privfunnel/codebook"
SCHEMA_VERSION = 2
DECIMALS = 3  # of p(y), p(x|y) and the promise
PERSONS = 3.0  # rows of the design data that one step of p(s|y) covers at least
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of p(s|y)

PRECISION = (
    f"p_y, p_x_given_y and the promise are rounded to {DECIMALS} decimals; p_s_given_y to multiples of "
    f"p_s_given_y_step, worth at least {PERSONS:g} rows of the design data, and left out (step null) where too rare; "
    "entries that round to 0 are left out, so sums differ from 1; rows are rounded to two digits"
)


def to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """p(y), p(x|y) and p(s|y) with labels, rounded as ``PRECISION`` says, entries above 0 only, JSON-ready."""
    p_x_given_y, p_s_given_y = mechanism.p_x_given_y, mechanism.p_s_given_y
    rows = float(mechanism.provenance.get("rows", 0))
    symbols = []
    for j, label in enumerate(mechanism.y_labels):
        step = private_step(rows * float(mechanism.p_y[j]))
        symbols.append(
            {
                "symbol": label,
                "p_y": round(float(mechanism.p_y[j]), DECIMALS),
                "p_x_given_y": _rounded(mechanism.x_labels, p_x_given_y[:, j], 10.0**-DECIMALS),
                "p_s_given_y": {} if step is None else _rounded(mechanism.s_labels, p_s_given_y[:, j], step),
                "p_s_given_y_step": step,
            }
        )
    provenance = {
        name: mechanism.provenance[name] for name in ("privfunnel",) if name in mechanism.provenance
    }
    return {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "units": "nats",
        "precision": PRECISION,
        "public": list(mechanism.public_names),
        "private": list(mechanism.private_names),
        "promise": {
            name: round(value, DECIMALS) if isinstance(value, float) else value
            for name, value in mechanism.promise.items()
        },
        "provenance": provenance | ({"rows": int(float(f"{rows:.1e}"))} if rows else {}),
        "symbols": symbols,
    }


def private_step(rows: float) -> float | None:
    """The step to which p(s|y) of a symbol is rounded, or None where no step hides ``PERSONS`` persons.

    Args:
        rows: Expected rows of the design data that are released as this symbol, n·p(y).
    """
    return next((step for step in STEPS if step * rows >= PERSONS), None)


def _rounded(labels: tuple[str, ...], p: Any, step: float) -> dict[str, float]:
    near = {
        label: round(round(float(value) / step) * step, 6) for label, value in zip(labels, p, strict=True)
    }
    return {label: value for label, value in near.items() if value > 0.0}


def to_csv(mechanism: Mechanism) -> str:
    """One line an entry above 0: symbol, p(y), what it is about, label, probability given the symbol, rounding step."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["symbol", "p_y", "of", "label", "p_given_y", "step"])
    for entry in to_dict(mechanism)["symbols"]:
        for of, key, step in (
            ("public", "p_x_given_y", 10.0**-DECIMALS),
            ("private", "p_s_given_y", entry["p_s_given_y_step"]),
        ):
            for label, value in entry[key].items():
                writer.writerow([entry["symbol"], entry["p_y"], of, label, value, step])
    return lines.getvalue()


def render(mechanism: Mechanism, path: Path) -> str:
    """The text of a codebook file in the format of its suffix.

    Raises:
        InvalidInputError: The suffix is neither .json nor .csv.
    """
    if path.suffix.lower() == ".json":
        return json.dumps(to_dict(mechanism), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if path.suffix.lower() == ".csv":
        return to_csv(mechanism)
    raise InvalidInputError(
        f"the codebook {str(path)!r} is neither .json nor .csv: the suffix chooses the format"
    )


def default_path(out: Path) -> Path:
    """``release.csv`` → ``release.codebook.json``."""
    return out.parent / f"{out.stem}.codebook.json"
