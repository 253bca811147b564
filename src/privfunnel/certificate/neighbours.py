"""Files with certificates of the funnel's neighbours: lines along right guesses, or along χ².

One compressed ``.npz``, as of the funnel, with a name of its own; it is read without unpickling anything, and only
:meth:`verify` says whether what it holds is proved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from privfunnel.certificate.archive import Archive, FileKind
from privfunnel.certificate.chi_squared import ChiSquaredCertificate
from privfunnel.certificate.guessing import GuessingCertificate

FILES = FileKind("privfunnel/neighbour-certificate", 1, "guesses or χ²", "guess --out or inertia --out")

NeighbourCertificate = GuessingCertificate | ChiSquaredCertificate


def save_neighbours(path: str | os.PathLike[str], certificates: Iterable[NeighbourCertificate]) -> None:
    """Write certificates, e.g. those of a guessing curve, as one compressed ``.npz`` file, for the user alone."""
    FILES.save(path, map(_arrays, certificates))


def is_neighbours(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it holds certificates of the funnel's neighbours."""
    return FILES.named_by(path)


def load_neighbours(path: str | os.PathLike[str]) -> tuple[NeighbourCertificate, ...]:
    """Read what :func:`save_neighbours` wrote, from a file that anybody may have made.

    Raises:
        CertificateError: The file cannot be read as certificates of this version.
    """
    return FILES.load(path, _read)


def _arrays(certificate: NeighbourCertificate) -> dict[str, Any]:
    made: dict[str, Any] = {
        "fingerprint": np.array(certificate.fingerprint),
        "numbers": np.array([certificate.slope, certificate.intercept]),
    }
    if isinstance(certificate, GuessingCertificate):
        return made | {"weights": certificate.weights}
    return made | {"prices": certificate.prices, "entries": certificate.entries}


def _read(data: Archive, c: int) -> NeighbourCertificate:
    head = data.head(c, "slope", "intercept")
    if f"{c}.weights" in data:
        weights = data.floats(f"{c}.weights")
        return GuessingCertificate(**head, weights=weights)
    return ChiSquaredCertificate(
        **head,
        prices=data.floats(f"{c}.prices"),
        entries=data.floats(f"{c}.entries"),
    )
