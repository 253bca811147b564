"""The server's private folder: made for one run, locked while it lasts, and swept up if the run was killed.

A folder ``privfunnel-explorer-PID-RANDOM`` (mode 0700) in the system's folder for temporary files holds everything that
tabs have loaded. Its file ``lock`` stays locked until the server's process has ended, however it ends: a folder whose
lock is free was left behind by a run that was killed, and the next run removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from privfunnel.infra.locking import open_lock, take

PREFIX = "privfunnel-explorer-"
LOCK = "lock"
#: How the folders of a session begin that uploads lie in.
UPLOAD = "upload-"
OURS_ALONE = 0o700


class PrivateFolder:
    """A new private folder, held until :meth:`remove` or the end of the process.

    Attributes:
        path: Where it is.
    """

    def __init__(self) -> None:
        """Remove what killed runs have left, and make a folder."""
        base = Path(tempfile.gettempdir())
        sweep(base)
        # Made and locked under another name first: whoever sweeps never sees a folder that is not locked yet.
        made = Path(tempfile.mkdtemp(prefix="privfunnel-new-"))  # mkdtemp makes it 0700, under a random name
        self._lock: BinaryIO | None = open_lock(made / LOCK, os.O_CREAT | os.O_EXCL)
        take(self._lock)
        self.path = base / f"{PREFIX}{os.getpid()}-{made.name.rpartition('-')[2]}"
        made.rename(self.path)

    def remove(self) -> None:
        """Remove the folder with everything in it; a second call does nothing."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            shutil.rmtree(self.path, ignore_errors=True)


def sweep(base: Path) -> list[Path]:
    """Remove the folders in ``base`` that killed runs of this user have left; return what is gone."""
    gone = []
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if _ours(folder) and _abandoned(folder):
                shutil.rmtree(folder)
                gone.append(folder)
    return gone


def _ours(folder: Path) -> bool:
    """Whether it is a folder that only this user can enter, and no link."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == OURS_ALONE


def _abandoned(folder: Path) -> bool:
    """Whether no process holds the folder's lock any more."""
    try:
        with open_lock(folder / LOCK) as lock:
            return take(lock)
    except FileNotFoundError:
        return (
            True  # a removal that was itself interrupted: the lock goes first or last, the folder is nobody's
        )
    except OSError:
        return False
