"""Limits on time and memory, as commands take them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.algorithms.base import Solver

Function = TypeVar("Function", bound=Callable[..., Any])

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def limit_options(function: Function) -> Function:
    """``--time-limit`` and ``--memory-limit``; see :func:`limited` and :func:`memory_limited`."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.option("--time-limit", type=click.FloatRange(0.0, min_open=True), metavar="SECONDS",
                     help="Seconds to wait: solving stops then, with the best that was found and what is proved; "
                     "--option time_limit=SECONDS means the same."),
        click.option("--memory-limit", metavar="SIZE", help="Stop instead of taking more memory, e.g. 2G."),
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def limited(name: str, options: dict[str, Any], seconds: float | None, answers: int = 1) -> Solver:
    """A solver with a time limit for all its answers together, where one was given.

    Args:
        name: The solver.
        options: Its options.
        seconds: The limit, or None.
        answers: How many answers it is going to be asked for.
    """
    from privfunnel.algorithms import registry

    chosen = registry.get(name, **options)
    return (
        chosen if seconds is None else chosen.limited(seconds if chosen.sweeps else seconds / max(answers, 1))
    )


def time_limited(options: dict[str, Any], seconds: float | None) -> tuple[Document, float | None]:
    """The solver's options but its time limit, and the limit: ``--option time_limit=N`` means ``--time-limit N``.

    Where both are given the shorter holds.
    """
    from privfunnel.algorithms.options import check_seconds

    if "time_limit" not in options:
        return options, seconds
    own = options["time_limit"]
    check_seconds("--option", own)
    rest = {name: value for name, value in options.items() if name != "time_limit"}
    return rest, float(own) if seconds is None else min(seconds, float(own))


def chosen(name: str, options: dict[str, Any], seconds: float | None, *, guarded: bool) -> Document:
    """The solver as :func:`privfunnel.solve` is told of it: one with a limit, or its name with all that was given.

    Args:
        name: The solver.
        options: Its options.
        seconds: The limit, or None.
        guarded: Whether attackers know something, columns are published or guarantees are asked for.
    """
    from privfunnel.algorithms.options import SAME_SOLVER

    if not guarded or name not in SAME_SOLVER or seconds is None:
        return {"solver": name, **options} if guarded else {"solver": limited(name, options, seconds)}
    return {"solver": name, **options, "time_limit": seconds}


@contextmanager
def memory_limited(size: str | None) -> Iterator[None]:
    """Let the process take no more private memory than ``--memory-limit`` says, while the block runs.

    Raises:
        InvalidInputError: It needs more, or memory cannot be limited here.
    """
    if size is None:
        yield
        return
    limit = parse_size(size, "--memory-limit")
    try:
        import resource  # absent on Windows
    except ImportError:
        raise InvalidInputError("--memory-limit is not possible on this system: leave it out") from None
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    try:
        yield
    except MemoryError:
        raise InvalidInputError(
            f"this needs more memory than --memory-limit {size}: raise it, or take fewer columns or coarser bins"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def parse_size(text: str, option: str) -> int:
    """Read ``"256M"``, ``"4 GiB"`` or a number of bytes."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"{option} {text!r} is not a size: give e.g. 256M or 4G")
    return int(float(match[1]) * _UNITS[match[2].upper()])
