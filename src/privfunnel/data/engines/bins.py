"""Rules that turn a column of many values into few categories, recorded so that new data is cut the same way.

A rule is asked for with a :class:`Rule` (or a short text such as ``"width:5"``) and becomes, once the data has been
looked at, a :class:`Cut` (numbers into intervals), a :class:`Top` (frequent values kept, the others grouped) or a
:class:`~privfunnel.data.engines.calendar.Part` (dates by year, month …). All are plain data: they go into mechanism
files and never depend on the rows again. What bins a column is published with its release, so that no cut point may be
somebody's value: see :mod:`privfunnel.data.engines.cutting`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import calendar
from privfunnel.data.engines.calendar import Part
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

OTHER = "(other)"
FORMS = (
    "a number of bins, 'width:5' for bins 5 wide, 'quantiles:4', 'edges:0,18,65,inf', 'top:10' for text, or "
    f"{calendar.FORMS}"
)


@dataclass(frozen=True)
class Rule:
    """What was asked for.

    Attributes:
        kind: ``"bins"`` of equal width, ``"width"``, ``"quantiles"``, ``"edges"`` or ``"top"``; ``"part"`` for the
            values of a part themselves.
        size: How many bins, or values kept.
        width: How wide a bin is, in the units of the column.
        edges: The edges.
        part: The part of a date that is binned; nothing for other columns.
    """

    kind: str
    size: int = 0
    edges: tuple[float, ...] = ()
    part: str = ""
    width: float = 0.0

    def __str__(self) -> str:
        """The short text that :func:`parse` reads back."""
        if self.kind == "part":
            return self.part
        of = f"{self.part}:" if self.part else ""
        if self.kind == "edges":
            return f"{of}edges:" + ",".join(f"{edge:.12g}" for edge in self.edges)
        if self.kind == "width":
            return f"{of}width:{self.width:.12g}"
        return f"{of}{self.kind}:{self.size}"


@dataclass(frozen=True)
class Cut:
    """Intervals ``[e0, e1), [e1, e2), …, [ek-1, ek]`` of a number column.

    ``integer`` says that the column holds whole numbers, so that a bin may be written ``17-31``; ``part`` that the
    numbers are that part of dates (the year, an age).
    """

    form: ClassVar[str] = "cut"
    rule: str
    edges: tuple[float, ...]
    integer: bool = False
    part: str = ""

    @property
    def size(self) -> int:
        """The number of intervals."""
        return len(self.edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """One text an interval, all different."""
        return tuple(self._label(i) for i in range(self.size))

    def _label(self, i: int) -> str:
        low, high = self.edges[i], self.edges[i + 1]
        last = i == self.size - 1
        if math.isinf(low) and math.isinf(high):
            return "any"
        if self.integer and math.isfinite(low) and math.isfinite(high):
            first, final = math.ceil(low), math.floor(high) if last else math.ceil(high) - 1
            return str(first) if first == final else f"{first}-{final}"
        texts = [f"{math.ceil(e) if self.integer and math.isfinite(e) else e:.6g}" for e in self.edges]
        if len(set(texts)) < len(texts):
            texts = [repr(edge) for edge in self.edges]
        if math.isinf(low):
            return f"<= {texts[i + 1]}" if last else f"< {texts[i + 1]}"
        if math.isinf(high):
            return f"≥ {texts[i]}"
        return f"[{texts[i]}, {texts[i + 1]}{']' if last else ')'}"

    def codes(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The interval of each number: ``-1`` below the first edge, ``size`` above the last one; no NaN allowed."""
        edges = np.asarray(self.edges)
        codes = np.searchsorted(edges, values, side="right") - 1
        codes[values == edges[-1]] = self.size - 1
        return codes.astype(np.int64, copy=False)

    def span(self, code: int) -> tuple[float, float]:
        """Least and greatest finite number written for one interval, both inside it (whole for an integer column).

        An interval without end on one side is written as the number at its other end.
        """
        low, high = self.edges[code], self.edges[code + 1]
        last = code == self.size - 1
        if self.integer:
            least = math.ceil(low) if math.isfinite(low) else None
            most = None if math.isinf(high) else (math.floor(high) if last else math.ceil(high) - 1)
            least = least if least is not None else (most if most is not None else 0)
            return float(least), float(least if most is None else max(least, most))
        top = high if last else math.nextafter(high, -math.inf)
        low = low if math.isfinite(low) else (top if math.isfinite(high) else 0.0)
        return low, (top if math.isfinite(high) else low)

    def middle(self, code: int) -> float:
        """A number in the middle of one interval (whole for an integer column), always inside it."""
        least, most = self.span(code)
        if self.integer:
            return float(math.floor((least + most) / 2.0))
        low, high = self.edges[code], self.edges[code + 1]
        if math.isinf(low) or math.isinf(high):
            return least  # the only number written for it; half of it plus half of it may round to the edge
        # The middle of the edges as they are written is 5 for [0, 10), not the float before it.
        return min(max(low / 2.0 + high / 2.0, least), most)

    def to_dict(self) -> Document:
        """JSON-ready; infinite edges are written as text because JSON has no infinity."""
        edges = [edge if math.isfinite(edge) else str(edge) for edge in self.edges]
        of = {"part": self.part} if self.part else {}
        return {"form": self.form, "rule": self.rule, "edges": edges, "integer": self.integer, **of}


