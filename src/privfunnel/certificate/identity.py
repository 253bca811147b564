"""Which problem a certificate belongs to, and what it consists of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import CertificateError
from privfunnel.model.problem import Problem


def check_owner(fingerprint: str, tasks: str | None, problem: Problem) -> None:
    """Raise CertificateError unless a certificate with this fingerprint, and that of its tasks, is one of ``problem``.

    A problem's own fingerprint says nothing of its tasks.
    """
    if problem.fingerprint != fingerprint:
        raise CertificateError(
            f"the certificate belongs to another problem (fingerprint {fingerprint[:12]}…, this one is "
            f"{problem.fingerprint[:12]}…): verify it with the table it was made for"
        )
    if tasks is not None and problem.tasks is None:
        raise CertificateError(
            "the certificate is about a release for a task: name it, on the command line with --task"
        )
    if tasks is not None and tasks != problem.required_tasks().fingerprint:
        raise CertificateError(
            f"the certificate belongs to another task (fingerprint {tasks[:12]}…): verify it with the task it was made "
            "for"
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
