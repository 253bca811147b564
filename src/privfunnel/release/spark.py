"""The sampler on Spark's executors: rows never come to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines.texts import quoted
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
            size = len(arrays[0])
            key = (keys(size) * 2.0**53).astype("int64")
            if self.form == "decoys":
                # Numbers of 62 random bits tell rows apart that no one counts together.
                high, low = ((keys(size) * 2.0**31).astype("int64") for _ in range(2))
                arrays = self.draw.lines(self.form, arrays, high * 2**31 + low, keys)
                key = key[_of_row(arrays[0])]
            plain = [
                array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array for array in arrays
            ]
            if not self.options.keep_order:
                plain.append(pa.array(key))
            yield pa.RecordBatch.from_arrays(plain, names=names)
        if self.on_unseen is not None and tally.unseen_rows:
            self.on_unseen(tally.unseen_rows)


def _of_row(numbers: Any) -> NDArray[np.int64]:
    """Which row of the batch, from 0, each line is of; lines of one row follow each other."""
    values = numbers.to_numpy(zero_copy_only=False)
    return np.cumsum(np.diff(values, prepend=values[:1]) != 0)
