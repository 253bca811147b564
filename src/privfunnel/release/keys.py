"""The key file of sticky draws: a secret, for the steward alone.

One JSON object, ``{"schema": "privfunnel/key", "version": 1, "key": 64 hex digits, "check": 16 hex digits}``; the last
entry is the beginning of the key's SHA-256, so that a damaged file is told from another key. Whoever has it and the
mechanism can redraw every release of its series.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import PRIVATE, check_schema, heading, read_json, write_text

SCHEMA = "privfunnel/key"
KEY_BYTES = 32
#: Permissions of anybody but the owner.
OTHERS = 0o077
_KEY = re.compile(r"[0-9a-f]{64}")


def new() -> bytes:
    """A key from the operating system's secure source."""
    return os.urandom(KEY_BYTES)


def save(path: Path, key: bytes) -> None:
    """Write a key file for the user alone; never over another one.

    Raises:
        InvalidInputError: There is a file of that name, or it cannot be written.
    """
    data = {**heading(SCHEMA), "key": key.hex(), "check": _check(key)}
    write_text(path, json.dumps(data) + "\n", force=False, mode=PRIVATE)


def load(path: Path) -> bytes:
    """Read a key file.

    Raises:
        InvalidInputError: It is none, is damaged, or others may read it.
    """
    if not path.is_file():
        raise InvalidInputError(f"{str(path)!r} is no file: name a key file, or one that is to be made")
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & OTHERS:
        raise InvalidInputError(
            f"the key file {str(path)!r} is open to others (mode {mode:04o}), who could redraw every release: "
            "chmod 600 it if nobody has read it, else begin a series with a new one"
        )
    data = read_json(path)
    check_schema(data, SCHEMA)
    digits = data.get("key")
    if not isinstance(digits, str) or not _KEY.fullmatch(digits):
        raise _damaged(path)
    key = bytes.fromhex(digits)
    if data.get("check") != _check(key):
        raise _damaged(path)
    return key


def _check(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:16]


def _damaged(path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"the key file {str(path)!r} is damaged: restore it from a copy; with another key the rows would be drawn anew"
    )
