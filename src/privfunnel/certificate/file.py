"""Certificate files: one compressed ``.npz`` for one or many, of whatever kinds, read without unpickling anything.

A file holds ``schema``, ``version`` and ``count``, and of its i-th certificate

    i.fingerprint      the problem that it belongs to
    i.kind             which kind of proof its body is, one of :mod:`.kinds`
    i.claim.*          the inequality and the releases it is about: :meth:`.claim.Claim.arrays`
    i.body.*           what proves it: ``arrays`` of the body of that kind
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from privfunnel.certificate import kinds
from privfunnel.certificate.archive import certificate_file
from privfunnel.certificate.proof import Certificate
from privfunnel.errors import CertificateError
from privfunnel.infra.storage import PRIVATE, VERSION, Document, heading, write_whole

SCHEMA = "privfunnel/certificate"

#: All that a file may hold is known once this is imported.
__all__ = ["SCHEMA", "kinds", "load_bundle", "save_bundle"]


def save_bundle(path: str | os.PathLike[str], certificates: Iterable[Certificate]) -> None:
    """Write certificates, e.g. those of a curve, as one compressed ``.npz`` file, whole or not at all.

    A proof speaks of one table in exact numbers: the file is for the user alone.
    """
    every = [certificate.arrays() for certificate in certificates]
    head = {**heading(SCHEMA), "count": len(every)}
    data: Document = {name: np.array(value) for name, value in head.items()}
    data |= {f"{c}.{name}": array for c, arrays in enumerate(every) for name, array in arrays.items()}
    write_whole(path, lambda stream: np.savez_compressed(stream, **data), mode=PRIVATE)


def load_bundle(path: str | os.PathLike[str]) -> tuple[Certificate, ...]:
    """Read what :func:`save_bundle` wrote, from a file that anybody may have made: see :mod:`.archive`.

    Raises:
        InvalidInputError: There is no such file.
        CertificateError: The file cannot be read as certificates of this version.
    """
    with certificate_file(path) as data:
        if str(data["schema"]) != SCHEMA:
            raise CertificateError(f"{str(path)!r} is not a certificate file: give one written by save")
        version, count = int(data["version"]), int(data["count"])
        if version != VERSION:
            raise CertificateError(
                f"{str(path)!r} has certificate version {version}, this release reads version {VERSION}: write "
                "it again with this release"
            )
        return tuple(Certificate.read(data, str(c)) for c in range(count))
