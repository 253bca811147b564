"""How this package keeps things in files: whole or not at all, and JSON with a schema and a version."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

from privfunnel.errors import InvalidInputError, PrivFunnelError
from privfunnel.infra.signals import cleaning_up, raise_requested

AnyPath = str | os.PathLike[str]
#: What one object of a JSON file holds: texts, numbers, lists and further objects, by name.
Document = dict[str, Any]

#: The mode of a file that anyone may read, as far as the user's umask allows.
SHARED = 0o666
#: The mode of a file for the user alone.
PRIVATE = 0o600

#: Bytes of a file that is read whole: nothing that people or this package write to be read comes near.
MOST_BYTES = 1 << 30

#: Files and folders that were finished, in order: who is interrupted is told of them.
_FINISHED: list[Path] = []


def open_input(path: AnyPath, most: int = MOST_BYTES) -> BinaryIO:
    """Open a file to be read: a regular one of at most ``most`` bytes, since others may have no end.

    Every file that is not a table of records, which the engines open, comes in by this door.

    Raises:
        OSError: It cannot be opened.
        InvalidInputError: It is a folder, a pipe or a device, or too large.
    """
    # A pipe would be waited for: it is opened without waiting, and looked at before it is read.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    stream = open(path, "rb", opener=lambda name, _: os.open(name, flags))  # noqa: SIM115  (the caller closes it)
    found = os.fstat(stream.fileno())
    if stat.S_ISREG(found.st_mode) and found.st_size <= most:
        return stream
    stream.close()
    if stat.S_ISREG(found.st_mode):
        raise InvalidInputError(
            f"{str(path)!r} has {found.st_size / (1 << 20):,.0f} MiB, more than the {most >> 20:,} MiB that are read "
            "of such a file: check the path"
        )
    raise InvalidInputError(f"{str(path)!r} is not a file but a pipe or a device: save it to a file first")


def read_bytes(path: AnyPath) -> bytes:
    """The bytes of a regular file of bounded size, or one line that says why they cannot be read."""
    try:
        with open_input(path) as stream:
            return stream.read(MOST_BYTES) or b""
    except (OSError, ValueError) as error:  # ValueError: a name that holds a zero
        if isinstance(error, InvalidInputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"cannot read {str(path)!r} ({reason}): check the path") from error


@contextlib.contextmanager
def finished() -> Iterator[list[Path]]:
    """What is finished while the block runs: files, and folders with all that belongs into them."""
    before, _FINISHED[:] = list(_FINISHED), []
    try:
        yield _FINISHED
    finally:
        _FINISHED[:] = before


# --- files ----------------------------------------------------------------------------------------------------------


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a target that exists (without ``force``) or cannot be written, before any work is done.

    Raises:
        InvalidInputError: It exists, is a folder, or its folder is missing or not writable.
    """
    try:
        found, folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(
            f"{str(path)[:40]!r} cannot be written ({reason}): choose another name"
        ) from error
    if folder:
        raise InvalidInputError(f"{str(path)!r} is a folder: give a file name")
    if found and not force:
        raise InvalidInputError(f"{str(path)!r} exists: choose another name, or overwrite it with --force")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidInputError(
            f"the folder of {str(path)!r} does not exist or is not writable: choose another"
        )


def write_whole(
    path: AnyPath, write: Callable[[BinaryIO], object], *, force: bool = True, mode: int = SHARED
) -> None:
    """Let ``write`` fill one file that appears whole, or not at all; see :func:`whole_files`."""
    with whole_files([path], force=force, mode=mode) as (stream,):
        write(stream)


def write_text(path: AnyPath, text: str, *, force: bool = True, mode: int = SHARED) -> None:
    """Write a text as UTF-8, whole or not at all."""
    write_whole(path, lambda stream: stream.write(text.encode("utf-8")), force=force, mode=mode)


