"""A release on Spark from classes alone: no list of public symbols ever comes to the driver.

The members of every class lie side by side, in the order of their values and as wide as they are frequent, and its
outputs divide the same interval among them: the fixed coupling of :mod:`privfunnel.model.coupling`, laid out by the
cluster. A row draws a place within its symbol's stretch. The place says the output; how far within the output's piece
it is says the places of the candidates in the other classes; the candidate at a place is the last symbol that begins
before it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.data import class_tables
from privfunnel.data.class_tables import ClassCounts
from privfunnel.data.engines.cutting import FEW
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.model.coupling import Pieces, pieces_of
from privfunnel.release.options import FORMS
from privfunnel.release.randomness import Uniforms, secure, seeded
from privfunnel.solving.solution import Solution

#: Forms that need no list of released symbols.
CLASSWISE = ("decoys", "records")
#: Rows that an executor draws at a time.
MOST_ROWS = 200_000
ROW, WEIGHT = "decoy_row", "decoy_weight"
DRAWN = f"{ROW} long, class int, place double, {WEIGHT} double, mixing double"


def by_classes(
    source: object, counts: ClassCounts, solution: Solution, *, form: str = "records", seed: int | None = None
) -> Any:
    """Release a Spark frame from its classes; the rows are drawn at once, on the executors, and stay there.

    Only public columns are released, so that rows of one public symbol are alike and drawn from its count. Values are
    written as the table has them, rare ones too: no threshold makes "(other)" of them, as it does in a released file.

    Args:
        source: The Spark frame that was counted.
        counts: Its classes, by :func:`privfunnel.data.class_tables.count`.
        solution: A solution for ``counts.problem()``.
        form: ``"records"``, a public record a row, or ``"decoys"``, all candidates of a row, in lines that share a
            number (``decoy_row``) and have a ``decoy_weight`` each, as for :func:`privfunnel.release.write`.
        seed: For experiments only: fixes the draws as long as Spark divides the rows in the same way.

    Returns:
        A Spark frame, its rows in random order.

    Raises:
        InvalidInputError: The source is no Spark frame, the form cannot be made of classes, or the solution is for
            another problem.

    Warns:
        GuaranteeWarning: A seed makes the draws predictable, or decoys name combinations that few rows have.
    """
    _check(source, counts, solution, form)
    if seed is not None:
        seeded(seed)  # refuses what is no seed
        _warn(
            f"seed={seed} makes the draws predictable: whoever knows it can undo the release; for experiments only"
        )
    if form == "decoys" and counts.few:
        _warn(
            f"decoys name combinations of public values that fewer than {FEW} rows have, of {counts.few:,} of "
            f"{counts.n:,} rows: whoever knows such a person's public values can work out from candidates and weights "
            "how likely each private value is; use coarser values or release records where that matters"
        )
    members = _laid_out(source, counts)
    draw = _Draw(Layout.of(counts, solution), form == "records", seed)
    drawn = members.select("class", "begin", "n").mapInArrow(draw, DRAWN)
    # Drawn once and for all: were a lost part drawn again, candidates of two draws could meet in one row.
    return _named(members, drawn.localCheckpoint(), counts, form)


def _warn(words: str) -> None:
    warnings.warn(words, GuaranteeWarning, stacklevel=3)


def _check(source: object, counts: ClassCounts, solution: Solution, form: str) -> None:
    if form not in CLASSWISE:
        known = "known" if form not in FORMS else "made of classes: it needs a list of all symbols"
        raise InvalidInputError(f"form={form!r} is not {known}; use one of {', '.join(CLASSWISE)}")
    if not type(source).__module__.startswith("pyspark"):
        raise InvalidInputError(
            f"a source of type {type(source).__name__} is no Spark frame: use tables.count and release.frame or "
            "release.write, which take tables of millions of symbols"
        )
    rows = solution.channel.shape[0]
    if rows != counts.n_classes:
        raise InvalidInputError(
            f"the solution is for {rows} public symbols, and there are {counts.n_classes} classes: solve "
            "counts.problem()"
        )


def _laid_out(source: Any, counts: ClassCounts) -> Any:
    """A row a public symbol, on the cluster: values ``x0`` …, ``class``, rows ``n``, and where it begins there."""
    f, window = need("pyspark.sql.functions", "spark"), need("pyspark.sql.window", "spark").Window
    quotients = [f"q{k}" for k in range(len(counts.s_values))]
    known = source.sparkSession.createDataFrame(
        [(*row, t) for t, row in enumerate(counts.quotients.T.tolist())],
        ", ".join([*(f"{name} double" for name in quotients), "class int"]),
    )
    values = [f"x{j}" for j in range(len(counts.public))]
    symbols = class_tables.symbols(source, counts).join(f.broadcast(known), quotients)
    before = window.partitionBy("class").orderBy(*values).rowsBetween(window.unboundedPreceding, -1)
    begin = f.coalesce(f.sum("n").over(before), f.lit(0.0)).alias("begin")
    return symbols.select(*values, "class", "n", begin)


def _named(members: Any, drawn: Any, counts: ClassCounts, form: str) -> Any:
    """The symbol at every place that was drawn: the last one of its class that begins there or before."""
    f, window = need("pyspark.sql.functions", "spark"), need("pyspark.sql.window", "spark").Window
    values = [f"x{j}" for j in range(len(counts.public))]
    symbol = f.struct(*values).alias("symbol")
    begins = members.select("class", f.col("begin").alias("place"), f.lit(0).alias("asks"), symbol)
    asked = drawn.withColumn("asks", f.lit(1))
    so_far = window.partitionBy("class").orderBy("place", "asks")
    so_far = so_far.rowsBetween(window.unboundedPreceding, window.currentRow)
    met = begins.unionByName(asked, allowMissingColumns=True).withColumn(
        "symbol", f.last("symbol", ignorenulls=True).over(so_far)
    )
    told = [f.col(f"symbol.{alias}").alias(name) for alias, name in zip(values, counts.public, strict=True)]
    lines = met.filter("asks = 1")
    mixed = lines.repartition(ROW).sortWithinPartitions(ROW, "mixing")
    return mixed.select(*told) if form == "records" else mixed.select(ROW, *told, WEIGHT)


class Layout(NamedTuple):
    """What an executor has to know of the channel: classes and outputs, no symbols.

    Attributes:
        pieces: The pieces of each class's interval that its outputs own.
        by_output: The pieces sorted by output, shape as ``pieces.y``.
        start: Where those of each output begin among them, shape (N_T + 1,).
        weights: p(t|y) of each piece.
        rows: Rows of each class.
    """

    pieces: Pieces
    by_output: NDArray[np.intp]
    start: NDArray[np.intp]
    weights: Array
    rows: Array

    @classmethod
    def of(cls, counts: ClassCounts, solution: Solution) -> Layout:
        """The layout of a solution for the problem of the classes."""
        pieces = pieces_of(solution.channel)
        rows = counts.table.sum(axis=0).astype(np.float64)
        by_output = np.argsort(pieces.y, kind="stable").astype(np.intp)
        start = np.searchsorted(pieces.y[by_output], np.arange(pieces.n_outputs + 1)).astype(np.intp)
        mass = pieces.width * rows[pieces.t]
        whole = np.bincount(pieces.y, mass, pieces.n_outputs)
        return cls(pieces, by_output, start, mass / whole[pieces.y], rows)


class Stretches(NamedTuple):
    """Public symbols of some classes, one entry each: class, the row of the class at which it begins, its rows."""

    t: NDArray[np.intp]
    begin: Array
    n: Array


class _Draw:
    """What an executor runs on the symbols of one partition."""

    def __init__(self, layout: Layout, one: bool, seed: int | None) -> None:
        self.layout, self.one, self.seed = layout, one, seed

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa, pyspark = need("pyarrow", "spark"), need("pyspark", "spark")
        uniforms: Uniforms = secure
        if self.seed is not None:
            uniforms = seeded(self.seed, pyspark.TaskContext.get().partitionId())
        names = [ROW, "class", "place", WEIGHT, "mixing"]
        for batch in batches:
            t, begin, n = (batch.column(j).to_numpy(zero_copy_only=False) for j in range(3))
            symbols = Stretches(t.astype(np.intp), begin, n)
            for draws in portions(n, MOST_ROWS):
                arrays = candidates(self.layout, symbols, draws, uniforms, self.one)
                yield pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], names=names)


def portions(n: Array, most: int) -> Iterator[NDArray[np.int64]]:
    """How many rows of each symbol are drawn at a time, so that it is at most ``most`` in all."""
    ends = np.cumsum(n.astype(np.int64))
    begins = ends - n.astype(np.int64)
    for start in range(0, int(ends[-1]) if ends.size else 0, most):
        yield np.clip(ends, start, start + most) - np.clip(begins, start, start + most)


def candidates(
    layout: Layout, symbols: Stretches, draws: NDArray[np.int64], uniforms: Uniforms, one: bool
) -> tuple[NDArray[Any], ...]:
    """Draw rows of some public symbols.

    Args:
        layout: The channel of the classes.
        symbols: The public symbols.
        draws: How many rows of each are drawn.
        uniforms: Randomness.
        one: Whether one candidate is drawn by its weight, or all are listed.

    Returns:
        One entry a line: number of its row (62 random bits), class and place of the candidate, its weight, and a random
        number that mixes the lines of a row.
    """
    pieces = layout.pieces
    own, begin, n = (np.repeat(array, draws) for array in symbols)
    place = np.minimum((begin + uniforms(own.size) * n) / layout.rows[own], 1.0)
    # Pieces of class t begin at t + begin on one line.
    piece = np.searchsorted(pieces.t + pieces.begin, own + place, side="right") - 1
    piece = np.clip(piece, pieces.first[own], pieces.first[own + 1] - 1)
    within = np.clip((place - pieces.begin[piece]) / pieces.width[piece], 0.0, 1.0)
    size = np.diff(layout.start)[pieces.y[piece]]
    last = np.cumsum(size) - 1
    first = last + 1 - size
    row = np.repeat(np.arange(own.size), size)
    line = layout.by_output[layout.start[pieces.y[piece]][row] + np.arange(row.size) - first[row]]
    if one:
        reached = np.cumsum(layout.weights[line])
        low = reached[first] - layout.weights[line[first]]
        wanted = np.searchsorted(reached, low + uniforms(own.size) * (reached[last] - low), side="right")
        chosen = np.clip(wanted, first, last)
        row, line = row[chosen], line[chosen]
    t = pieces.t[line]
    at = (pieces.begin[line] + within[row] * pieces.width[line]) * layout.rows[t]
    # The row itself is the candidate of its own class, whatever was rounded on the way.
    at = np.where(line == piece[row], (begin + 0.5 * n)[row], at)
    high, low_bits = ((uniforms(own.size) * 2.0**31).astype(np.int64) for _ in range(2))
    return (high * 2**31 + low_bits)[row], t.astype(np.int32), at, layout.weights[line], uniforms(row.size)
