"""Small JSON files with a schema and a version, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from privfunnel.errors import InvalidInputError


def check_schema(data: Any, schema: str, version: int) -> None:
    """Raise InvalidInputError unless ``data`` is a JSON object of this schema and a version that can be read."""
    if not isinstance(data, dict) or data.get("schema") != schema:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise InvalidInputError(
            f"not a {schema} file (found {found!r}): give a file written by privfunnel's save"
        )
    if isinstance(data.get("version"), bool) or data.get("version") != version:  # True == 1
        raise InvalidInputError(
            f"{schema} version {data.get('version')!r} cannot be read (this release reads {version}): "
            "update privfunnel or write the file again"
        )


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write JSON, whole or not at all."""
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    write_bytes(path, lambda stream: stream.write(text.encode("utf-8")))


def write_bytes(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a temporary file that is renamed at the end, so that nothing is left half-written."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as stream:
            write(stream)
        temporary.replace(target)
    except OSError as error:
        raise InvalidInputError(
            f"cannot write {str(target)!r} ({error.strerror or error}): choose a folder that exists and is writable"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file, or say in one line why it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {str(path)!r} ({error.strerror or error}): check the path"
        ) from error
    except RecursionError as error:
        raise InvalidInputError(
            f"{str(path)!r} is nested too deeply for any file of privfunnel's: check the path"
        ) from error
    except ValueError as error:  # no UTF-8, no JSON, or a whole number of thousands of digits
        raise InvalidInputError(f"{str(path)!r} is not a JSON file ({error}): check the path") from error


@contextlib.contextmanager
def output_folder(path: str | os.PathLike[str], owned: tuple[str, ...] = ()) -> Iterator[Path]:
    """A temporary folder whose files are moved to ``path`` when the block ends well, and are gone when it does not.

    The temporary folder is made before the block runs, in ``path`` or the nearest folder above it that exists, so that
    a target that cannot be written is found out before the work and not after it. Files of the same name at ``path``
    are replaced, one rename each. Of the names in ``owned``, those that the block did not write are removed from
    ``path``: they are an earlier run's, and would be taken for this one's. Other files stay.
    """
    if not os.fspath(path):
        raise InvalidInputError("the output folder's name is empty: give a folder, '.' for this one")
    target = Path(path)
    host = next(folder for folder in (target.absolute(), *target.absolute().parents) if folder.exists())
    temporary = host / f".{target.name}.{secrets.token_hex(8)}.partial"
    # Announced before it is made: a signal turned into an exception may strike at any instruction, also after the
    # folder appeared and before the caller's `with` took hold. Then the generator's or the program's end removes it.
    owner = _Owner()
    remove = weakref.finalize(owner, shutil.rmtree, temporary, ignore_errors=True)
    try:
        try:
            temporary.mkdir(mode=0o700)
        except OSError as error:
            raise _unwritable(target, error) from error
        yield temporary
        try:
            target.mkdir(parents=True, exist_ok=True)
            for item in temporary.iterdir():  # before the first rename, so that it is all of them or none
                if not item.is_dir() and (target / item.name).is_dir():
                    raise InvalidInputError(
                        f"cannot write {str(target / item.name)!r}, a folder of that name is there: "
                        "remove it or choose another folder"
                    )
            written = {item.name for item in temporary.iterdir()}
            for name in owned:
                if name not in written:
                    (target / name).unlink(missing_ok=True)
            for item in sorted(temporary.iterdir()):
                destination = target / item.name
                if item.is_dir() and destination.is_dir():
                    shutil.rmtree(destination)
                item.replace(destination)
        except OSError as error:
            raise _unwritable(target, error) from error
    finally:
        remove()


class _Owner:
    """Something whose end can be waited for."""


def _unwritable(target: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(
        f"cannot write to {str(target)!r} ({error.strerror or error}): choose a folder that can be made and written"
    )