@contextlib.contextmanager
def whole_files(
    paths: Sequence[AnyPath], *, force: bool = True, mode: int = SHARED, private: Collection[AnyPath] = ()
) -> Iterator[tuple[BinaryIO, ...]]:
    """Streams for files that appear together, whole, when the block ends well, and not at all otherwise.

    Each stream goes to a new file beside its path, whose name starts with a dot and ends in ``.partial``, so that
    nothing takes it for the output, and holds a random part, so that nobody can lay a link in its way. Once all of
    them are on the disk they take their names, in the order of ``paths``; a link of that name is replaced, not
    followed.

    Args:
        paths: The files.
        force: Replace existing files; without it, not even one that appeared in the meantime.
        mode: Permissions of the files from the first byte on, less the user's umask: ``PRIVATE`` for the user alone.
        private: Those of the files that are for the user alone whatever the mode.

    Raises:
        InvalidInputError: One of them cannot be written, or is there already.
    """
    targets = [Path(path) for path in paths]
    own = {Path(path) for path in private}
    # Named before they are made: a signal turned into an exception may strike at any instruction.
    partial = [path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial") for path in targets]
    try:
        with contextlib.ExitStack() as stack, cleaning_up():
            streams = []
            for path, temporary in zip(targets, partial, strict=True):
                with _told(path):
                    new = _new_file(temporary, PRIVATE if path in own else mode)
                    stack.callback(_closed, new)
                    streams.append(new)
            with _told(targets[0]):
                yield tuple(streams)
            for path, stream in zip(targets, streams, strict=True):
                with _told(path):
                    stream.flush()
                    os.fsync(stream.fileno())
        # All are complete by now: what can fail from here on is a rename.
        raise_requested()
        if force:
            for path, temporary in zip(targets, partial, strict=True):
                with _told(path):
                    temporary.replace(path)
        else:
            _claim_all(partial, targets)
        _FINISHED.extend(targets)
    finally:
        for temporary in partial:
            with contextlib.suppress(OSError):
                temporary.unlink()


def sync_names(paths: Sequence[AnyPath]) -> None:
    """Let the names of files outlast a power failure, as their contents do: their folders go to the disk.

    Raises:
        InvalidInputError: A folder cannot be written.
    """
    if os.name != "posix":  # Windows opens no folders, and keeps names by itself
        return
    for folder in {Path(path).absolute().parent for path in paths}:
        with _told(folder):
            held = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(held)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a file system that has nothing to do for it
                    raise
            finally:
                os.close(held)


class _UnwritableError(InvalidInputError):
    """A file that the operating system does not let be written, and its reason."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(
            f"cannot write {str(path)!r} ({reason}): choose a folder that exists, is writable and has room"
        )
        self.path, self.reason = path, reason


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn an error of the operating system into one line about ``path``."""
    try:
        yield
    except OSError as error:
        raise _UnwritableError(path, error.strerror or error) from error


def _closed(stream: BinaryIO) -> None:
    """Close a file that is on the disk already, or is to go: what it still holds may not fit there."""
    with contextlib.suppress(OSError):
        stream.close()


def _new_file(path: Path, mode: int) -> BinaryIO:
    """A file that is not there yet, opened to be written; "x" refuses links, too."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


def _claim_all(partial: Sequence[Path], targets: Sequence[Path]) -> None:
    """Give files their names, all of them, or none where one of the names is taken."""
    claimed: list[Path] = []
    try:
        for temporary, target in zip(partial, targets, strict=True):
            with _told(target):
                _claim(temporary, target)
            claimed.append(target)
    except BaseException:
        # A signal may strike after a link and before it is in the list: what is the same file is ours as well.
        for temporary, target in zip(partial, targets, strict=True):
            if target in claimed or _same(temporary, target):
                target.unlink(missing_ok=True)
        raise


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _claim(temporary: Path, path: Path) -> None:
    """Rename that fails where the target exists."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError as error:
        raise InvalidInputError(
            f"{str(path)!r} appeared in the meantime: overwrite it with --force"
        ) from error
    except OSError:  # a file system without links
        temporary.replace(path)


@contextlib.contextmanager
def output_folder(path: AnyPath, owned: tuple[str, ...] = ()) -> Iterator[Path]:
    """A temporary folder whose files are moved to ``path`` when the block ends well, and are gone when it does not.

    The temporary folder is made before the block runs, in ``path`` or the nearest folder above it that exists, so that
    a target that cannot be written is found out before the work and not after it. Files of the same name at ``path``
    are replaced, one rename each. Of the names in ``owned``, those that the block did not write are removed from
    ``path``: they are an earlier run's, and would be taken for this one's. Other files stay.
    """
    if not os.fspath(path):
        raise InvalidInputError("the output folder's name is empty: give a folder, '.' for this one")
    target = Path(path)
    try:
        host = next(folder for folder in (target.absolute(), *target.absolute().parents) if folder.exists())
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(
            f"{str(path)[:40]!r} cannot be written ({reason}): choose another name"
        ) from error
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
        with cleaning_up():
            try:
                yield temporary
            except _UnwritableError as error:
                inner = (
                    target / error.path.relative_to(temporary)
                    if error.path.is_relative_to(temporary)
                    else None
                )
                raise error if inner is None else _UnwritableError(inner, error.reason) from error
        raise_requested()
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
        _FINISHED.append(target)
    finally:
        remove()


class _Owner:
    """Something whose end can be waited for."""


def _unwritable(target: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(
        f"cannot write to {str(target)!r} ({error.strerror or error}): choose a folder that can be made and written, "
        "where there is room"
    )


# --- JSON with a schema ---------------------------------------------------------------------------------------------


#: The version of every schema, which files say; no other is read.
VERSION = 1


def heading(schema: str) -> Document:
    """The entries by which a file of this schema is known."""
    return {"schema": schema, "version": VERSION}


def check_schema(data: object, schema: str) -> None:
    """Raise InvalidInputError unless ``data`` is a JSON object of this schema, in the version that can be read."""
    if not isinstance(data, dict) or data.get("schema") != schema:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise InvalidInputError(
            f"not a {schema} file (found {found!r}): give a file written by privfunnel's save"
        )
    if isinstance(data.get("version"), bool) or data.get("version") != VERSION:  # True == 1
        raise InvalidInputError(
            f"{schema} version {data.get('version')!r} cannot be read (this release reads version {VERSION}): write "
            "the file again with this release"
        )


def write_json(path: AnyPath, data: object, *, mode: int = SHARED, indent: int | None = 1) -> None:
    """Write JSON, whole or not at all."""
    write_text(path, json.dumps(data, indent=indent, allow_nan=False) + "\n", mode=mode)


def read_json(path: AnyPath) -> Any:
    """Read a JSON file, or say in one line why it cannot be read."""
    try:
        return json.loads(read_bytes(path).decode("utf-8"))
    except InvalidInputError:
        raise
    except RecursionError as error:
        raise InvalidInputError(
            f"{str(path)!r} is nested too deeply for any file of privfunnel's: check the path"
        ) from error
    except ValueError as error:  # no UTF-8, no JSON, or a whole number of thousands of digits
        raise InvalidInputError(f"{str(path)!r} is not a JSON file ({error}): check the path") from error


class Stored(ABC):
    """What is kept as a JSON file of its own: a subclass says which schema, and writes ``to_dict`` and ``from_dict``.

    ``to_dict`` begins with :meth:`heading`, and ``from_dict`` reads inside :meth:`reading`, so that a file of another
    kind or version and one that was cut or altered are refused in the same words everywhere.
    """

    schema: ClassVar[str]

    @abstractmethod
    def to_dict(self) -> Document:
        """JSON-ready."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: object) -> Self:
        """Read back what :meth:`to_dict` wrote."""

    @classmethod
    def heading(cls) -> Document:
        """The entries by which a file of this kind is known."""
        return heading(cls.schema)

    @classmethod
    @contextlib.contextmanager
    def reading(cls, data: object) -> Iterator[None]:
        """Check the heading of ``data``; what the block then stumbles over is said in one line.

        Raises:
            InvalidInputError: It is another kind of file, of a version this release cannot read, or incomplete.
        """
        check_schema(data, cls.schema)
        try:
            yield
        except PrivFunnelError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            kind = cls.schema.rpartition("/")[2]
            raise InvalidInputError(
                f"not a complete {kind} file, something is missing or malformed ({type(error).__name__}: {error}): "
                "write it again"
            ) from error

    def save(self, path: AnyPath) -> None:
        """Write it as JSON, whole or not at all, for the user alone: its exact numbers are those of the table."""
        write_json(path, self.to_dict(), mode=PRIVATE, indent=None if self.large else 1)

    @property
    def large(self) -> bool:
        """Whether the file is too large to be read by people, and has no line breaks."""
        return False

    @classmethod
    def load(cls, path: AnyPath) -> Self:
        """Read what :meth:`save` wrote."""
        return cls.from_dict(read_json(path))
