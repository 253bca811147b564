"""Arrays from a ``.npz`` file of unknown origin: nothing is unpacked before it is known how large it will be."""

from __future__ import annotations

import math
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.storage import PRIVATE, write_whole

#: What the arrays of a file may take in memory together: this, in bytes, or so many times the file's own size. Trees
#: of boxes pack by a factor of 2 to 10; only a file made to fill the memory packs large ones by a thousand.
MOST_BYTES, MOST_PACKED = 256 << 20, 40
#: Arrays in one file.
MOST_ARRAYS = 1_000_000
#: Kinds of entries: text, numbers, whole numbers.
KINDS = "Ufiu"
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1

#: What reading a damaged file raises, in the layers from the operating system to the shape of an array.
UNREADABLE = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    SyntaxError,
    RuntimeError,
)

Made = TypeVar("Made")


class Archive:
    """The arrays of an open file by their names; each is read when it is asked for."""

    def __init__(self, packed: zipfile.ZipFile) -> None:
        self._packed = packed
        self._members = {info.filename.removesuffix(".npy"): info for info in packed.infolist()}

    def __contains__(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return name in self._members

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The array of this name; its entries have to fill the member exactly.

        Raises:
            KeyError: There is none.
            ValueError: It is damaged, or not an array of numbers or text.
        """
        member = self._members[name]
        with self._packed.open(member) as stream:
            version = npy.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"{name} is written in another version of the format")
            shape, by_columns, dtype = npy.read_array_header_1_0(stream)
            size = math.prod(shape) * dtype.itemsize
            if dtype.kind not in KINDS or size != member.file_size - stream.tell():
                raise ValueError(f"{name} is not an array of numbers or text, or not all of it")
            flat = np.frombuffer(stream.read(), dtype=dtype)
        return flat.reshape(shape, order="F" if by_columns else "C").copy()

    def floats(self, name: str) -> NDArray[np.float64]:
        """The numbers of this name.

        Raises:
            KeyError: There are none.
            ValueError: They are damaged.
        """
        return self[name].astype(np.float64)

    def head(self, c: int, *names: str) -> dict[str, Any]:
        """What every certificate begins with: the ``fingerprint`` of the c-th, and its numbers, by these names.

        Raises:
            KeyError: There is none.
            ValueError: It has more or fewer numbers.
        """
        numbers = (float(x) for x in self[f"{c}.numbers"])
        return {
            "fingerprint": str(self[f"{c}.fingerprint"]),
            **dict(zip(names, numbers, strict=True)),
        }

    def integers(self, name: str) -> NDArray[np.int32]:
        """The integers of this name.

        Raises:
            KeyError: There are none.
            ValueError: They are damaged, or no integers of 32 bits.
        """
        array = self[name]
        made = array.astype(np.int32) if array.dtype.kind in "iu" else None
        if made is None or np.any(made != array):
            raise ValueError(f"{name} does not hold integers of 32 bits")
        return made


@contextmanager
def open_archive(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """The arrays of a ``.npz`` file, read from the disk alone and within limits.

    Raises:
        CertificateError: It is no file (a pipe, a device), or its contents would be too large or are encrypted.
        OSError, zipfile.BadZipFile: It cannot be read.
    """
    # A pipe would be waited for: it is opened without waiting, and looked at before it is read.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CertificateError(f"{str(path)!r} is not a file: give the .npz that solve or curve wrote")
        with zipfile.ZipFile(stream) as packed:
            _check(Path(path), stream, packed.infolist())
            yield Archive(packed)


def _check(path: Path, stream: BinaryIO, members: list[zipfile.ZipInfo]) -> None:
    """Refuse what this package would not have written: the sizes that are announced are those that will be read."""
    room = max(MOST_BYTES, MOST_PACKED * os.fstat(stream.fileno()).st_size)
    size = sum(member.file_size for member in members)
    if size > room or len(members) > MOST_ARRAYS:
        raise CertificateError(
            f"{str(path)!r} would take {size / (1 << 20):.0f} MiB in {len(members)} arrays, more than a certificate "
            "file of its size does: get it again from whoever made it"
        )
    if any(member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKINGS for member in members):
        raise CertificateError(
            f"{str(path)!r} is encrypted or packed in another way: give it as it was written"
        )


@contextmanager
def certificate_file(path: str | os.PathLike[str], made_by: str, otherwise: str = "") -> Iterator[Archive]:
    """The arrays of a certificate file; what the block then stumbles over is said in one line.

    Args:
        path: The file.
        made_by: What writes such files, for people.
        otherwise: Why there may be no such file, for people.

    Raises:
        InvalidInputError: There is no such file.
        CertificateError: It cannot be read.
    """
    try:
        with open_archive(path) as data:
            yield data
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"cannot read {str(path)!r} ({error.strerror}): check the path{otherwise}"
        ) from error
    except (*UNREADABLE, InvalidInputError) as error:
        raise CertificateError(
            f"{str(path)!r} is not a readable certificate file: give the .npz that {made_by} wrote"
        ) from error


class FileKind(NamedTuple):
    """A kind of certificate file: one compressed ``.npz`` for one or many certificates of the same sort.

    Attributes:
        schema: What such a file calls itself.
        version: The version that is written and read.
        about: What the certificates are of, for people.
        made_by: What writes such files, for people.
    """

    schema: str
    version: int
    about: str
    made_by: str

    def save(self, path: str | os.PathLike[str], certificates: Iterable[dict[str, Any]]) -> None:
        """Write the arrays of certificates, by name, whole or not at all, for the user alone."""
        made = list(certificates)
        head = {"schema": self.schema, "version": self.version, "count": len(made)}
        data: dict[str, Any] = {name: np.array(value) for name, value in head.items()}
        data |= {f"{c}.{name}": array for c, arrays in enumerate(made) for name, array in arrays.items()}
        write_whole(path, lambda stream: np.savez_compressed(stream, **data), mode=PRIVATE)

    def named_by(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file can be opened and calls itself one of this kind."""
        try:
            with open_archive(path) as data:
                return str(data["schema"]) == self.schema
        except (*UNREADABLE, CertificateError):
            return False

    def load(self, path: str | os.PathLike[str], read: Callable[[Archive, int], Made]) -> tuple[Made, ...]:
        """Read what :meth:`save` wrote, from a file that anybody may have made; ``read`` makes one certificate.

        Raises:
            InvalidInputError: There is no such file.
            CertificateError: It cannot be read as certificates of this kind and version.
        """
        with certificate_file(path, self.made_by) as data:
            if (str(data["schema"]), int(data["version"])) != (self.schema, self.version):
                raise CertificateError(
                    f"{str(path)!r} holds no certificate of {self.about} that this release reads: give one that "
                    f"privfunnel {self.made_by} wrote, or update privfunnel"
                )
            return tuple(read(data, c) for c in range(int(data["count"])))
