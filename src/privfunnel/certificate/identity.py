"""Which problem a certificate belongs to, and what it consists of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import CertificateError
from privfunnel.problem import Problem


def check_owner(fingerprint: str, problem: Problem) -> None:
    """Raise CertificateError unless a certificate with this fingerprint is one of ``problem``."""
    if problem.fingerprint != fingerprint:
        raise CertificateError(
            f"the certificate belongs to another problem (fingerprint {fingerprint[:12]}…, this one is "
            f"{problem.fingerprint[:12]}…): verify it with the table it was made for"
        )


def digest_of(numbers: object, arrays: Iterable[NDArray[Any]]) -> str:
    """SHA-256 of everything a proof consists of: what was verified once need not be verified again.

    Args:
        numbers: What is not an array; its ``repr`` counts.
        arrays: The arrays, in an order that the proof fixes; shapes and types count.
    """
    digest = hashlib.sha256(repr(numbers).encode())
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
