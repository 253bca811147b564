"""The sampler on Spark's executors: rows never come to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from privfunnel.errors import need
from privfunnel.release.output import Output
from privfunnel.release.randomness import Uniforms, secure, seeded
from privfunnel.release.sampler import Sampler, Tally


def map_frame(
    frame: Any,
    names: Sequence[str],
    sampler: Sampler,
    output: Output,
    keep: Sequence[str],
    seed: int | None,
    on_unseen: Callable[[int], None] | None,
) -> Any:
    """A lazy Spark frame whose partitions are released by ``mapInArrow``."""
    types = need("pyspark.sql.types", "spark")
    ours = [types.StructField(field.name, _spark_type(types, str(field.type))) for field in output.fields()]
    kept = [frame.schema[column] for column in keep]
    schema = types.StructType([*ours, *kept])
    selected = frame.select(*(frame[_quoted(name)] for name in names))
    return selected.mapInArrow(_Partition(sampler, output, tuple(keep), seed, on_unseen), schema)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_type(types: Any, arrow: str) -> Any:
    known = {
        "string": types.StringType, "int64": types.LongType, "double": types.DoubleType, "bool": types.BooleanType,
        "date32[day]": types.DateType, "timestamp[us]": types.TimestampNTZType,
    }  # fmt: skip
    return known[arrow]()


class _Partition:
    """What an executor runs on one partition; it travels with the mechanism's tables and nothing else."""

    def __init__(
        self,
        sampler: Sampler,
        output: Output,
        keep: tuple[str, ...],
        seed: int | None,
        on_unseen: Callable[[int], None] | None,
    ) -> None:
        self.sampler, self.output, self.keep, self.seed, self.on_unseen = (
            sampler,
            output,
            keep,
            seed,
            on_unseen,
        )

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from privfunnel.release import release_batch

        pa, pyspark = need("pyarrow", "spark"), need("pyspark", "spark")
        uniforms: Uniforms = secure
        if self.seed is not None:
            uniforms = seeded(self.seed, pyspark.TaskContext.get().partitionId())
        tally = Tally()
        names = [*self.output.names, *self.keep]
        for batch in batches:
            arrays = release_batch(batch, self.sampler, self.output, self.keep, uniforms, tally)
            plain = [
                array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array for array in arrays
            ]
            yield pa.RecordBatch.from_arrays(plain, names=names)
        if self.on_unseen is not None and tally.unseen_rows:
            self.on_unseen(tally.unseen_rows)
