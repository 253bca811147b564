"""The working processes: they answer, fail, time out, run out of memory and are stopped without harm to the page."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Set
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

from explorer_server import copied_processes
from privfunnel.app.explorer.folders import PREFIX, PrivateFolder, sweep
from privfunnel.app.explorer.jobs import TASKS
from privfunnel.app.explorer.memory import IDLE, ROOM, SLACK, Member, MemoryPool, shares
from privfunnel.app.explorer.process import JobError, JobStoppedError, Limits, Worker
from privfunnel.app.explorer.sessions import SILENT_SECONDS, Session, Sessions, Stream
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.errors import InvalidInputError

ROLES = {"private": ["sex"], "public": ["smoking", "diabetes", "anaemia"], "bins": {}}


@pytest.fixture
def copied() -> Iterator[None]:
    with copied_processes():
        yield


def with_worker(folder: Path, work: Callable[[Worker], Coroutine[Any, Any, None]], **limits: Any) -> None:
    async def main() -> None:
        worker = Worker(folder, MemoryPool(Limits(**limits).memory))
        try:
            await work(worker)
        finally:
            worker.stop()

    asyncio.run(main())


def test_a_worker_answers_and_outlives_its_errors(tmp_path: Path) -> None:
    async def work(worker: Worker) -> None:
        with pytest.raises(JobError, match="choose one of heart-failure"):
            await worker.call("example", {"name": "nothing"}, seconds=300)
        with pytest.raises(JobError, match=r"internal error .TypeError"):
            await worker.call("example", {"no": "such argument"}, seconds=300)
        table = await worker.call("example", {"name": "heart-failure"}, seconds=300)
        assert table["rows"] == 299

    with_worker(tmp_path, work)


@pytest.mark.usefixtures("copied")
def test_a_task_that_takes_too_long_is_ended_and_the_next_one_runs(tmp_path: Path) -> None:
    async def work(worker: Worker) -> None:
        await worker.call("example", {"name": "heart-failure"}, seconds=300)
        await worker.call("roles", ROLES, seconds=300)
        with pytest.raises(JobError, match=r"stopped after 1 s, .*coarser bins"):  # of many minutes
            await worker.call("trace", {"points": 200, "solver": "drs"}, seconds=1)
        assert (await worker.call("example", {"name": "heart-failure"}, seconds=300))["rows"] == 299

    with_worker(tmp_path, work)


@pytest.mark.usefixtures("copied")
def test_stopping_a_worker_stops_its_task(tmp_path: Path) -> None:
    async def work(worker: Worker) -> None:
        await worker.call("example", {"name": "heart-failure"}, seconds=300)
        await worker.call("roles", ROLES, seconds=300)
        running = asyncio.create_task(worker.call("trace", {"points": 200, "solver": "drs"}, seconds=600))
        await asyncio.sleep(0.3)
        worker.stop()
        with pytest.raises(JobStoppedError, match="has ended"):
            await asyncio.wait_for(running, 120)

    with_worker(tmp_path, work)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits on memory are POSIX")
def test_too_much_memory_is_an_error_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # it reserves memory for each core

    async def work(worker: Worker) -> None:
        # Small in rows and cells, but a dense table of 15,000 × 4,000 is about half of the limit, and is needed twice.
        text = "s,x\n" + "".join(f"s{i},x{i % 4000}\n" for i in range(15_000))
        (tmp_path / "wide.csv").write_text(text)
        table = {"path": str(tmp_path / "wide.csv"), "name": "wide.csv"}
        assert (await worker.call("inspect", table, seconds=300))["rows"] == 15_000
        with pytest.raises(
            JobError, match=r"needs more memory than the explorer may use: .*close other tabs"
        ):
            await worker.call("roles", {"private": ["s"], "public": ["x"], "bins": {}}, seconds=300)
        # The process lives, and the next task runs.
        assert (await worker.call("example", {"name": "heart-failure"}, seconds=300))["rows"] == 299

    with_worker(tmp_path, work, memory=1 << 30)


@pytest.mark.usefixtures("copied")
def test_tasks_wait_for_each_other(tmp_path: Path) -> None:
    async def work(worker: Worker) -> None:
        names = ["heart-failure", "census-income", "heart-failure"]
        tables = await asyncio.gather(*(worker.call("example", {"name": n}, seconds=300) for n in names))
        assert [t["rows"] for t in tables] == [299, 32561, 299]

    with_worker(tmp_path, work)


@pytest.mark.usefixtures("copied")
def test_a_session_streams_cancels_and_keeps_what_it_found(tmp_path: Path) -> None:
    async def main() -> None:
        session = Session(tmp_path, Limits())
        try:
            await session.ask("example", name="heart-failure")
            await session.ask("roles", **ROLES)
            assert not await session.cancel()
            assert not await session.stop()
            await session.begin(points=5, solver="greedy")
            assert session.busy
            assert session.stream is not None
            events = [event async for _, event in session.stream.read(0)]
            assert [e["kind"] for e in events if e["kind"] != "progress"][-1] == "done"
            assert not session.busy
            assert (await session.ask("summary"))["disclosure_ceiling"] > 0

            # A file or an audit says how far it is and can be stopped, and the page goes on.
            audit = asyncio.create_task(session.audit(disclosure=1.0, form="records"))
            while not session.news and not audit.done():
                await asyncio.sleep(0.01)
            assert session.news["message"]
            assert await session.stop()
            with pytest.raises(JobStoppedError):
                await audit
            assert session.news == {}
            assert (await session.ask("summary"))["disclosure_ceiling"] > 0

            await session.begin(points=200, solver="drs")
            stream = session.stream
            async for _, event in stream.read(0):
                if event["kind"] == "progress":
                    break
            assert await session.cancel()
            assert stream.closed
            assert stream.events[-1]["kind"] == "stopped"

            await session.begin(points=1, solver="greedy")
            events = [event async for _, event in session.stream.read(0)]
            assert events[-1]["kind"] == "failed"
            assert "from 2 to 200" in events[-1]["message"]
        finally:
            session.close()
        assert not session.folder.exists()

    asyncio.run(main())


def test_a_stream_replays_to_late_readers() -> None:
    async def main() -> None:
        stream = Stream()
        for i in range(3):
            stream.put({"i": i})
        reading = asyncio.create_task(_collect(stream, 1))
        await asyncio.sleep(0)
        stream.put({"i": 3})
        stream.close()
        assert await reading == [(1, {"i": 1}), (2, {"i": 2}), (3, {"i": 3})]

    asyncio.run(main())


async def _collect(stream: Stream, start: int) -> list[tuple[int, dict[str, Any]]]:
    return [item async for item in stream.read(start)]


def test_busy_tabs_are_not_pushed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        sessions = Sessions(Limits(), most=2)
        try:
            first, second = await sessions.open(), await sessions.open()
            monkeypatch.setattr(Session, "busy", property(lambda self: self is first))
            third = await sessions.open()
            assert sessions.get(second.id) is None
            assert sessions.get(first.id) is first
            monkeypatch.setattr(Session, "busy", property(lambda self: True))
            with pytest.raises(InvalidInputError, match="2 tabs are busy"):
                await sessions.open()
            assert sessions.get(third.id) is third
        finally:
            sessions.shutdown()
        assert not sessions.folder.exists()

    asyncio.run(main())


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "processes",
    [[(False, 0)] * 10 + [(False, IDLE)],
     [(True, 300 << 20)], [(True, 1 << 30), (False, 100 << 20)], [(True, 5), (True, 1 << 30), (False, 500 << 20)],
     [(False, 150 << 20)] * 15 + [(True, 0)], [(False, 400 << 20)] * 9 + [(True, 1 << 20)]],
)  # fmt: skip
def test_the_shares_of_all_processes_stay_within_the_limit(processes: list[tuple[bool, int]]) -> None:
    total = 4 << 30
    found = shares(total, processes)
    assert sum(found) <= total
    assert all(limit >= used for limit, (_, used) in zip(found, processes, strict=True))


def test_one_task_has_nearly_everything_and_two_share() -> None:
    total = 4 << 30
    idle = (False, 100 << 20)
    assert shares(total, [(True, 100 << 20), idle]) == [total - IDLE, IDLE]
    first, second, rest = shares(total, [(True, 1 << 30), (True, 0), (False, IDLE)])
    assert first - (1 << 30) == second == (total - (1 << 30) - IDLE - SLACK) // 2
    assert rest == IDLE + SLACK
    assert shares(1 << 20, [(False, 1 << 20), (True, 1 << 20)]) == [
        1 << 20,
        1 << 20,
    ]  # all is gone: nobody grows


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a process limit another")
def test_tabs_share_one_limit_on_memory(tmp_path: Path) -> None:
    import resource

    async def main() -> None:
        pool = MemoryPool(2 << 30)
        folders = [tmp_path / name for name in "ab"]
        for folder in folders:
            folder.mkdir()
        workers = [Worker(folder, pool) for folder in folders]
        try:
            await asyncio.gather(
                *(w.call("example", {"name": "heart-failure"}, seconds=300) for w in workers)
            )
            pids = [member().pid for member in pool.members]
            limits = [resource.prlimit(pid, resource.RLIMIT_DATA)[0] for pid in pids if pid is not None]
            assert len(limits) == 2
            assert sum(limits) <= pool.total
        finally:
            for worker in workers:
                worker.stop()
                worker.leave()
        assert pool.members == []

    asyncio.run(main())


def test_a_process_that_starts_beside_full_ones_can_import() -> None:
    used = [(False, IDLE)] * 3 + [(False, 10 << 20)]
    assert shares(4 * IDLE, used) == [IDLE] * 4  # the slack of the others goes first


class Processes:
    """Members of a pool with made-up memory, and the order in which they were ended."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, used: list[int], busy: Set[int] = frozenset()
    ) -> None:
        self.used = dict(enumerate(used))
        self.busy = busy
        self.ended: list[int] = []
        monkeypatch.setattr("privfunnel.app.explorer.memory._used", self.used.__getitem__)

    def pool(self, total: int) -> MemoryPool:
        return MemoryPool(total, [partial(self._member, i) for i in self.used])

    def _member(self, i: int) -> Member:
        # The longer ago, the lower the number.
        return Member(None if i in self.ended else i, i in self.busy, float(i), partial(self.ended.append, i))


