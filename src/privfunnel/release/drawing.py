"""One draw of a table's rows: what every form of the release, and every file, is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from privfunnel.engines import Source
from privfunnel.errors import InvalidInputError, need
from privfunnel.mechanism import Mechanism
from privfunnel.release.options import DrawOptions
from privfunnel.release.output import Output, check_kept
from privfunnel.release.randomness import Uniforms
from privfunnel.release.sampler import Indices, Sampler, Tally


class Drawn(NamedTuple):
    """The release of a batch: Arrow columns by form, and the rows of the table, from 0, that they belong to."""

    columns: dict[str, list[Any]]
    rows: Indices


class Draw:
    """Draws a symbol once for every row, and a record once for every symbol, in all the forms asked for.

    Whoever holds two independent draws of the same rows knows more than the promise says, so the forms share one. Holds
    the mechanism's tables and never a row: it travels to Spark's executors.

    Args:
        mechanism: The mechanism.
        forms: Some of ``FORMS``.
        options: How to draw.

    Raises:
        InvalidInputError: A form or rule is unknown, or a column cannot be kept.
    """

    def __init__(self, mechanism: Mechanism, forms: Iterable[str], options: DrawOptions) -> None:
        """Build the tables."""
        self.outputs = {form: Output(mechanism, form, options) for form in forms}
        self.public, self.keep = mechanism.public_names, tuple(options.keep)
        for output in self.outputs.values():
            check_kept(mechanism, output.names, self.keep)
        self.sampler = Sampler(mechanism, options.unseen)

    def needed(self, table: Source) -> list[str]:
        """Public and kept columns; a table without any of the public ones was made for another mechanism.

        Raises:
            InvalidInputError: The table lacks one.
        """
        if not set(self.public) & set(table.columns):
            raise InvalidInputError(
                f"the mechanism is for other columns: it needs {', '.join(self.public)}, and {table.name} has "
                f"{', '.join(table.columns[:8])}{table.hint}"
            )
        table.require([*self.public, *self.keep])
        return [*self.public, *self.keep]

    def fields(self, form: str, schema: Any) -> list[Any]:
        """Arrow fields of a release; ``schema`` is that of the rows it is drawn for."""
        return [*self.outputs[form].fields(), *(schema.field(column) for column in self.keep)]

    def texts(self, form: str) -> list[str] | None:
        """Every text that may appear in a release, or None where that is not known."""
        return None if self.keep else self.outputs[form].texts()

    def columns(self, batch: Any, uniforms: Uniforms, tally: Tally) -> Drawn:
        """The release of one Arrow batch, in all forms."""
        before = tally.rows
        y, kept_rows = self.sampler.draw(batch, uniforms, tally)
        kept = [batch.column(batch.schema.get_field_index(column)) for column in self.keep]
        rows = np.arange(before, tally.rows)
        if kept_rows is not None:
            mask = need("pyarrow", "tables").array(kept_rows)
            kept, rows = [column.filter(mask) for column in kept], rows[kept_rows]
        columns = {form: [*output.arrays(y, uniforms), *kept] for form, output in self.outputs.items()}
        return Drawn(columns, rows)
