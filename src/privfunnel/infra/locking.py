"""Locks between processes: one at a time changes a file."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from privfunnel.errors import InvalidInputError

#: Seconds between two looks at a lock that another process holds.
BETWEEN = 0.1


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of a file while the block runs; wait where another process holds it.

    The lock is a file of its own beside it, ``.name.lock``, for the user alone, which is gone afterwards: the file
    itself is replaced whenever it is written. Of a link, the file that it leads to is locked.

    Args:
        path: The file; it need not exist.
        waiting: Called once where the lock has to be waited for.

    Raises:
        InvalidInputError: The lock cannot be made there.
    """
    beside = _beside(path)
    try:
        while True:
            try:
                lock = open_lock(beside, os.O_CREAT)
            except OSError as error:
                raise InvalidInputError(
                    f"cannot lock {str(path)!r} ({error.strerror or error}): choose a folder that exists and is "
                    "writable"
                ) from error
            with lock:
                while not take(lock):
                    if waiting is not None:
                        waiting()
                        waiting = None
                    time.sleep(BETWEEN)
                if _is(beside, lock):
                    yield
                    return
                # Whoever held it has removed it: another may hold the new one.
    finally:
        # An interrupt may have come at any instruction, also right after the lock was made.
        _remove(beside)


def tidy(path: Path) -> None:
    """Remove the lock of a file where nobody holds it: the process that did was ended in the middle."""
    _remove(_beside(path))


def _remove(beside: Path) -> None:
    """Remove a lock that nobody holds; who waits for it finds that it is gone, and makes a new one."""
    with contextlib.suppress(OSError), open_lock(beside) as lock:
        # Only who holds a lock removes it, and only where it still has the name.
        if take(lock) and _is(beside, lock):
            beside.unlink()


def _beside(path: Path) -> Path:
    """The lock of a file; of a link, that of the file it leads to."""
    path = path.resolve()
    return path.with_name(f".{path.name}.lock")


def _is(path: Path, held: BinaryIO) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(held.fileno()))
    except OSError:
        return False


def open_lock(path: Path, flags: int = 0) -> BinaryIO:
    """Open a lock's file, for the user alone; links are not followed."""
    flags |= os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "r+b")


def take(lock: BinaryIO) -> bool:
    """Lock an open file for this process; return whether nobody else had it."""
    try:
        import fcntl  # POSIX
    except ImportError:
        return _take_on_windows(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _take_on_windows(lock: BinaryIO) -> bool:  # pragma: no cover - the tests run on POSIX
    import msvcrt

    try:
        msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return False
    return True
