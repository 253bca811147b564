"""Which backend advances AEM runs on a device: NumPy, compiled code on the CPU's cores, or PyTorch."""

from __future__ import annotations

import importlib.util
import os

from privfunnel.algorithms.aem.backends import Backend
from privfunnel.algorithms.aem.numpy_backend import NumpyBackend
from privfunnel.algorithms.aem.state import Tables
from privfunnel.errors import InvalidInputError, need


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_backend(tables: Tables, device: str, threads: int | None) -> Backend:
    """The backend for a device.

    Args:
        tables: The problem's tables.
        device: ``"cpu"`` (compiled if numba is installed, else NumPy), ``"numba"``, ``"numpy"``, ``"torch"``
            (PyTorch on the CPU), ``"cuda"`` or ``"cuda:1"``, or ``"auto"`` (a GPU if PyTorch sees one, else
            ``"cpu"``).
        threads: Threads of the compiled backend; None means all cores this process may use.

    Raises:
        InvalidInputError: The device is unknown or not there.
        MissingExtraError: The device needs a package that is not installed.
    """
    if device == "auto":
        device = "cuda" if _torch_sees_cuda() else "cpu"
    if device == "cpu":
        device = "numba" if importlib.util.find_spec("numba") else "numpy"
    if device == "numpy":
        return NumpyBackend(tables)
    if device == "numba":
        need("numba", extra="fast")
        from privfunnel.algorithms.aem.numba_backend import NumbaBackend

        return NumbaBackend(tables, threads or available_threads())
    if device in ("torch", "cuda") or device.startswith("cuda:"):
        from privfunnel.algorithms.aem.torch_backend import make_torch_backend

        return make_torch_backend(tables, "cpu" if device == "torch" else device)
    raise InvalidInputError(f"unknown device {device!r}: use cpu, auto, numpy, numba, torch or cuda")


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    return bool(need("torch", extra="gpu").cuda.is_available())
