"""What a notebook shows of an object: a small table, escaped, without scripts or styles of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

#: Rows of a table that are shown.
SHOWN = 12


def card(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values under a title."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def grid(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; of many rows, some that are spread evenly, the first and the last among them."""
    last = len(rows) - 1
    places = (
        range(len(rows)) if last < SHOWN else sorted({round(i * last / (SHOWN - 1)) for i in range(SHOWN)})
    )
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in rows[i])}</tr>" for i in places)
    note = f" ({SHOWN} of {len(rows)} rows)" if last >= SHOWN else ""
    caption = f"<caption>{escape(title)}{note}</caption>"
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def listed(title: str, words: Iterable[str]) -> str:
    """Return sentences under a title."""
    return f"<b>{escape(title)}</b><ul>{''.join(f'<li>{escape(text)}</li>' for text in words)}</ul>"


def share(part: float, whole: float) -> str:
    """Return a part as a percentage, or nothing where the whole is nothing."""
    return f" ({100 * part / whole:.1f} %)" if whole > 0.0 else ""
