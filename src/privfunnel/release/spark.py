"""The sampler on Spark's executors: rows never come to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from privfunnel.engines.texts import quoted
from privfunnel.errors import need
from privfunnel.release.drawing import Draw
from privfunnel.release.randomness import Uniforms, secure, seeded
from privfunnel.release.sampler import Tally


def map_frame(
    frame: Any,
    names: Sequence[str],
    draw: Draw,
    seed: int | None,
    on_unseen: Callable[[int], None] | None,
) -> Any:
    """A lazy Spark frame whose partitions are released by ``mapInArrow``."""
    types = need("pyspark.sql.types", "spark")
    (form,) = draw.outputs
    ours = [
        types.StructField(field.name, _spark_type(types, str(field.type)))
        for field in draw.outputs[form].fields()
    ]
    kept = [frame.schema[column] for column in draw.keep]
    schema = types.StructType([*ours, *kept])
    selected = frame.select(*(frame[quoted(name, "`")] for name in names))
    return selected.mapInArrow(_Partition(draw, form, seed, on_unseen), schema)


def _spark_type(types: Any, arrow: str) -> Any:
    known = {
        "string": types.StringType, "int64": types.LongType, "double": types.DoubleType, "bool": types.BooleanType,
        "date32[day]": types.DateType, "timestamp[us]": types.TimestampNTZType,
    }  # fmt: skip
    return known[arrow]()


class _Partition:
    """What an executor runs on one partition; it travels with the mechanism's tables and nothing else."""

    def __init__(
        self, draw: Draw, form: str, seed: int | None, on_unseen: Callable[[int], None] | None
    ) -> None:
        self.draw, self.form, self.seed, self.on_unseen = draw, form, seed, on_unseen

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa, pyspark = need("pyarrow", "spark"), need("pyspark", "spark")
        uniforms: Uniforms = secure
        if self.seed is not None:
            uniforms = seeded(self.seed, pyspark.TaskContext.get().partitionId())
        tally = Tally()
        names = [*self.draw.outputs[self.form].names, *self.draw.keep]
        for batch in batches:
            arrays = self.draw.columns(batch, uniforms, tally)[self.form]
            plain = [
                array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array for array in arrays
            ]
            yield pa.RecordBatch.from_arrays(plain, names=names)
        if self.on_unseen is not None and tally.unseen_rows:
            self.on_unseen(tally.unseen_rows)
