"""Rows in an order that nobody can guess, at bounded memory.

Every row goes to a bucket chosen at random, and each bucket is shuffled by itself: laid end to end, the buckets are a
uniformly random permutation. Small tables stay in memory; of larger ones the buckets are files that only the user can
read, removed at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import need
from privfunnel.release.randomness import Uniforms

#: Rows up to which nothing goes to the disk.
MEMORY_ROWS = 2**20
#: Buckets; a power of two. A hundred million rows make buckets of less than half a million.
BUCKETS = 256
#: Rows that are divided among the buckets at a time: fewer, larger pieces cost less to write and to read again.
SPILLED_ROWS = 2**19
#: Rows that are written at a time.
WRITTEN_ROWS = 2**17

POSITION = "row"


class Shuffle:
    """Collects batches of rows and gives them back in a random order; use it as a context manager.

    Args:
        folder: Where the buckets go if they must; they are removed at the end.
        uniforms: Randomness.
        memory_rows: Rows up to which nothing goes to the disk.
    """

    def __init__(self, folder: Path, uniforms: Uniforms, memory_rows: int = MEMORY_ROWS) -> None:
        """Remember them; nothing is made yet."""
        self.folder, self.uniforms, self.memory_rows = folder, uniforms, memory_rows
        self.rows = 0
        self._batches: list[Any] = []
        self._waiting = 0
        self._files: list[Path] = []
        self._writers: list[Any] = []
        self._stack = ExitStack()

    def __enter__(self) -> Shuffle:
        """Use as a context manager, so that no bucket is left behind."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the buckets."""
        self._stack.close()

    def add(self, arrays: Sequence[Any], positions: NDArray[np.int64]) -> None:
        """Add a batch.

        Args:
            arrays: Arrow arrays of one length, of the same types in every batch.
            positions: The row of the table that each entry belongs to.
        """
        pa = need("pyarrow", "tables")
        names = [*map(str, range(len(arrays))), POSITION]
        batch = pa.RecordBatch.from_arrays([*arrays, pa.array(positions)], names=names)
        self.rows += len(positions)
        self._batches.append(batch)
        self._waiting += len(positions)
        if not self._writers and self.rows > self.memory_rows:
            self._open(batch.schema)
        if self._writers and self._waiting >= SPILLED_ROWS:
            self._spill()

    def _open(self, schema: object) -> None:
        ipc = need("pyarrow.ipc", "tables")
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix=".shuffle.", suffix=".partial", dir=self.folder)
        )
        self._files = [Path(folder) / f"{i}.arrow" for i in range(BUCKETS)]
        # A dictionary that differs between batches is written again with each.
        options = ipc.IpcWriteOptions(emit_dictionary_deltas=False)
        self._writers = [
            self._stack.enter_context(ipc.new_stream(str(path), schema, options=options))
            for path in self._files
        ]

    def _spill(self) -> None:
        """Divide the rows that wait among the buckets."""
        if not self._waiting:
            return
        pa = need("pyarrow", "tables")
        table = pa.Table.from_batches(self._batches).unify_dictionaries().combine_chunks()
        self._batches, self._waiting = [], 0
        # Small numbers are sorted in one pass.
        bucket = (self.uniforms(table.num_rows) * BUCKETS).astype(np.uint8)
        order = np.argsort(bucket, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=BUCKETS))]).tolist()
        (batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
        for i, writer in enumerate(self._writers):
            if ends[i + 1] > ends[i]:
                writer.write_batch(batch.slice(ends[i], ends[i + 1] - ends[i]))

    def shuffled(self) -> Iterator[tuple[list[Any], NDArray[np.int64]]]:
        """All rows in a random order, batch by batch: the arrays, and the positions that they were added with."""
        pa, ipc = need("pyarrow", "tables"), need("pyarrow.ipc", "tables")
        if not self._writers:
            if self._batches:
                yield from self._mixed(pa.Table.from_batches(self._batches))
            return
        self._spill()
        for writer in self._writers:
            writer.close()
        for path in self._files:
            with ipc.open_stream(str(path)) as reader:
                table = reader.read_all()
            path.unlink()
            yield from self._mixed(table)

    def _mixed(self, table: Any) -> Iterator[tuple[list[Any], NDArray[np.int64]]]:
        pa = need("pyarrow", "tables")
        keys = self.uniforms(table.num_rows)
        order = np.argsort(keys)
        if (np.diff(keys[order]) == 0.0).any():
            # Two of the 2^53 keys are equal once in many million tables, and then their rows stay in order.
            order = np.argsort(keys, kind="stable")
        whole = table.unify_dictionaries().combine_chunks()
        for start in range(0, len(order), WRITTEN_ROWS):
            part = whole.take(pa.array(order[start : start + WRITTEN_ROWS])).combine_chunks()
            *arrays, positions = (column.chunk(0) for column in part.columns)
            yield arrays, positions.to_numpy()
