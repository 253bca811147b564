"""What one browser tab has loaded: its folder, its two processes and the curve being traced.

A session is known by a random id that only its tab holds. Its files lie in a folder of their own inside the server's
private folder (:mod:`.folders`), which is removed when the server ends. Ending processes takes its time: that is done
in threads, and the page's requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from privfunnel.app.explorer.events import Event
from privfunnel.app.explorer.folders import UPLOAD, PrivateFolder
from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.app.explorer.memory import MemoryPool
from privfunnel.app.explorer.process import JobError, JobStoppedError, Limits, Worker
from privfunnel.errors import InvalidInputError
from privfunnel.infra.locking import tidy

FAREWELL_SECONDS = 0.5  # for an idle process to tidy up before it is ended
#: Without a sign of life for so long, a page is gone that could not say so: its data does not lie about any longer. An
#: open page gives one each minute; a browser may hold back that of a tab in the background, but not for an hour.
SILENT_SECONDS = 3600.0


class Stream:
    """The events of one trace, kept so that a reader who reconnects misses nothing."""

    def __init__(self) -> None:
        """Start an empty stream."""
        self.events: list[Event] = []
        self.closed = False
        self._changed = asyncio.Event()

    def put(self, event: Event) -> None:
        """Append an event and wake the readers."""
        self.events.append(event)
        self._wake()

    def close(self) -> None:
        """Say that nothing follows."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, start: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield events from number ``start`` on, waiting for new ones until the stream is closed."""
        while True:
            changed = self._changed
            while start < len(self.events):
                yield start, self.events[start]
                start += 1
            if self.closed:
                return
            await changed.wait()


class Session:
    """One tab's data and processes."""

    def __init__(self, folder: Path, limits: Limits, pool: MemoryPool | None = None) -> None:
        """Open a session whose files go to ``folder`` and whose processes take their memory from ``pool``."""
        pool = MemoryPool(limits.memory) if pool is None else pool
        self.id = secrets.token_urlsafe(16)
        self.folder = folder / self.id
        self.folder.mkdir(mode=0o700)
        self.limits = limits
        self.front = Worker(self.folder, pool)  # answers what the page waits for
        self.tracer = Worker(self.folder, pool, niceness=5)  # traces the curve meanwhile
        self.stream: Stream | None = None
        self.news: Event = {}
        self.prepared: dict[tuple[str, float, str], Path] = {}
        self.seen = time.monotonic()
        self._trace: asyncio.Task[None] | None = None
        self._uploading: set[Path] = set()
        self._comparing = asyncio.Lock()
        self._compared = 0

    def new_upload(self) -> Path:
        """Return a new empty folder for one upload, under a name that cannot be guessed."""
        folder = Path(tempfile.mkdtemp(prefix=UPLOAD, dir=self.folder))
        self._uploading.add(folder)
        return folder

    def end_upload(self, folder: Path) -> None:
        """Say that an upload has been opened or refused."""
        self._uploading.discard(folder)

    def forget_uploads(self, keep: Path | None) -> None:
        """Remove every upload but the one that was opened last, and those that are still to be opened."""
        for folder in self.folder.glob(f"{UPLOAD}*"):
            if folder != keep and folder not in self._uploading:
                shutil.rmtree(folder, ignore_errors=True)

    async def ask(self, task: str, /, **arguments: Any) -> Any:
        """Run a short task and return its answer; how far it is stands in :attr:`news` meanwhile."""
        self.news = {}
        try:
            return await self.front.call(task, arguments, seconds=self.limits.quick, on_event=self._hear)
        finally:
            self.news = {}

    async def export(self, name: str, disclosure: float, form: str) -> None:
        """Write one of the files of a point and a form; it stands in :attr:`prepared` until it is fetched."""
        arguments = {"name": name, "disclosure": disclosure, "form": form}
        path = await self._long("export", arguments)
        self.prepared[name, disclosure, form] = Path(path)

    async def audit(self, **arguments: Any) -> Any:
        """Audit what a point is released as; like a download, it is waited for longer than a look."""
        return await self._long("audit", arguments)

    async def _long(self, task: str, arguments: dict[str, Any]) -> Any:
        """Run a task that is waited for longer than a look, until :meth:`stop`."""
        self.news = {}
        try:
            return await self.front.call(task, arguments, seconds=self.limits.trace, on_event=self._hear)
        finally:
            self.news = {}

    async def stop(self) -> bool:
        """Stop the file or the audit that is being made; return whether there was one."""
        if not self.front.working:
            return False
        await asyncio.to_thread(self.front.stop)
        return True

    def _hear(self, event: Event) -> None:
        self.news = event

    async def compare(self, **arguments: Any) -> Any:
        """Ask what stands beside a point, while the page goes on; only the latest one is answered."""
        self._compared += 1
        mine = self._compared
        async with self._comparing:
            if mine != self._compared:
                return {}  # another point has been chosen since
            return await self.tracer.call("beside", arguments, seconds=self.limits.quick)

    async def begin(self, **arguments: Any) -> None:
        """Start tracing a curve; what it finds arrives in :attr:`stream`. What is under way is stopped first."""
        await self.cancel()
        if self._comparing.locked():
            await asyncio.to_thread(self.tracer.stop)
        stream = self.stream = Stream()
        self._trace = asyncio.create_task(self._run(stream, arguments))

    async def _run(self, stream: Stream, arguments: dict[str, Any]) -> None:
        try:
            result = await self.tracer.call(
                "trace", arguments, seconds=self.limits.trace, on_event=stream.put
            )
            stream.put({"kind": "done", **result})
        except JobStoppedError as error:
            stream.put({"kind": "stopped", "message": str(error)})
        except JobError as error:
            stream.put({"kind": "failed", "message": str(error)})
        finally:
            stream.close()

    @property
    def busy(self) -> bool:
        """Whether a curve is being traced."""
        return self._trace is not None and not self._trace.done()

    async def cancel(self) -> bool:
        """Stop the trace under way, keeping what it has found; return whether there was one."""
        if not self.busy:
            return False
        assert self._trace is not None
        await asyncio.to_thread(self.tracer.stop)
        await asyncio.wait([self._trace], timeout=10.0)
        return True

    def close(self) -> None:
        """End the processes and remove the files; takes some seconds at most."""
        self.farewell()
        self.remove(time.monotonic() + FAREWELL_SECONDS)

    def hang_up(self) -> None:
        """End what the page still waits for."""
        if self.stream is not None:
            self.stream.close()
        for worker in (self.front, self.tracer):
            if worker.working:
                worker.stop()

    def farewell(self) -> None:
        """Ask the processes to end."""
        for worker in (self.front, self.tracer):
            worker.close()

    def remove(self, deadline: float) -> None:
        """See the processes end, by a deadline on the monotonic clock, and remove the files."""
        for worker in (self.front, self.tracer):
            worker.wait(max(deadline - time.monotonic(), 0.0))
            worker.leave()
        shutil.rmtree(self.folder, ignore_errors=True)


