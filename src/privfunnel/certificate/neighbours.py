"""Files with certificates of the funnel's neighbours: lines along right guesses, or along χ².

One compressed ``.npz``, as of the funnel, with a name of its own; it is read without unpickling anything, and only
:meth:`verify` says whether what it holds is proved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from privfunnel.certificate.archive import Archive, open_archive
from privfunnel.certificate.bundle import UNREADABLE, says
from privfunnel.certificate.chi_squared import ChiSquaredCertificate
from privfunnel.certificate.guessing import GuessingCertificate
from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.storage import PRIVATE, write_whole

SCHEMA = "privfunnel/neighbour-certificate"
SCHEMA_VERSION = 1

NeighbourCertificate = GuessingCertificate | ChiSquaredCertificate


def save_neighbours(path: str | os.PathLike[str], certificates: Iterable[NeighbourCertificate]) -> None:
    """Write certificates, e.g. those of a guessing curve, as one compressed ``.npz`` file, for the user alone."""
    data: dict[str, Any] = {"schema": np.array(SCHEMA), "version": np.array(SCHEMA_VERSION)}
    count = 0
    for c, certificate in enumerate(certificates):
        count += 1
        data[f"{c}.fingerprint"] = np.array(certificate.fingerprint)
        data[f"{c}.numbers"] = np.array([certificate.slope, certificate.intercept])
        if isinstance(certificate, GuessingCertificate):
            data[f"{c}.weights"] = certificate.weights
        else:
            data |= {f"{c}.prices": certificate.prices, f"{c}.entries": certificate.entries}
    data["count"] = np.array(count)
    write_whole(path, lambda stream: np.savez_compressed(stream, **data), mode=PRIVATE)


def is_neighbours(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it holds certificates of the funnel's neighbours."""
    return says(path, SCHEMA)


def load_neighbours(path: str | os.PathLike[str]) -> tuple[NeighbourCertificate, ...]:
    """Read what :func:`save_neighbours` wrote, from a file that anybody may have made.

    Raises:
        CertificateError: The file cannot be read as certificates of this version.
    """
    try:
        with open_archive(path) as data:
            if (str(data["schema"]), int(data["version"])) != (SCHEMA, SCHEMA_VERSION):
                raise CertificateError(
                    f"{str(path)!r} holds no certificate of guesses or χ² that this release reads: give one that "
                    "privfunnel guess --out or inertia --out wrote, or update privfunnel"
                )
            return tuple(_read(data, c) for c in range(int(data["count"])))
    except FileNotFoundError as error:
        raise InvalidInputError(f"cannot read {str(path)!r} ({error.strerror}): check the path") from error
    except UNREADABLE as error:
        raise CertificateError(
            f"{str(path)!r} is not a readable certificate file: give the .npz that guess --out or inertia --out wrote"
        ) from error


def _read(data: Archive, c: int) -> NeighbourCertificate:
    slope, intercept = (float(x) for x in data[f"{c}.numbers"])
    fingerprint = str(data[f"{c}.fingerprint"])
    if f"{c}.weights" in data:
        weights = data[f"{c}.weights"].astype(np.float64)
        return GuessingCertificate(fingerprint=fingerprint, slope=slope, weights=weights, intercept=intercept)
    return ChiSquaredCertificate(
        fingerprint=fingerprint,
        slope=slope,
        prices=data[f"{c}.prices"].astype(np.float64),
        entries=data[f"{c}.entries"].astype(np.float64),
        intercept=intercept,
    )