def test_idle_processes_end_for_a_task_least_recently_used_first(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, [300 << 20] * 16, busy={2, 15})
    assert processes.pool(4 << 30).make_room()
    # Those at work have 1 GiB each beside what they use, and each idle one that is left holds what imports may take.
    left = 16 - len(processes.ended) - 2
    assert (
        (4 << 30) - 2 * (300 << 20) - left * IDLE
        >= 2 * ROOM
        > (4 << 30) - 2 * (300 << 20) - (left + 1) * IDLE
    )
    assert processes.ended == [i for i in range(16) if i != 2][: len(processes.ended)]


def test_nothing_ends_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, [300 << 20] * 3, busy={1})
    assert processes.pool(4 << 30).make_room()
    assert processes.pool(0).make_room(newcomers=100)
    assert processes.ended == []


def test_processes_at_work_are_never_ended_and_a_newcomer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, [3900 << 20, 100 << 20, 0], busy={0, 2})
    assert not processes.pool(4 << 30).make_room()
    assert processes.ended == [1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a process limit another")
def test_a_task_that_finds_no_memory_is_refused_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(worker: Worker) -> None:
        monkeypatch.setattr(MemoryPool, "make_room", lambda self, newcomers=0: False)
        worker.prepare()
        with pytest.raises(JobError, match=r"at work: wait for a curve .* or close other tabs"):
            await worker.call("example", {"name": "heart-failure"}, seconds=300)
        assert worker._process is None

    with_worker(tmp_path, work)


@pytest.mark.slow
def test_many_tabs_answer_one_after_another_under_little_memory() -> None:
    async def main() -> None:
        sessions = Sessions(Limits(memory=1 << 30))
        try:
            opened = []
            for _ in range(3):  # each holds more than a quarter of the whole, and one at work wants all of it
                session = await sessions.open()
                session.front.prepare()
                assert (await session.ask("example", name="heart-failure"))["rows"] == 299
                opened.append(session)
            # The first one's process was ended for the others; it goes on where it was.
            first = opened[0]
            assert not first.front._alive
            roles = {"private": ["sex"], "public": ["smoking"], "bins": {}}
            assert (await first.ask("roles", **roles))["n"] == 299
        finally:
            sessions.shutdown()

    asyncio.run(main())


def test_a_page_goes_on_when_its_process_is_ended_between_any_two_tasks(tmp_path: Path) -> None:
    def ask(task: str, **arguments: Any) -> Any:
        # As a new process begins: with the folder, and nothing else.
        return TASKS[task](Workspace(tmp_path, emit=lambda event: None), **arguments)

    ask("example", name="heart-failure")
    ask("roles", private=["sex"], public=["smoking"], bins={})
    ask("trace", points=3, solver="greedy")
    ceiling = ask("summary")["disclosure_ceiling"]
    assert ask("point", disclosure=ceiling / 2)["disclosure"] == pytest.approx(ceiling / 2)
    first = Path(ask("export", name="release.csv", disclosure=ceiling / 2)).read_bytes()
    assert Path(ask("export", name="release.csv", disclosure=ceiling / 2)).read_bytes() == first


def test_a_session_without_signs_of_life_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        sessions = Sessions(Limits())
        try:
            silent, seen, busy = [await sessions.open() for _ in range(3)]
            monkeypatch.setattr(Session, "busy", property(lambda self: self is busy))
            for session in (silent, busy):
                session.seen -= SILENT_SECONDS + 1
            await sessions.close_silent()
            assert sessions.get(silent.id) is None
            assert not silent.folder.exists()
            assert sessions.get(seen.id) is seen
            assert sessions.get(busy.id) is busy
        finally:
            sessions.shutdown()

    asyncio.run(main())


def test_an_upload_that_is_still_to_be_opened_is_not_removed_by_the_one_before_it(tmp_path: Path) -> None:
    session = Session(tmp_path, Limits())
    old, first, second = (session.new_upload() for _ in range(3))
    session.end_upload(old)
    session.forget_uploads(first)  # the first is opened while the second, the same file read otherwise, waits
    session.end_upload(first)
    assert [folder.exists() for folder in (old, first, second)] == [False, True, True]
    session.forget_uploads(second)
    session.end_upload(second)
    assert [folder.exists() for folder in (first, second)] == [False, True]
    session.close()


def test_comparisons_that_nobody_waits_for_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    async def call(self: Worker, task: str, arguments: dict[str, Any], **more: Any) -> Any:
        asked.append(arguments["disclosure"])
        await asyncio.sleep(0.05)
        return {"at": arguments["disclosure"]}

    async def main() -> None:
        session = Session(tmp_path, Limits())
        monkeypatch.setattr(Worker, "call", call)
        found = await asyncio.gather(*(session.compare(disclosure=r) for r in (0.1, 0.2, 0.3)))
        assert found == [{"at": 0.1}, {}, {"at": 0.3}]
        assert asked == [0.1, 0.3]
        session.close()

    asyncio.run(main())


def test_no_limit_leaves_processes_alone() -> None:
    asked: list[int] = []

    def member() -> Member:
        asked.append(1)
        return Member(None, busy=False)

    MemoryPool(0, [member]).share()
    assert asked == []
    MemoryPool(1, [member]).share()
    assert asked == [1]


# --- ending ---------------------------------------------------------------------------------------------------------


def test_ending_a_session_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        sessions = Sessions(Limits())
        try:
            session = await sessions.open()
            free = threading.Event()
            monkeypatch.setattr(Session, "close", lambda self: free.wait(60.0))
            ending = asyncio.create_task(sessions.close(session.id))
            for _ in range(10):  # a loop that was blocked would come here when it has ended
                await asyncio.sleep(0.01)
                assert not ending.done()
            free.set()
            await ending
        finally:
            sessions.shutdown()

    asyncio.run(main())


def test_what_a_killed_run_has_left_is_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import os, signal; from privfunnel.app.explorer.folders import PrivateFolder\n"
        "folder = PrivateFolder().path; (folder / 'upload-x').mkdir(); (folder / 'upload-x' / 'a.csv').touch()\n"
        "print(folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    left = Path(done.stdout.strip())
    assert (left / "upload-x" / "a.csv").exists()
    living = PrivateFolder()
    assert not left.exists()
    # A folder that is in use stays, and so does what is not ours to judge: links, and folders that others can enter.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (tmp_path / f"{PREFIX}1-link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}1-open").mkdir(mode=0o755)
    odd = tmp_path / f"{PREFIX}1-odd"
    odd.mkdir(mode=0o700)
    (odd / "lock").symlink_to(elsewhere / "precious")
    assert sweep(tmp_path) == []
    assert living.path.exists()
    assert (elsewhere / "precious").exists()
    assert stat.S_IMODE(living.path.stat().st_mode) == 0o700
    living.remove()
    living.remove()
    assert not living.path.exists()
