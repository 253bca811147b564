"""Arrays from a ``.npz`` file of unknown origin: nothing is unpacked before it is known how large it will be."""

from __future__ import annotations

import math
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.infra.storage import open_input

#: What the arrays of a file may take in memory together: this, in bytes, or so many times the file's own size. Trees
#: of boxes pack by a factor of 2 to 10; only a file made to fill the memory packs large ones by a thousand.
MOST_BYTES, MOST_PACKED = 256 << 20, 40
#: Kinds of entries: text, numbers, whole numbers.
KINDS = "Ufiu"
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1


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
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "error"
                )  # NumPy goes on with headers of a kind that nobody writes any more
                shape, by_columns, dtype = npy.read_array_header_1_0(stream)
            size = math.prod(shape) * dtype.itemsize
            if dtype.kind not in KINDS or size != member.file_size - stream.tell():
                raise ValueError(f"{name} is not an array of numbers or text, or not all of it")
            flat = np.frombuffer(stream.read(), dtype=dtype)
        # NumPy makes texts of any numbers, and Python stumbles over them somewhere.
        if dtype.kind == "U" and flat.size and flat.view(f"{dtype.byteorder}u4").max() > sys.maxunicode:
            raise ValueError(f"{name} holds what is no character")
        return flat.reshape(shape, order="F" if by_columns else "C").copy()

    def floats(self, name: str) -> NDArray[np.float64]:
        """The numbers of this name.

        Raises:
            KeyError: There are none.
            ValueError: They are damaged.
        """
        return self[name].astype(np.float64)

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


def _check(path: Path, stream: BinaryIO, members: list[zipfile.ZipInfo]) -> None:
    """Refuse what this package would not have written: the sizes that are announced are those that will be read."""
    room = max(MOST_BYTES, MOST_PACKED * os.fstat(stream.fileno()).st_size)
    size = sum(member.file_size for member in members)
    # Arrays in one file.
    if size > room or len(members) > 1_000_000:
        raise CertificateError(
            f"{str(path)!r} would take {size / (1 << 20):.0f} MiB in {len(members)} arrays, more than a certificate "
            "file of its size does: get it again from whoever made it"
        )
    if any(member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKINGS for member in members):
        raise CertificateError(
            f"{str(path)!r} is encrypted or packed in another way: give it as it was written"
        )


@contextmanager
def certificate_file(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """The arrays of a certificate file; what the block then stumbles over is said in one line.

    Raises:
        InvalidInputError: There is no such file, or it is a pipe or a device.
        CertificateError: It cannot be read, or its contents would be too large or are encrypted.
    """
    try:
        stream = open_input(path)
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"cannot read {str(path)!r} ({error.strerror}): check the path; a disclosure without leakage has no "
            "certificate and needs none: leakage is never negative"
        ) from error
    except OSError as error:
        raise _unreadable(path) from error
    try:
        with stream, zipfile.ZipFile(stream) as packed:
            _check(Path(path), stream, packed.infolist())
            yield Archive(packed)
    except CertificateError:
        raise
    except Exception as error:
        # What damaged bytes raise comes from zlib, zipfile, tokenize, NumPy or Python itself.
        raise _unreadable(path) from error


def _unreadable(path: str | os.PathLike[str]) -> CertificateError:
    return CertificateError(
        f"{str(path)!r} is not a readable certificate file: give a .npz that privfunnel wrote"
    )
