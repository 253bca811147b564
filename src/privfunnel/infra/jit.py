"""Compile the hot loops when numba is there (extra ``fast``); run the very same functions as plain Python otherwise.

**What holds about the cache.** Machine code is kept on disk beside the sources, in files that numba checks against the
time stamp of the kernel's own file. That alone would go stale: a kernel contains those it calls and the constants that
it reads, and these may live in other files. So :func:`compiled` puts a fingerprint of all of them into the key of each
entry. Whatever is edited, every kernel that contains it is compiled anew, and nothing has to be touched or deleted by
hand. Entries that no key asks for any more stay on disk until ``make kernels`` removes all of them.

**What is compiled.** Kernels that take longer to compile than a small table takes as plain Python wait, those with
``later=True``: they stay plain until the work that was done and is foreseen pays for compiling, by sizes and steps and
no clock. Where the cache has them they are used at once. Both ways take the same steps, up to rounding of logarithms.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast, overload

Function = TypeVar("Function", bound=Callable[..., Any])

#: What compiling the kernels that wait takes, in seconds: an order of magnitude.
COMPILING_SECONDS = 12.0


class Kernel:
    """A kernel that is compiled when it is called while its family does not wait, and is plain Python until then.

    Args:
        function: The kernel.
        options: Those of ``numba.njit``.
        inner: Whether only other kernels call the compiled one, which then has no way in from Python.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], *, inner: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.options, self.inner = function, options, inner

    def __call__(self, *args: Any) -> Any:
        """Run it, in one way or the other."""
        return self.py_func(*args) if self.inner or _FAMILY.waits else self.machine(*args)

    @functools.cached_property
    def machine(self) -> Any:
        """Numba's dispatcher."""
        return _dispatcher(self.py_func, self.options)

    @property
    def _numba_type_(self) -> Any:  # asked for by compiled kernels that call this one
        return self.machine._numba_type_

    @property
    def signatures(self) -> Any:
        """The types that the kernel was compiled for."""
        return self.machine.signatures

    @property
    def cached(self) -> bool:
        """Whether the cache on disk holds machine code of this kernel as it is."""
        index = getattr(getattr(self.machine._cache, "_cache_file", None), "_load_index", dict)
        own = fingerprint(self.py_func)
        return any(key[-1] == own for key in index())


class _Family:
    """The kernels that wait: whether they do, and how many seconds of plain Python their work took, by its sizes."""

    waits: bool = False
    asked: bool = False
    spent: float = 0.0


_FAMILY = _Family()


def pays(seconds: float, sign: Callable[..., Any]) -> bool:
    """Whether the kernels that wait are compiled from now on, before work of so many seconds of plain Python.

    What was spent before counts as well, so that many small searches pay together. Once compiled is for good.

    Args:
        seconds: What the work takes as plain Python, foreseen from sizes.
        sign: A kernel of the family: where it is in the cache, so are the others.
    """
    if not isinstance(sign, Kernel):
        return False
    if not _FAMILY.asked:
        _FAMILY.asked, _FAMILY.waits = True, not sign.cached
    if _FAMILY.spent + seconds >= COMPILING_SECONDS:
        _FAMILY.waits = False
    return not _FAMILY.waits


def spend(seconds: float) -> None:
    """Count so many seconds of plain Python, known from the steps taken; kernels that wait do so until it is enough."""
    if _FAMILY.waits:
        _FAMILY.spent += seconds
        _FAMILY.waits = _FAMILY.spent < COMPILING_SECONDS


def left() -> float:
    """Seconds of plain Python, as :func:`spend` counts them, for which kernels still wait; infinite if none does."""
    return COMPILING_SECONDS - _FAMILY.spent if _FAMILY.waits else math.inf


def wait_no_longer() -> None:
    """Compile the kernels that wait when they are called next, whatever was foreseen."""
    _FAMILY.asked, _FAMILY.waits = True, False


class _Compiling:
    """What numba tells: who wants to hear of the first kernel compiled, and the seconds that went into all of them."""

    say: Callable[[], None] | None = None
    wall: float = 0.0
    cpu: float = 0.0


def announce(say: Callable[[], None] | None) -> None:
    """Call ``say`` once, when a kernel is about to be compiled, which is silent and takes seconds; None for nobody."""
    _Compiling.say = say


def seconds_compiling(clock: str) -> float:
    """Seconds that went into compiling kernels in this process by the ``"wall"`` or of the ``"cpu"``."""
    return _Compiling.cpu if clock == "cpu" else _Compiling.wall


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
        options: Options of ``numba.njit`` to change or to add, ``nogil=True`` say; and ``later=True`` for a kernel that
            stays plain Python until compiling pays, see :func:`pays`.
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
    later, inner = options.pop("later", False), "no_cpython_wrapper" in options
    return Kernel(function, options, inner=inner) if later or inner else _dispatcher(function, options)


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Numba's own, with a cache whose keys hold what the kernel is made of."""
    import numba

    kernel: Any = numba.njit(cache=True, **{"error_model": "numpy", "fastmath": False, **options})(function)
    # Not part of numba's public interface: where it is missing numba's own rule is left, and a test says so.
    own_key = getattr(kernel._cache, "_index_key", None)
    if own_key is not None:
        kernel._cache._index_key = lambda *of: (*own_key(*of), fingerprint(function))
    _listen()
    return kernel


@functools.cache
def _listen() -> None:
    """Have numba tell when something is compiled that the cache does not hold, and how long that takes."""
    from numba.core import event

    class Told(event.Listener):
        def __init__(self) -> None:
            self.begun: list[tuple[float, float]] = []

        def on_start(self, event: object) -> None:
            say, _Compiling.say = _Compiling.say, None
            if say is not None:
                say()
            self.begun.append((time.monotonic(), time.thread_time()))

        def on_end(self, event: object) -> None:
            wall, cpu = self.begun.pop()
            if not self.begun:  # kernels that it calls are compiled within
                _Compiling.wall += time.monotonic() - wall
                _Compiling.cpu += time.thread_time() - cpu

    event.register("numba:compile", Told())  # type: ignore[no-untyped-call]


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
