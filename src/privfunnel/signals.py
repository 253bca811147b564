"""Requests to terminate become exceptions, so that whatever is half-written is removed on the way out."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

#: Seconds after which a request that came during an import is heard again.
LATER = 0.05


@contextlib.contextmanager
def terminate_as_exception() -> Iterator[None]:
    """Raise SystemExit(128 + number) on SIGTERM and SIGHUP while the block runs; only the main thread may.

    A signal that is ignored stays so: work under ``nohup`` is to survive its terminal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's business
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number in numbers if before[number] not in (signal.SIG_IGN, None)]
    try:
        for number in ours:
            signal.signal(number, _stop)
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise, but not into an import: a compiled module makes another error of it, or crashes at the program's end."""
    if _importing(frame):
        again = threading.Timer(LATER, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        raise SystemExit(128 + number)


def _importing(frame: FrameType | None) -> bool:
    """Whether an import is under way in some caller of ``frame``."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
