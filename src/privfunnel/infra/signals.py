"""Requests to stop become exceptions, so that whatever is half-written is removed on the way out.

Python hears a signal between two of its own instructions. A library that works for minutes in one call hears nothing:
:func:`interrupting` lets a thread call it off. And what such a library, or a module that is being imported, makes of
the exception is anybody's guess: :func:`raise_requested` and :func:`unveiled` raise the request again. Where Python
can only print it, in a callback of a library or in ``__del__``, the signal comes once more a moment later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

#: Seconds after which a request that came during an import, or was lost in a callback, is heard again.
LATER = 0.05
#: The signals that ask to stop, where a system has them.
STOPPING = ("SIGTERM", "SIGHUP", "SIGINT")

#: Whether the process is the command's own, and how much there is to clean up at its end.
_OWN: list[bool] = []
_TO_CLEAN_UP: list[None] = []
#: The number of the signal that asked to stop, and what is to be called off then.
_REQUESTED: list[int] = []
_CALLED_OFF: list[Callable[[], object]] = []


@contextlib.contextmanager
def terminate_as_exception() -> Iterator[None]:
    """Raise SystemExit(128 + number) on SIGTERM and SIGHUP while the block runs; only the main thread may.

    Ctrl-C stays a KeyboardInterrupt; all are remembered. A signal that is ignored stays so: work under ``nohup`` is to
    survive its terminal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's business
        return
    before = {number: signal.getsignal(number) for number in _stopping()}
    if _stop in before.values():
        yield  # an outer block hears them
        return
    ours = [number for number in before if before[number] not in (signal.SIG_IGN, None)]
    _REQUESTED.clear()
    hook = sys.unraisablehook
    try:
        for number in ours:
            signal.signal(number, _stop)
        sys.unraisablehook = _asking_again(hook)
        yield
    finally:
        sys.unraisablehook = hook
        for number in ours:
            signal.signal(number, before[number])
        _REQUESTED.clear()


def answered() -> None:
    """Forget the request to stop: it was for what has come to its end, and was what ended it."""
    _REQUESTED.clear()


def raise_requested() -> None:
    """Raise the request to stop, where there was one in this block: some library may have made another error of it."""
    if _REQUESTED:
        raise _exception(_REQUESTED[0])


@contextlib.contextmanager
def unveiled() -> Iterator[None]:
    """Where a request to stop comes out of the block as some other error, raise the request itself.

    Ctrl-C while a compiled module is imported ends as an ImportError, for instance, in DuckDB as one of its own, and as
    a SystemError where numba makes the arrays that a compiled function returns.
    """
    try:
        yield
    except Exception as error:
        raise_requested()
        cause = error.__cause__
        while cause is not None:
            if isinstance(cause, (KeyboardInterrupt, SystemExit)):
                raise cause from None
            cause = cause.__cause__
        raise


def _asking_again(
    hook: Callable[[sys.UnraisableHookArgs], object],
) -> Callable[[sys.UnraisableHookArgs], None]:
    """What Python calls where an exception has nowhere to go: a request to stop comes again, others go to ``hook``.

    A callback that a library makes while it loads compiled code would otherwise take a Ctrl-C with it.
    """

    def told(unraisable: sys.UnraisableHookArgs) -> None:
        if _REQUESTED and isinstance(unraisable.exc_value, (KeyboardInterrupt, SystemExit)):
            _again(
                _REQUESTED[-1], pending=True
            )  # remembered, since the library may raise an error of its own first
        else:
            hook(unraisable)

    return told


def _again(number: int, *, pending: bool = False) -> None:
    """Send this process a signal in a moment; where it is ``pending``, unless it was answered until then."""

    def send() -> None:
        if _REQUESTED or not pending:
            os.kill(os.getpid(), number)

    timer = threading.Timer(LATER, send)
    timer.daemon = True
    timer.start()


def _exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def own_process() -> None:
    """Say that this process is the command's own: it may end at once while it is being loaded."""
    _OWN.append(True)


@contextlib.contextmanager
def cleaning_up() -> Iterator[None]:
    """The block removes what is half-written at its end: no request to stop may get around that."""
    _TO_CLEAN_UP.append(None)
    try:
        yield
    finally:
        _TO_CLEAN_UP.pop()


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise, but not into an import: a compiled module makes another error of it, or crashes at the program's end.

    And who imports what may be missing takes that error for a missing module, and goes on as if nobody had asked. A
    command that is still being loaded, and has nothing to clean up, simply ends.
    """
    if _importing(frame):
        if _OWN and not (_TO_CLEAN_UP or _CALLED_OFF or threading.active_count() > 1):
            os._exit(128 + number)
        _again(number)
    else:
        _REQUESTED.append(number)
        raise _exception(number)


def _importing(frame: FrameType | None) -> bool:
    """Whether an import is under way in some caller of ``frame``."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# --- long calls ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def interrupting(call_off: Callable[[], object]) -> Iterator[None]:
    """While the block runs, a signal that Python handles also calls ``call_off``, from another thread.

    That ends a call that would not come back for long. Only the main thread can ask for it, where nobody else listens
    to signals; elsewhere nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _CALLED_OFF:
        _listen()
    _CALLED_OFF.append(call_off)
    try:
        yield
    finally:
        _CALLED_OFF.remove(call_off)
        if not _CALLED_OFF:
            _listen_no_more()


#: The end of the pipe that Python writes the numbers of signals into, while somebody listens.
_PIPE: list[int] = []


def _listen() -> None:
    """Start a thread that waits on a pipe into which Python writes the numbers of signals the moment they come."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    former = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if former != -1:  # an event loop listens already
        signal.set_wakeup_fd(former)
        os.close(reading)
        os.close(writing)
        return
    _PIPE.append(writing)
    threading.Thread(target=_hear, args=(reading,), name="signals", daemon=True).start()


def _listen_no_more() -> None:
    while _PIPE:
        with contextlib.suppress(ValueError):  # closed by another thread: the signals stay as they are
            signal.set_wakeup_fd(-1)
        os.close(_PIPE.pop())  # which ends the thread


def _hear(reading: int) -> None:
    """Call off what there is to call off at every signal, until the pipe is closed."""
    with os.fdopen(reading, "rb", buffering=0) as numbers:
        while number := numbers.read(1):
            calls = list(_CALLED_OFF)
            while calls:
                for call_off in calls:
                    with contextlib.suppress(Exception):  # it may have ended meanwhile
                        call_off()
                # A call that was only about to begin when it was called off knows nothing of it: once more, until it
                # has come back and Python has raised what was asked for.
                time.sleep(LATER)
                calls = [each for each in calls if each in _CALLED_OFF] if number[0] in _stopping() else []


def _stopping() -> set[int]:
    """The numbers of the signals that ask to stop."""
    return {getattr(signal, name) for name in STOPPING if hasattr(signal, name)}
