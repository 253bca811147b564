"""The sampler on Spark's executors: rows never come to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from privfunnel.engines.texts import quoted
from privfunnel.errors import need
from privfunnel.release.drawing import Draw
from privfunnel.release.options import DrawOptions
from privfunnel.release.randomness import STREAMS, Uniforms, secure, seeded
from privfunnel.release.sampler import Tally

#: Column of random keys by which the released rows are sorted.
KEY = "_privfunnel_order"


def map_frame(
    frame: Any,
    names: Sequence[str],
    draw: Draw,
    options: DrawOptions,
    on_unseen: Callable[[int], None] | None,
) -> Any:
    """A lazy Spark frame whose partitions are released by ``mapInArrow``, and which is sorted by random keys."""
    types = need("pyspark.sql.types", "spark")
    (form,) = draw.outputs
    ours = [
        types.StructField(field.name, _spark_type(types, str(field.type)))
        for field in draw.outputs[form].fields()
    ]
    kept = [frame.schema[column] for column in draw.keep]
    key = [] if options.keep_order else [types.StructField(KEY, types.LongType())]
    schema = types.StructType([*ours, *kept, *key])
    selected = frame.select(*(frame[quoted(name, "`")] for name in names))
    released = selected.mapInArrow(_Partition(draw, form, options, on_unseen), schema)
    if options.keep_order:
        return released
    # A sort of everything looks at a sample first, and so draws twice; sent to partitions by their random keys and
    # sorted there, the rows are in random order after one draw.
    return released.repartition(KEY).sortWithinPartitions(KEY).drop(KEY)


def _spark_type(types: Any, arrow: str) -> Any:
    known = {
        "string": types.StringType, "int64": types.LongType, "double": types.DoubleType, "bool": types.BooleanType,
        "date32[day]": types.DateType, "timestamp[us]": types.TimestampNTZType,
    }  # fmt: skip
    return known[arrow]()


class _Partition:
    """What an executor runs on one partition; it travels with the mechanism's tables and nothing else."""

    def __init__(
        self, draw: Draw, form: str, options: DrawOptions, on_unseen: Callable[[int], None] | None
    ) -> None:
        self.draw, self.form, self.options, self.on_unseen = draw, form, options, on_unseen

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa, pyspark = need("pyarrow", "spark"), need("pyspark", "spark")
        uniforms: Uniforms = secure
        keys: Uniforms = secure
        if self.options.seed is not None:
            partition = pyspark.TaskContext.get().partitionId()
            uniforms = seeded(self.options.seed, partition)
            keys = seeded(self.options.seed, partition, STREAMS["order"])
        tally = Tally()
        names = [*self.draw.outputs[self.form].names, *self.draw.keep]
        names += [] if self.options.keep_order else [KEY]
        for batch in batches:
            arrays = self.draw.columns(batch, uniforms, tally).columns[self.form]
            plain = [
                array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array for array in arrays
            ]
            if not self.options.keep_order:
                plain.append(pa.array((keys(len(plain[0])) * 2.0**53).astype("int64")))
            yield pa.RecordBatch.from_arrays(plain, names=names)
        if self.on_unseen is not None and tally.unseen_rows:
            self.on_unseen(tally.unseen_rows)
