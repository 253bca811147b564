"""One limit on memory for all working processes of the explorer together.

Each process has its own limit, set by the operating system, and the limits add up to no more than the whole: idle
processes keep what they have and a little more, and those at work share the rest. The shares change when a task begins
or ends, so that a single task has nearly everything. Where idle processes leave too little for a task, those that have
been idle for longest are ended before it begins: what they know lies in their session's folder, and they start again
when they are needed. A process at its limit gets a ``MemoryError``, which its task survives. Only Linux lets one
process limit another; elsewhere each process has the whole limit to itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: What an idle process may grow to: enough for its imports, in bytes.
IDLE = 384 << 20
#: What an idle process above that may grow by, in bytes.
SLACK = 32 << 20
#: What each process at work is to have beyond what it uses, in bytes: idle ones are ended for it.
ROOM = 1 << 30


@dataclass(frozen=True)
class Member:
    """One working process as the pool sees it.

    Attributes:
        pid: Its number, or None where it does not run.
        busy: Whether it is at work, or about to be.
        last: When it was last at work or started, on any clock that all share.
        end: Ends the process, which is asked of idle ones only.
    """

    pid: int | None
    busy: bool
    last: float = 0.0
    end: Callable[[], None] = lambda: None


@dataclass
class MemoryPool:
    """The memory of all working processes.

    Attributes:
        total: Bytes of private memory for all of them; 0 for no limit.
        members: Each a function that says how its process is now.
    """

    total: int
    members: list[Callable[[], Member]] = field(default_factory=list)

    def make_room(self, newcomers: int = 0) -> bool:
        """End idle processes, least recently used first, until those at work have room enough.

        Args:
            newcomers: Processes about to start that will be idle at first.

        Returns:
            Whether there is room for a process's imports at least: if not, those at work have everything.
        """
        if not self.total:
            return True
        now = [member() for member in tuple(self.members)]
        idle = sorted(
            (m for m in now if m.pid is not None and not m.busy), key=lambda m: m.last, reverse=True
        )
        busy = [0 if m.pid is None else _used(m.pid) for m in now if m.busy]
        held = [max(_used(m.pid) + SLACK, IDLE) for m in idle if m.pid is not None]
        enough = max(min(ROOM, self.total // 4), IDLE)
        while True:
            room = self.total - sum(busy) - sum(held) - newcomers * IDLE
            each = room // max(len(busy), 1)
            if not idle or each >= enough:
                return each + min(busy, default=IDLE) >= min(IDLE, self.total)
            held.pop()
            idle.pop().end()

    def share(self) -> None:
        """Set every process's limit by what it uses and whether it is at work."""
        if not self.total:
            return
        now = [member() for member in tuple(self.members)]
        running = [(member.pid, member.busy, _used(member.pid)) for member in now if member.pid is not None]
        for (pid, _, _), limit in zip(running, shares(self.total, [r[1:] for r in running]), strict=True):
            with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
                import resource

                # The hard limit is the whole, so that a share can grow again.
                resource.prlimit(pid, resource.RLIMIT_DATA, (limit, self.total))


def shares(total: int, processes: list[tuple[bool, int]]) -> list[int]:
    """Return each process's limit in bytes, given whether it is at work and what it uses.

    The limits add up to ``total`` at most, unless more than that is used already: then nobody gets any more.
    """
    at_work = [used for busy, used in processes if busy]
    resting = [used for busy, used in processes if not busy]
    # Where it is tight, idle processes get no slack, and then no room for imports that may still be under way.
    for idle in (
        [max(used + SLACK, IDLE) for used in resting],
        [max(used, IDLE) for used in resting],
        resting,
    ):
        room = total - sum(idle) - sum(at_work)
        if room >= 0:
            break
    each = max(room, 0) // max(len(at_work), 1)
    rest = iter(idle)
    return [used + each if busy else min(next(rest), total) for busy, used in processes]


def _used(pid: int) -> int:
    """Bytes of private memory of a process, counted as its limit counts them; 0 where that cannot be seen."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0
