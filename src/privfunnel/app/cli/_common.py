"""What the commands share: options, quantities, output folders, progress."""

from __future__ import annotations

import ast
import csv
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfunnel.app.cli._screen import console, say
from privfunnel.app.cli._source import NamedProblem, load_source, open_source, read_options
from privfunnel.errors import InfeasibleError, InvalidInputError, MissingExtraError, need
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from pathlib import Path

    from privfunnel.infra.watching import Listener, Progress
    from privfunnel.solving.solution import Solution

__all__ = [
    "NamedProblem",
    "Units",
    "amount",
    "can_draw",
    "checked_threshold",
    "console",
    "guard_options",
    "load_source",
    "open_source",
    "output",
    "parse_guards",
    "parse_options",
    "parse_quantity",
    "progress_on_terminal",
    "read_options",
    "record_options",
    "say",
    "solver_options",
    "source_options",
    "tell_files",
    "text_file_options",
    "units_option",
    "unquoted",
]

Function = TypeVar("Function", bound=Callable[..., Any])

#: Parameters of commands that say how to read SOURCE, see :func:`source_options`.
READING = (
    "private", "public", "bins", "missing", "person", "cluster", "weights", "task", "classes", "columns", "delimiter",
    "decimal", "nulls", "types", "dates", "encoding", "quote", "escape", "sheet", "skip_rows",
)  # fmt: skip


class MeasureName(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click alone
    """The name of a measure of leakage, of :data:`privfunnel.measures.MEASURES`, loaded when it is needed."""

    name = "name"  # listing them would load a numerical library for --help

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name, or an error that lists them."""
        return click.Choice(self._names()).convert(value, param, ctx)

    def _names(self) -> list[str]:
        from privfunnel.measures import MEASURES

        return list(MEASURES)


@dataclass(frozen=True)
class Units:
    """The unit in which a person reads; everything inside is in nats."""

    name: str

    def of(self, nats: float) -> float:
        """Convert from nats."""
        from privfunnel.measures import nats_per

        return nats / nats_per(self.name)

    def nats(self, value: float) -> float:
        """Convert to nats."""
        from privfunnel.measures import nats_per

        return value * nats_per(self.name)


def units_option(function: Function) -> Function:
    """``--units bits|nats``, handed on as :class:`Units`."""
    return click.option(
        "--units",
        type=click.Choice(["nats", "bits"]),
        default="nats",
        show_default=True,
        callback=lambda ctx, _param, value: Units(_spoken(ctx, value)),
        help="Unit of the numbers that are shown, and of numbers given without a unit; JSON is always in nats.",
    )(function)


def _spoken(ctx: click.Context, unit: str) -> str:
    """The unit, in which sentences and warnings are until the command ends: that of its tables."""
    from privfunnel.model.amounts import spoken_in

    ctx.with_resource(spoken_in(unit))
    return unit


def amount(nats: float, digits: int = 4) -> str:
    """:func:`privfunnel.model.amounts.amount`, loaded when something is shown."""
    from privfunnel.model import amounts as quantities

    return quantities.amount(nats, digits)


def checked_threshold(threshold: int | None) -> None:
    """Refuse a threshold that hides nobody, before the work."""
    from privfunnel.release.publication import Policy

    if threshold is not None:
        Policy(threshold)


def shown_units_option(function: Function) -> Function:
    """``--units`` of commands that speak to stewards and reviewers, who read bits; None where nothing was said."""
    return click.option(
        "--units",
        type=click.Choice(["nats", "bits"]),
        callback=lambda ctx, _param, value: value if _spoken(ctx, value or "bits") == value else None,
        help="Unit of the numbers that are shown, bits by default, and of numbers given without one, nats by default; "
        "JSON is always in nats, a report in bits.",
    )(function)


def source_options(function: Function) -> Function:
    """SOURCE and the options that say how to read it; hand them all to :func:`load_source`."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.argument("source"),
        record_options,
        click.option("--person", metavar="COLUMN", help="Column that says who a row is about, if people have several."),
        click.option("--cluster", metavar="COLUMN",
                     help="Column that says which rows were sampled together, such as the household."),
        click.option("--weights", metavar="COLUMN",
                     help="Column that says how many people a row stands for, in a survey."),
        click.option("--task", multiple=True, metavar="COLUMN[=WEIGHT]", callback=_tasks,
                     help="Column that the release is for, which should still be predicted well from it; of several, "
                          "the utilities are added up by weight, 1 by default."),
        click.option("--classes", metavar="score:NUMBER",
                     help="For tables too wide to count: take p(s|x) from so many classes of a cross-fitted score, "
                          "e.g. score:16."),
        text_file_options,
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def record_options(function: Function) -> Function:
    """``--private``, ``--public``, ``--bin`` and ``--missing``: the roles of the columns of a table of records."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.option("--private", multiple=True, metavar="COLUMN", callback=_columns,
                     help="Private column of a table of records; repeat it, or separate names by commas. A name that "
                          "holds a comma stands in quotes: '\"a,b\"'."),
        click.option("--public", multiple=True, metavar="COLUMN", callback=_columns,
                     help="Column that may be published; repeat it, or separate names by commas."),
        click.option("--bin", "bins", multiple=True, metavar="COLUMN=RULE", callback=_bins,
                     help="How to bin a column: age=bins:5 or age=5, age=width:10 (bins 10 wide), age=quantiles:4, "
                          "age=edges:0,18,65,inf, town=top:10, visit=month (year, quarter, weekday), "
                          "born=age@2020-01-01:width:10."),
        click.option("--missing", type=click.Choice(["category", "drop", "refuse"]),
                     help="Rows without a private or public value: count missing as a category (the default), leave "
                          "them out, or stop."),
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def guard_options(function: Function) -> Function:
    """``--known``, ``--published``, ``--guarantee`` and ``--measure``; see :func:`parse_guards`."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.option("--known", multiple=True, metavar="COLUMNS", callback=_attackers,
                     help="Also guard against an attacker who knows these public columns of the target, separated by "
                          "commas; once for each attacker."),
        click.option("--published", multiple=True, metavar="COLUMN", callback=_columns,
                     help="Public column that is released as it is, so that everyone knows it."),
        click.option("--guarantee", "guarantees", multiple=True, metavar="NAME=VALUE",
                     help="What holds for every output, such as lip=0.2 or k=5, once for each; see docs/attackers.md."),
        click.option("--measure", type=MeasureName(),
                     help="What leakage is measured by, mutual information by default; see docs/attackers.md."),
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def parse_guards(
    known: Sequence[list[str]],
    published: Sequence[str],
    guarantees: Sequence[str],
    measure: str | None = None,
) -> Document:
    """The options of :func:`guard_options` as :func:`privfunnel.solve` takes them; none where none was given."""
    given = {
        "known": list(known),
        "published": list(published),
        "guarantees": list(guarantees),
        "measure": measure,
    }
    return {name: value for name, value in given.items() if value}


