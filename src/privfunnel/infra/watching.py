"""News from long runs, and ``progress=True``: what one is doing, as a line in a terminal or a bar in a notebook."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Progress:
    """News from a long run.

    Attributes:
        done: Units of work finished.
        total: Units of work in all, or 0 where it is not known.
        value: Best leakage so far at the point in work, in nats, or None.
        bound: Best proved bound so far, in nats, or None.
        message: What is being done, for people.
    """

    done: int = 0
    total: int = 0
    value: float | None = None
    bound: float | None = None
    message: str = ""


#: Called with news now and then; whatever it raises (KeyboardInterrupt, say) stops the run.
Listener = Callable[[Progress], None]


def counted(progress: Listener | None, done: int, total: int) -> Listener | None:
    """A listener that passes news on with how many points of a curve are done; None where nobody listens."""
    if progress is None:
        return None
    return lambda news: progress(replace(news, done=done, total=total))


#: Seconds between two updates, however often a solver has news.
BETWEEN = 0.2


@contextlib.contextmanager
def watching(progress: Listener | bool | None) -> Iterator[Listener | None]:
    """The listener that was asked for: the caller's own, none, or for True one that shows the news.

    In a notebook a bar is shown in the cell and replaced as the run goes on; elsewhere a line on stderr.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    show, end = _in_notebook() or _on_terminal()
    last = 0.0

    def listen(news: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= BETWEEN:
            last = now
            show(news)

    try:
        yield listen
    finally:
        end()


def words(news: Progress) -> str:
    """News in a line."""
    parts = [f"{news.done} of {news.total}" if news.total else "", news.message]
    if news.value is not None:
        parts.append(f"leakage {news.value:.6f}")
    if news.bound is not None:
        parts.append(f"proved ≥ {news.bound:.6f} nats")
    return ", ".join(filter(None, parts))


Display = tuple[Callable[[Progress], None], Callable[[], None]]


def _on_terminal() -> Display:
    width = 0

    def show(news: Progress) -> None:
        nonlocal width
        line = words(news)
        sys.stderr.write(f"\r{line:<{width}}")
        sys.stderr.flush()
        width = len(line)

    def end() -> None:
        if width:
            sys.stderr.write("\r" + " " * width + "\r")
            sys.stderr.flush()

    return show, end


def _in_notebook() -> Display | None:
    """A display that a notebook's cell can replace, or None outside a notebook."""
    ipython: Any = sys.modules.get("IPython")  # not imported by whoever has no notebook
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    display = import_module("IPython.display")
    handle = display.display(display.HTML(""), display_id=True)

    def show(news: Progress) -> None:
        at = f' value="{news.done}" max="{news.total}"' if news.total else ""
        handle.update(display.HTML(f"<progress{at}></progress> <small>{escape(words(news))}</small>"))

    def end() -> None:
        handle.update(display.HTML(""))

    return show, end
