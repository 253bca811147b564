"""The codebook beside a release: what each released symbol says about the public and the private data."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from privfunnel.errors import InvalidInputError
from privfunnel.mechanism import Mechanism

SCHEMA = "privfunnel/codebook"
SCHEMA_VERSION = 1


def to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """p(y), p(x|y) and p(s|y) with labels, nonzero entries only, JSON-ready."""
    p_x_given_y, p_s_given_y = mechanism.p_x_given_y, mechanism.p_s_given_y
    symbols = [
        {
            "symbol": label,
            "p_y": float(mechanism.p_y[j]),
            "p_x_given_y": _nonzero(mechanism.x_labels, p_x_given_y[:, j]),
            "p_s_given_y": _nonzero(mechanism.s_labels, p_s_given_y[:, j]),
        }
        for j, label in enumerate(mechanism.y_labels)
    ]
    return {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "units": "nats",
        "public": list(mechanism.public_names),
        "private": list(mechanism.private_names),
        "promise": dict(mechanism.promise),
        "provenance": dict(mechanism.provenance),
        "symbols": symbols,
    }


def _nonzero(labels: tuple[str, ...], p: Any) -> dict[str, float]:
    return {label: float(value) for label, value in zip(labels, p, strict=True) if value > 0.0}


def to_csv(mechanism: Mechanism) -> str:
    """One line a nonzero entry: symbol, p(y), what it is about, its label, its probability given the symbol."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["symbol", "p_y", "of", "label", "p_given_y"])
    for entry in to_dict(mechanism)["symbols"]:
        for of, key in (("public", "p_x_given_y"), ("private", "p_s_given_y")):
            for label, value in entry[key].items():
                writer.writerow([entry["symbol"], entry["p_y"], of, label, value])
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
    return out.with_name(f"{out.stem}.codebook.json")
