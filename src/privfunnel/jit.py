"""Compile the hot loops when numba is there (extra ``fast``); run the very same functions as plain Python otherwise.

**What holds about the cache.** Machine code is kept on disk beside the sources, in files that numba checks against the
time stamp of the kernel's own file. That alone would go stale: a kernel contains those it calls and the constants that
it reads, and these may live in other files. So :func:`compiled` puts a fingerprint of all of them into the key of each
entry. Whatever is edited, every kernel that contains it is compiled anew, and nothing has to be touched or deleted by
hand. Entries that no key asks for any more stay on disk until ``make kernels`` removes all of them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast, overload

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def compiled(function: Function, /) -> Function: ...


@overload
def compiled(**options: Any) -> Callable[[Function], Function]: ...


def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a kernel: ``numba.njit`` with on-disk cache and IEEE arithmetic, or the function itself.

    ``fastmath`` stays off because the kernels rely on the order of rounding, and the error model is NumPy's so that
    ``log 0`` is ``-inf`` in both worlds. Setting the environment variable ``NUMBA_DISABLE_JIT`` gives plain Python.

    Args:
        function: The kernel, where the decorator is used without options.
        options: Options of ``numba.njit`` to change or to add, ``nogil=True`` say.
    """
    if function is None:
        return lambda kernel: _compile(kernel, options)
    return _compile(function, options)


def compiled_inner(function: Function, /) -> Function:
    """Decorate a kernel that only other kernels call: without a way in from Python it is compiled in less time."""
    return cast("Function", _compile(function, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}))


def compiles() -> bool:
    """Whether kernels are compiled here: numba is installed, and ``NUMBA_DISABLE_JIT`` does not forbid it."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    try:  # found, not imported, which takes longer than much of what asks
        return importlib.util.find_spec("numba") is not None
    except ModuleNotFoundError:  # so says who hides it
        return False


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """:func:`compiled` with its options in a dictionary."""
    if not compiles():
        return function
    import numba

    kernel: Any = numba.njit(cache=True, **{"error_model": "numpy", "fastmath": False, **options})(function)
    # Not part of numba's public interface: where it is missing numba's own rule is left, and a test says so.
    own_key = getattr(kernel._cache, "_index_key", None)
    if own_key is not None:
        kernel._cache._index_key = lambda *of: (*own_key(*of), fingerprint(function))
    return kernel


@contextmanager
def compiling() -> Iterator[Callable[[], float]]:
    """Inside the block, the function given says how many seconds of it went into compiling kernels; 0 without numba.

    What is compiled is kept: the same work takes that much less the next time.
    """
    try:
        from numba.core import event
    except ModuleNotFoundError:
        yield lambda: 0.0
        return
    listener: Any = event.TimingListener()  # type: ignore[no-untyped-call]
    with event.install_listener("numba:compile", listener):
        yield lambda: float(listener.duration) if listener.done else 0.0


def fingerprint(function: Callable[..., Any]) -> str:
    """SHA-256 of what a kernel compiles to: its code, that of the kernels it calls, and the constants they read."""
    digest = hashlib.sha256()
    waiting, seen = [function], {function}
    while waiting:
        kernel = waiting.pop()
        code = kernel.__code__
        constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
        digest.update(code.co_code + repr((code.co_names, constants)).encode())
        # co_names holds attributes beside globals; one that happens to be called like a global does no harm.
        for name in code.co_names:
            value = kernel.__globals__.get(name)
            value = getattr(value, "py_func", value)
            if isinstance(value, FunctionType):
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
            elif not isinstance(value, ModuleType):
                digest.update(repr((name, value, getattr(value, "_fields", ()))).encode())
    return digest.hexdigest()
