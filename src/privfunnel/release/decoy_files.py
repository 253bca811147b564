"""A release as decoys: every row as its candidate records with weights, the true one among them, in random order."""

from __future__ import annotations

from typing import Any

import numpy as np

from privfunnel.errors import need
from privfunnel.release.candidates import PARTS, ROW, WEIGHT, candidates
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawOptions
from privfunnel.release.output import Output
from privfunnel.release.publication import Policy
from privfunnel.release.randomness import Uniforms
from privfunnel.release.records import RecordAlphabet, released_names
from privfunnel.release.sampler import Indices


class DecoyOutput(Output):
    """Turns released symbols into candidates.

    A symbol travels as its number until the rows are shuffled; :meth:`lines` then makes its candidates of it, so that
    neither the order of the rows nor that of the candidates, nor the number of a row, says anything.

    Args:
        mechanism: The mechanism.
        options: What stands for a bin of numbers, and how many rows are few.
        records: The mechanism's records under that number, where they are known already.

    Raises:
        InvalidInputError: A symbol has too many candidates.
    """

    def __init__(
        self, mechanism: Mechanism, options: DrawOptions, records: RecordAlphabet | None = None
    ) -> None:
        """Prepare the tables."""
        alphabet = records or RecordAlphabet.of(mechanism, Policy(options.threshold))
        super().__init__(mechanism, "decoys", options, alphabet)
        self.names = (ROW, *released_names(mechanism), WEIGHT)
        self.candidates = candidates(mechanism, alphabet)

    @property
    def held(self) -> int:
        """Columns that :meth:`arrays` gives: the symbol alone."""
        return 1

    def fields(self) -> list[Any]:
        """Arrow fields of the output."""
        pa = need("pyarrow", "tables")
        columns = [
            pa.field(name, self._type(w)) for name, w in zip(self.names[1:-1], self.columns, strict=True)
        ]
        return [
            pa.field(ROW, pa.int64(), nullable=False), *columns, pa.field(WEIGHT, pa.float64(), nullable=False),
        ]  # fmt: skip

    def records(self, y: Indices, uniforms: Uniforms) -> Indices | None:
        """Nothing is drawn beyond the symbol."""
        return None

    def arrays(self, y: Indices, records: Indices | None, uniforms: Uniforms) -> list[Any]:
        """The symbols themselves."""
        return [need("pyarrow", "tables").array(y.astype(np.int32))]

    def lines(self, arrays: list[Any], rows: Indices, uniforms: Uniforms) -> list[Any]:
        """Columns of the candidates, in random order within a row.

        Args:
            arrays: What :meth:`arrays` gave, and kept columns, which every candidate of a row repeats.
            rows: Numbers of the rows, which the candidates are told apart by.
            uniforms: Randomness.
        """
        pa = need("pyarrow", "tables")
        symbols, *kept = arrays
        y = symbols.to_numpy(zero_copy_only=False).astype(np.int64)
        first, sizes = self.candidates.start[y], self.candidates.start[y + 1] - self.candidates.start[y]
        row = np.repeat(np.arange(len(y)), sizes)
        at = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[row]
        at = at[np.lexsort((uniforms(len(at)), row))]
        written = self.recorded(self.candidates.record[at], uniforms)
        weights = pa.array(self.candidates.parts[at] / PARTS)
        return [pa.array(rows[row]), *written, weights, *(column.take(pa.array(row)) for column in kept)]
