"""Compile the hot loops when numba is there (extra ``fast``); run the very same functions as plain Python otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Decorate a kernel: ``numba.njit`` with on-disk cache and IEEE arithmetic, or the function itself.

    ``fastmath`` stays off because the kernels rely on the order of rounding, and the error model is NumPy's so that
    ``log 0`` is ``-inf`` in both worlds. Setting the environment variable ``NUMBA_DISABLE_JIT`` gives plain Python.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return function
    try:
        import numba
    except ModuleNotFoundError:
        return function
    return cast("Function", numba.njit(cache=True, error_model="numpy", fastmath=False)(function))