class Sessions:
    """All sessions of a server, at most ``most`` of them: the one idle for longest makes room."""

    def __init__(self, limits: Limits, most: int = 8, keeping: Keeping | None = None) -> None:
        """Create the private folder; releases are kept account of as ``keeping`` says."""
        self._private = PrivateFolder()
        self._keeping = keeping
        self._pool = MemoryPool(limits.memory)
        self._limits = limits
        self._most = most
        self._open: dict[str, Session] = {}

    @property
    def folder(self) -> Path:
        """The private folder."""
        return self._private.path

    async def open(self) -> Session:
        """Open a session for a new tab."""
        while len(self._open) >= self._most:
            idle = [session for session in self._open.values() if not session.busy]
            if not idle:
                raise InvalidInputError(
                    f"{self._most} tabs are busy: close one, or cancel its curve, and reload"
                )
            await self.close(min(idle, key=lambda session: session.seen).id)
        session = Session(self.folder, self._limits, self._pool)
        if self._keeping is not None:
            self._keeping.leave_in(session.folder)
        self._open[session.id] = session
        return session

    def get(self, name: str) -> Session | None:
        """Return the session with this id, or None."""
        session = self._open.get(name)
        if session is not None:
            session.seen = time.monotonic()
        return session

    async def close(self, name: str) -> None:
        """Close one session if it is open."""
        session = self._open.pop(name, None)
        if session is not None:
            await asyncio.to_thread(session.close)

    async def close_silent(self) -> None:
        """Close the sessions whose pages are gone without a word, unless a curve is being traced."""
        now = time.monotonic()
        for session in tuple(self._open.values()):
            if not session.busy and now - session.seen > SILENT_SECONDS:
                await self.close(session.id)

    def hang_up(self) -> None:
        """End what any page still waits for: nothing is answered any more."""
        for session in self._open.values():
            session.hang_up()

    def shutdown(self) -> None:
        """Close everything and remove the private folder."""
        ending, self._open = list(self._open.values()), {}
        for session in ending:  # all are asked first, so that they end side by side
            session.farewell()
        deadline = time.monotonic() + FAREWELL_SECONDS
        for session in ending:
            session.remove(deadline)
        self._private.remove()
        if self._keeping is not None and self._keeping.ledger:
            tidy(Path(self._keeping.ledger))  # a process that was ended in the middle held its lock
