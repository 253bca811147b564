"""Work done in a process of its own, so that no table can freeze the page or take the server down.

A :class:`Worker` owns one child process, started with ``spawn``. The child runs the named tasks of
:mod:`privfunnel.app.explorer.jobs` one after the other, under a limit on its memory; the server limits their time,
and stops a task by ending the process. What has to survive that is in the session's folder, never only in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from privfunnel.app.explorer.events import Event
from privfunnel.app.explorer.memory import Member, MemoryPool
from privfunnel.errors import PrivFunnelError

_SPAWN = multiprocessing.get_context("spawn")


class JobError(PrivFunnelError):
    """A task failed; the message is fit for the page."""


class JobStoppedError(PrivFunnelError):
    """A task was cancelled, or its process ended before it did."""


@dataclass(frozen=True)
class Limits:
    """What the working processes may use.

    Attributes:
        memory: Bytes of private memory, for all tabs together; 0 for no limit.
        quick: Seconds for a request that the page waits for.
        trace: Seconds for tracing one curve.
    """

    memory: int = 4 << 30
    quick: float = 120.0
    trace: float = 1800.0


class Worker:
    """The server's end of one child process; started on first use and again after it was stopped."""

    def __init__(self, folder: Path, pool: MemoryPool, *, niceness: int = 0) -> None:
        """Create a worker that keeps its files in ``folder``; no process is started yet."""
        self._folder = folder
        self._pool = pool
        pool.members.append(self._member)
        self._niceness = niceness
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._pending: asyncio.Future[Any] | None = None
        self._on_event: Callable[[Event], None] | None = None
        self._last = 0.0

    def prepare(self) -> None:
        """Start the process where there is room for it, so that its imports are done by the time it is needed."""
        if not self._alive and self._pool.make_room(newcomers=1):
            self._start()

    @property
    def _alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def _start(self) -> None:
        self._last = time.monotonic()
        ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_child, args=(theirs, str(self._folder), self._pool.total, self._niceness), daemon=True
        )
        self._process.start()
        theirs.close()
        self._connection = ours
        self._pool.share()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(ours, loop), daemon=True).start()

    def _member(self) -> Member:
        pid = self._process.pid if self._process is not None and self._alive else None
        return Member(pid, self._pending is not None, self._last, self.stop)

    def leave(self) -> None:
        """Take no more part in the sharing of memory."""
        self._pool.members.remove(self._member)

    async def call(
        self,
        task: str,
        arguments: dict[str, Any],
        *,
        seconds: float,
        on_event: Callable[[Event], None] | None = None,
    ) -> Any:
        """Run one task and return its result.

        Args:
            task: Name of a function of :mod:`privfunnel.app.explorer.jobs`.
            arguments: Its keyword arguments.
            seconds: Wall-clock limit, after which the process is ended.
            on_event: Called in the event loop with what the task reports on its way.

        Raises:
            JobError: The task refused its input or failed, or ran out of time or memory.
            JobStoppedError: The process was stopped.
        """
        async with self._lock:
            loop = asyncio.get_running_loop()
            self._pending = (
                loop.create_future()
            )  # from here on it is at work, and nobody ends it for its memory
            self._on_event = on_event
            try:
                if not self._pool.make_room():
                    raise JobError(
                        "all the memory that the explorer may use is at work: wait for a curve that is being drawn, "
                        "cancel it, or close other tabs of it"
                    )
                if not self._alive:
                    self._start()
                self._pool.share()
                connection = self._connection
                assert connection is not None
                await loop.run_in_executor(None, connection.send, (task, arguments))
                return await asyncio.wait_for(self._pending, seconds)
            except TimeoutError:
                await asyncio.to_thread(self.stop)
                raise JobError(
                    f"stopped after {seconds:.0f} s, the limit on time: make the problem smaller, with fewer columns "
                    "or coarser bins"
                ) from None
            except OSError:
                raise JobStoppedError("the working process has ended") from None
            finally:
                self._pending = None
                self._on_event = None
                self._last = time.monotonic()
                self._pool.share()

    @property
    def working(self) -> bool:
        """Whether a task is under way."""
        return self._pending is not None

    def stop(self) -> None:
        """End the process at once; a task under way raises :class:`JobStoppedError`."""
        process, self._process = self._process, None
        if process is not None and process.is_alive():
            process.kill()
            process.join(5.0)

    def close(self) -> None:
        """End the process: politely where it is idle, so that it can tidy up, at once where it is at work."""
        process, connection = self._process, self._connection
        if process is None or connection is None or self._pending is not None or not process.is_alive():
            self.stop()
            return
        with contextlib.suppress(OSError):
            connection.send(None)

    def wait(self, seconds: float) -> None:
        """Give a process that was asked to end some time to do so."""
        if self._process is not None:
            self._process.join(seconds)
        self.stop()

    def _listen(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Pass the child's messages to the event loop until it hangs up (runs in a thread)."""
        with contextlib.suppress(RuntimeError):  # the loop may be closed by the time the child ends
            try:
                while True:
                    message = connection.recv()
                    loop.call_soon_threadsafe(self._receive, connection, message)
            except (EOFError, OSError):
                loop.call_soon_threadsafe(self._receive, connection, ("gone", None))
        connection.close()

    def _receive(self, connection: Connection, message: tuple[str, Any]) -> None:
        if connection is not self._connection:
            return  # the last words of a process that has been replaced
        kind, payload = message
        if kind == "event":
            if self._on_event is not None:
                self._on_event(payload)
            return
        if self._pending is None or self._pending.done():
            return
        if kind == "done":
            self._pending.set_result(payload)
        elif kind == "error":
            self._pending.set_exception(JobError(payload))
        else:
            self._pending.set_exception(
                JobStoppedError("the working process has ended: it was cancelled, or ran out of memory")
            )


def _child(connection: Connection, folder: str, memory: int, niceness: int) -> None:
    """Run tasks until the server hangs up (the child's main function)."""
    _limit(memory, niceness)
    # Whatever is left behind by a process that is ended in the middle lies in the session's folder and goes with it.
    tempfile.tempdir = folder
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()
    from privfunnel.app.explorer import jobs as tasks  # only the child pays for the numerical libraries
    from privfunnel.app.explorer import workspace

    place = workspace.Workspace(Path(folder), emit=lambda event: connection.send(("event", event)))
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            message = connection.recv()
            if message is None:
                return
            task, arguments = message
            connection.send(_answer(place, tasks.TASKS[task], arguments))


def _answer(place: Any, function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[str, Any]:
    from privfunnel.app.explorer import wording  # as above

    try:
        return "done", function(place, **arguments)
    except PrivFunnelError as error:
        return "error", wording.for_page(place.without_paths(str(error)), place.units)
    except MemoryError:
        return "error", (
            "this needs more memory than the explorer may use: take fewer columns or coarser bins, "
            "or close other tabs of it"
        )
    except Exception as error:
        # The page must hear of it and the next task must still run; the terminal gets the details.
        traceback.print_exc(file=sys.stderr)
        told = place.without_paths(f"internal error ({type(error).__name__}): {error}")
        return "error", f"{told}; details are in the terminal"


def _limit(memory: int, niceness: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        os.nice(niceness)
    if memory:
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource  # absent on Windows

            if not hasattr(resource, "prlimit"):  # where there is, the server sets every process's share
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    # Arrow's own allocator reserves a gigabyte at once, used or not, and that would count.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _die_with(sentinel: int) -> None:
    """End this process when the server's ends, even in the middle of a task."""
    wait([sentinel])
    os._exit(0)