@dataclass(frozen=True)
class Top:
    """The most frequent values stay, every other value (a new one too) becomes ``(other)``; null stays null."""

    form: ClassVar[str] = "top"
    rule: str
    kept: tuple[str, ...]

    def to_dict(self) -> Document:
        """JSON-ready."""
        return {"form": self.form, "rule": self.rule, "kept": list(self.kept)}


Bins = Cut | Top | Part


def from_dict(data: Document) -> Bins:
    """Read back what ``to_dict`` wrote.

    Raises:
        InvalidInputError: The form is unknown or the edges do not increase.
    """
    if data.get("form") == Cut.form:
        edges = tuple(float(edge) for edge in data["edges"])
        _check_edges(edges)
        part = str(data.get("part", ""))
        return Cut(str(data["rule"]), edges, bool(data["integer"]), Part(part).rule if part else "")
    if data.get("form") == Top.form:
        return Top(str(data["rule"]), tuple(str(value) for value in data["kept"]))
    if data.get("form") == Part.form:
        return Part(str(data["rule"]))
    raise InvalidInputError(
        f"bins of the form {data.get('form')!r} are unknown: write the file again with this version"
    )


def _check_edges(edges: Sequence[float]) -> None:
    if len(edges) < 2 or any(math.isnan(edge) for edge in edges):
        raise InvalidInputError(
            f"bin edges {list(edges)} must be at least two numbers, e.g. 'edges:0,18,65,inf'"
        )
    if any(low >= high for low, high in pairwise(edges)):
        raise InvalidInputError(f"bin edges {list(edges)} must increase, e.g. 'edges:0,18,65,inf'")


def parse(column: str, spec: object) -> Rule | Bins:
    """Read one user's specification of bins.

    Args:
        column: The column's name, for the messages.
        spec: A number of equal-width bins, a short text, a list of edges, or bins recorded before.

    Raises:
        InvalidInputError: The specification cannot be understood.
    """
    if isinstance(spec, Cut | Top | Part | Rule):
        return spec
    if isinstance(spec, bool):
        raise InvalidInputError(f"bins for column {column!r} cannot be {spec!r}: give {FORMS}")
    if isinstance(spec, int | np.integer):
        return _sized(column, "bins", int(spec))
    if isinstance(spec, str):
        return _parse_text(column, spec)
    if isinstance(spec, Sequence | np.ndarray):
        try:
            edges = tuple(float(edge) for edge in spec)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"bins for column {column!r}: {spec!r} is not a list of numbers"
            ) from error
        _check_edges(edges)
        return Rule("edges", edges=edges)
    raise InvalidInputError(f"bins for column {column!r} cannot be {spec!r}: give {FORMS}")


def _parse_text(column: str, spec: str) -> Rule:
    kind, colon, rest = spec.strip().partition(":")
    if calendar.is_part(kind.strip().lower()):
        part = Part(kind.strip().lower())
        if not colon:
            return Rule("part", part=part.rule)
        inner = _parse_text(column, rest)
        if not part.numeric or inner.part or inner.kind == "top":
            raise InvalidInputError(
                f"bins {spec!r} for column {column!r}: only a year or an age is cut further, e.g. 'year:quantiles:4' "
                "or 'age@2020-01-01:edges:0,18,65,inf'"
            )
        return replace(inner, part=part.rule)
    kind = {"quantile": "quantiles", "edge": "edges"}.get(kind.strip().lower(), kind.strip().lower())
    try:
        if not colon:
            return _sized(column, "bins", int(kind))
        if kind == "edges":
            edges = tuple(float(part) for part in rest.split(","))
            _check_edges(edges)
            return Rule("edges", edges=edges)
        if kind == "width":
            return _wide(column, float(rest))
        if kind in {"bins", "quantiles", "top"}:
            return _sized(column, kind, int(rest))
    except InvalidInputError:
        raise
    except ValueError:
        pass
    raise InvalidInputError(f"bins {spec!r} for column {column!r} cannot be read: give {FORMS}")


def _sized(column: str, kind: str, size: int) -> Rule:
    if not 1 <= size <= 10_000:
        raise InvalidInputError(
            f"{size} bins for column {column!r} make no sense: give a number from 1 to 10000"
        )
    return Rule(kind, size)


def _wide(column: str, width: float) -> Rule:
    if not 0.0 < width < math.inf:
        raise InvalidInputError(
            f"bins of column {column!r} cannot be {width:g} wide: give a width above 0, or a number of bins as 'bins:5'"
        )
    return Rule("width", width=width)


def merged(edges: Sequence[float]) -> tuple[float, ...]:
    """The edges for whole numbers, less those that cut off an interval without any: no value can fall into it."""
    first, *inner, last = edges
    kept = [first]
    for edge in inner:
        if math.isinf(kept[-1]) or math.ceil(edge) > math.ceil(kept[-1]):
            kept.append(edge)
    if len(kept) > 1 and math.isfinite(last) and math.floor(last) < math.ceil(kept[-1]):
        kept.pop()
    return (*kept, last)