def text_file_options(function: Function) -> Function:
    """How to read a text file of records; hand the options to :func:`read_options`."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.option("--columns", multiple=True, metavar="NAMES", callback=_columns,
                     help="Names of all columns of a text file without a header, separated by commas."),
        click.option("--delimiter", metavar="CHARACTER",
                     help="Separator of a text file, e.g. ';' or tab; found out where it is not given."),
        click.option("--decimal", metavar="SIGN", help="What stands before decimals: . (the default) or , (comma)."),
        click.option("--null", "nulls", multiple=True, metavar="TEXT", help="A text that means null; may be repeated."),
        click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", callback=_types,
                     help="Read a column as text, number, integer, boolean, date or datetime; may be repeated."),
        click.option("--dates", type=click.Choice(["ymd", "dmy", "mdy"]),
                     help="Order of day, month and year in dates such as 3/4/2020."),
        click.option("--encoding", metavar="NAME",
                     help="Encoding of a text file, e.g. cp1252; found out where it is not given."),
        click.option("--quote", metavar="CHARACTER", help='Quote of a text file, " by default; \'\' for none.'),
        click.option("--escape", metavar="CHARACTER",
                     help="What stands before a quote inside quotes; a second quote by default."),
        click.option("--sheet", metavar="NAME", help="Sheet of a workbook (.xlsx, .xls, .ods); the first by default."),
        click.option("--skip-rows", type=click.IntRange(0), metavar="N",
                     help="Lines of a text file, or rows of a sheet, above the header; found out where there "
                          "is no doubt."),
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def solver_options(function: Function) -> Function:
    """``--solver``, ``--restarts``, ``--option``, ``--seed``; see :func:`parse_options`."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.option("--solver", default="auto", show_default=True, metavar="NAME", help="Which solver to use."),
        click.option("--restarts", type=int, metavar="N", help="Random starts, for solvers that have them."),
        click.option("--option", "options", multiple=True, metavar="NAME=VALUE",
                     help="Any other option of the solver, e.g. max_steps=2000; may be repeated."),
        click.option("--seed", type=int, default=0, show_default=True, help="Fixes all randomness."),
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def _columns(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Columns given one an option or separated by commas; a name in double quotes may hold commas."""
    return tuple(name for value in values for name in _split_names(value))


def _attackers(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[list[str], ...]:
    """The columns that each attacker knows."""
    return tuple(_split_names(value) for value in values)


def _tasks(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Columns, each with a weight or not; a column whose own name ends in ``=2`` is written with a weight behind it."""
    weights: dict[str, float] = {}
    for text in (name for value in values for name in _split_names(value)):
        name, weight = text, 1.0
        column, _, number = text.rpartition("=")
        if column.strip():
            with suppress(ValueError):
                name, weight = column.strip(), float(number)
        if name in weights:
            raise click.BadParameter(f"{name!r} is a task twice: name it once")
        weights[name] = weight
    return weights


def _split_names(value: str) -> list[str]:
    """Names separated by commas; one in double quotes may hold commas."""
    try:
        names = next(csv.reader([value], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise click.BadParameter(
            f"{value!r} has a quote that is never closed: write '\"a,b\"' for a column called a,b"
        ) from None
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise click.BadParameter(f"{value!r} names no column: give one, e.g. age, or leave the option out")
    return found


def unquoted(column: str) -> str:
    """A column's name without the double quotes that may stand around it."""
    name = column.strip()
    quoted = len(name) > 2 and name.startswith('"') and name.endswith('"')
    return name[1:-1].replace('""', '"') if quoted else name


def _bins(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """``COLUMN=RULE`` pairs; the rule itself is read by the tables room."""
    bins = {}
    for value in values:
        column, sign, rule = value.rpartition("=")  # a name may hold an equals sign, a rule does not
        if not (column.strip() and sign and rule.strip()):
            raise click.BadParameter(f"{value!r} is not COLUMN=RULE: give e.g. age=5")
        bins[unquoted(column)] = rule.strip()
    return bins


def _types(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """``COLUMN=TYPE`` pairs; the types are checked where the file is read."""
    types = {}
    for value in values:
        column, sign, kind = value.rpartition("=")
        if not (column.strip() and sign and kind.strip()):
            raise click.BadParameter(f"{value!r} is not COLUMN=TYPE: give e.g. zip=text")
        types[unquoted(column)] = kind.strip()
    return types


def parse_options(options: Sequence[str], restarts: int | None = None) -> dict[str, Any]:
    """``NAME=VALUE`` pairs as keyword arguments of a solver; values are read as Python literals, else as text."""
    parsed: Document = {}
    if restarts is not None:
        parsed["restarts"] = restarts
    for option in options:
        name, sign, value = option.partition("=")
        name = name.strip().replace("-", "_")
        if not (name and sign):
            raise InvalidInputError(f"--option {option!r} is not NAME=VALUE: give e.g. max_steps=2000")
        if name in {"seed", "solver", "disclosure", "leakage"}:
            raise InvalidInputError(f"{name!r} is no option of a solver: give it as --{name}")
        if name in parsed:
            raise InvalidInputError(f"the solver option {name!r} was given twice: keep one")
        try:
            parsed[name] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            parsed[name] = value.strip()
    return parsed


def parse_confidence(text: str) -> float:
    """A confidence such as ``95%`` or ``0.95``, strictly between 0 and 1."""
    try:
        value = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1.0:
        raise InvalidInputError(f"--confidence {text!r} is no confidence: give a share such as 95% or 0.95")
    return value


def parse_quantity(text: str, *, ceiling: float, whole: str, option: str, units: Units) -> float:
    """Read an amount of information as nats.

    Args:
        text: ``"60%"``, ``"0.9 bits"``, ``"1.2 nats"``, or ``"1.2"`` in ``units``.
        ceiling: What 100 % is, in nats.
        whole: What to call it, e.g. ``"H(X)"``.
        option: The option's name, for the error.
        units: Unit of a bare number.
    """
    from privfunnel.model import amounts as quantities
    from privfunnel.model.question import FEASIBILITY

    nats = quantities.parse(text, ceiling=ceiling, whole=whole, name=option, units=units.name)
    all_of = {"H(X)": "more than all of X", "I(U;X)": "more than X tells of the task"}.get(whole)
    if all_of is not None and nats > ceiling + FEASIBILITY:
        bare = quantities.bare_number(text)
        meant = f", did you mean {bare:g}%?" if bare is not None and bare <= 100.0 else ""
        raise InfeasibleError(
            f"{option} {text!r} is infeasible, {all_of}: the largest feasible is {whole} = "
            f"{units.of(ceiling):.9g} {units.name}, 100%{meant}"
        )
    return nats


@contextmanager
def output(out: Path | None, owned: tuple[str, ...]) -> Iterator[Path | None]:
    """The folder that a command fills for ``--out``, see :func:`privfunnel.infra.storage.output_folder`; None without.

    Args:
        out: What the user gave.
        owned: The files that the command may leave there.
    """
    if out is None:
        yield None
        return
    from privfunnel.infra.storage import output_folder

    with output_folder(out, owned) as folder:
        yield folder


def can_draw() -> bool:
    """Whether there is a library for pictures; where there is none, say on stderr that they are left out, and why."""
    try:
        need("matplotlib", extra="plots")
    except MissingExtraError as error:
        say(f"no pictures are written: {error}", err=True)
        return False
    return True


#: Files that hold no exact number of the table; everything else that ``--out`` writes does, pictures to a pixel.
PUBLISHABLE = ("report.html",)


def tell_files(out: Path | None, owned: tuple[str, ...], solutions: Sequence[Solution] = ()) -> None:
    """Say which of its files a command has left in the folder of ``--out``, and which of them are confidential.

    Args:
        out: What the user gave.
        owned: The files that the command may leave there.
        solutions: What was found: why there is no certificate, where everything is proved without, is said, too.
    """
    _tell_slowness(solutions)
    if out is None:
        return
    written = [name for name in owned if (out / name).exists()]
    confidential = [name for name in written if name not in PUBLISHABLE]
    say(f"Files are in {out}: {', '.join(written)}")
    if confidential:
        say(f"Confidential, they hold the exact table (only you may read them): {', '.join(confidential)}")
    if solutions and (why := _needs_no_certificate(solutions)):
        say(f"No certificate is written, and none is needed: {why}.")


def _tell_slowness(solutions: Sequence[Solution]) -> None:
    """Say what compiled kernels bring where their want was felt: without them guarded searches run on programs."""
    from privfunnel.infra.jit import compiles

    took = sum(s.seconds for s in solutions if not s.guards.plain)
    # Seconds of searching after which it is worth saying how to be faster.
    if took > 5.0 and not compiles():
        say(
            f"The search took {took:.0f} s without compiled kernels; with them it takes about a twentieth: pip install "
            "'privfunnel[fast]'."
        )


def _needs_no_certificate(solutions: Sequence[Solution]) -> str:
    """Why everything is proved without a certificate; an empty text where it is not."""
    from privfunnel.certificate.answer import Status

    if any(s.certificate is not None or s.status is not Status.OPTIMAL for s in solutions):
        return ""
    if all(s.bound_source == "zero" for s in solutions):
        return "leakage is never negative"
    return "the bounds follow from the table alone, and leakage is never negative"


@contextmanager
def progress_on_terminal(title: str, *, quiet: bool = False) -> Iterator[Listener | None]:
    """A listener that draws a progress bar on stderr, or None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(
        *columns, TextColumn("{task.fields[news]}"), console=console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(title, total=None, news="")

        def listen(news: Progress) -> None:
            parts = [news.message]
            if news.value is not None:
                parts.append(f"leakage {news.value:.6f}")
            if news.bound is not None:
                parts.append(f"proved ≥ {news.bound:.6f}")
            bar.update(
                task, completed=news.done, total=news.total or None, news="  ".join(filter(None, parts))
            )

        yield listen
