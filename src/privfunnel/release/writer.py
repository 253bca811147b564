"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privfunnel.errors import InvalidInputError, need
from privfunnel.signals import terminate_as_exception


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a target that exists (without ``force``) or cannot be written, before any work is done.

    Raises:
        InvalidInputError: It exists, is a folder, or its folder is missing or not writable.
    """
    if path.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder: give a file name")
    if path.exists() and not force:
        raise InvalidInputError(f"{str(path)!r} exists: choose another name, or overwrite it with --force")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidInputError(
            f"the folder of {str(path)!r} does not exist or is not writable: choose another"
        )


@contextlib.contextmanager
def atomic(path: Path, *, force: bool) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name when the block ends well, and vanishes otherwise.

    The temporary name starts with a dot and ends in ``.partial``, so that nothing takes it for the output, and a
    termination signal cleans up like an exception. Without ``force`` an existing file is never replaced, even one that
    appeared in the meantime.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with terminate_as_exception():
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            if force:
                temporary.replace(path)
            else:
                _claim(temporary, path)
    except OSError as error:
        raise InvalidInputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


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


class BatchWriter:
    """Writes Arrow batches as Parquet or CSV, by the suffix of the final name.

    Args:
        target: The final path, whose suffix decides.
        temporary: Where to write.
        fields: Arrow fields; arrays may come dictionary-encoded, they are stored plain.
        texts: Every text that may appear, or ``None`` where that is not known.
    """

    def __init__(
        self, target: Path, temporary: Path, fields: Sequence[Any], texts: Sequence[str] | None
    ) -> None:
        """Open the file."""
        pa = need("pyarrow", "tables")
        self.schema = pa.schema(fields)
        self.parquet = file_format(target) == "parquet"
        self.writer: Any = None
        self.sink: Any = None
        self.temporary = temporary
        self.quote = texts is None or any(map(_needs_quotes, texts))

    def __enter__(self) -> BatchWriter:
        """Use as a context manager, so that the file is complete at the end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Finish the file, an empty one too."""
        if self.writer is None:
            self._open(self.schema)
        self.writer.close()
        if self.sink is not None:
            self.sink.close()

    def _open(self, schema: Any) -> None:
        if self.parquet:
            parquet = need("pyarrow.parquet", "tables")
            # Without Arrow's own schema in the file, a dictionary of texts reads back as plain texts.
            self.writer = parquet.ParquetWriter(self.temporary, schema, store_schema=False)
            return
        csv = need("pyarrow.csv", "tables")
        # pyarrow quotes every text or none; none is enough where no text needs it.
        options = csv.WriteOptions(include_header=False, quoting_style="needed" if self.quote else "none")
        self.sink = need("pyarrow", "tables").OSFile(str(self.temporary), "wb")
        self.sink.write((",".join(map(_quoted, self.schema.names)) + "\n").encode())
        self.writer = csv.CSVWriter(self.sink, self.schema, write_options=options)

    def write(self, arrays: Sequence[Any]) -> None:
        """Append one batch."""
        pa = need("pyarrow", "tables")
        if not self.parquet:
            arrays = [array.cast(field.type) for array, field in zip(arrays, self.schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(list(arrays), names=self.schema.names)
        if self.writer is None:
            self._open(batch.schema)
        self.writer.write(batch)


def file_format(path: Path) -> str:
    """``"csv"`` or ``"parquet"`` by suffix.

    Raises:
        InvalidInputError: The suffix is another one.
    """
    forms = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
    if path.suffix.lower() not in forms:
        raise InvalidInputError(f"{str(path)!r} is neither .csv nor .parquet: the suffix chooses the format")
    return forms[path.suffix.lower()]


def _needs_quotes(value: str) -> bool:
    return value == "" or value != value.strip() or any(mark in value for mark in ',"\n\r')


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"' if _needs_quotes(value) else value
