"""A frame released as a frame of the same engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from privfunnel.data.engines import open_table
from privfunnel.errors import GuaranteeWarning, need
from privfunnel.release import weakening
from privfunnel.release.drawing import Draw
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DEFAULT_FORM, DrawKeywords, DrawOptions
from privfunnel.release.order import Order
from privfunnel.release.publication import Policy
from privfunnel.release.randomness import chosen_uniforms
from privfunnel.release.sampler import Tally
from privfunnel.release.shuffling import Shuffle


def frame(
    source: object,
    mechanism: Mechanism,
    *,
    form: str = DEFAULT_FORM,
    on_unseen: Callable[[int], None] | None = None,
    on_order: Callable[[Order], None] | None = None,
    **options: Unpack[DrawKeywords],
) -> Any:
    """Release a frame as a frame of the same engine, its rows shuffled.

    A PySpark frame stays where it is: the result is a lazy Spark frame whose rows are drawn on the executors, each from
    its own operating system's randomness. A pandas, Polars or PyArrow frame comes back as one; any other as a PyArrow
    table.

    Args:
        source: The frame.
        mechanism: The mechanism.
        form: As for :func:`privfunnel.release.write`.
        on_unseen: Called with the number of rows that held unknown values, where there are any; on Spark give the
            ``add`` of an accumulator.
        on_order: Called with the :class:`~privfunnel.release.order.Order` of the rows, which is confidential and what
            an audit needs; not on Spark, where nobody knows it.
        **options: As for :func:`privfunnel.release.write`; with a ``seed``, on Spark each partition has a stream of its
            own. Rows of one ``person`` are drawn alike on every executor.

    Warns:
        GuaranteeWarning: As for :func:`privfunnel.release.write`; on Spark nobody counts persons with several draws.
    """
    chosen = DrawOptions(**options)
    draw, uniforms = Draw(mechanism, [form], chosen), chosen_uniforms(chosen.seed)
    mixing = chosen_uniforms(chosen.seed, "decoys")
    weakening.warn(chosen, stacklevel=2)
    if form == "decoys":
        weakening.warn_of_decoys(mechanism, Policy(chosen.threshold), stacklevel=2)
    with open_table(source) as table:
        names = draw.needed(table)
        if "pyspark" in table.engine:
            from privfunnel.release.spark import map_frame

            if chosen.enter is not None:
                chosen.enter(
                    None
                )  # the rows are drawn whenever the cluster likes: nobody can say that it repeats one
            if draw.sticky is not None:
                draw.sticky.keep()
            chosen = replace(chosen, enter=None)  # the rest goes to the executors
            return map_frame(source, names, draw, chosen, on_unseen)
        weakening.check_places(table, mechanism, chosen, stacklevel=2)
        draw.enter(chosen.enter, table.batches(names, chosen.batch_rows))
        tally, parts, rows = Tally(), [], [np.zeros(0, dtype=np.int64)]
        fields = None
        # Frames are in memory anyway, so that nothing goes to the disk.
        with Shuffle(Path(), chosen_uniforms(chosen.seed, "order"), memory_rows=2**62) as shuffle:
            for batch in table.batches(names, chosen.batch_rows):
                fields = draw.fields(form, batch.schema)
                drawn = draw.columns(batch, uniforms, tally)
                held = drawn.columns[form]
                if chosen.keep_order:
                    parts.append(draw.lines(form, held, drawn.rows + 1, mixing))
                    rows.append(drawn.rows)
                else:
                    shuffle.add(held, drawn.rows)
            done = 0
            for arrays, positions in shuffle.shuffled():
                numbers = np.arange(done, done + len(positions)) + 1
                parts.append(draw.lines(form, arrays, numbers, mixing))
                done += len(positions)
                rows.append(positions)
        draw.name()  # the one that was entered
        if draw.sticky is not None:
            draw.sticky.keep()
        if on_unseen is not None and tally.unseen_rows:
            on_unseen(tally.unseen_rows)
        persons = draw.people(tally)
        if persons is not None and persons.varying:
            warnings.warn(persons.words, GuaranteeWarning, stacklevel=2)
        if on_order is not None:
            on_order(Order(np.concatenate(rows).astype(np.uint64), tally.rows, chosen.threshold))
        return _native(draw, form, fields, parts, table.engine.rpartition(".")[2])


def _native(draw: Draw, form: str, fields: object, parts: list[list[Any]], engine: str) -> Any:
    """Arrow columns as a frame of the engine, where it is one in memory."""
    pa, nw = need("pyarrow", "tables"), need("narwhals", "tables")
    if fields is None:
        fields = draw.fields(form, pa.schema([pa.field(column, pa.null()) for column in draw.keep]))
    schema = pa.schema(fields)
    plain = [[a.cast(f.type) for a, f in zip(part, schema, strict=True)] for part in parts]
    result = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(part, schema=schema) for part in plain], schema
    )
    return nw.from_arrow(result, backend=engine).to_native() if engine in {"pandas", "polars"} else result
