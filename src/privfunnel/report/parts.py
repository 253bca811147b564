"""Pieces of HTML that every part of a report is made of; text from outside is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, kw_only=True)
class Section:
    """A further section, e.g. an audit: a heading, sentences, and tables of texts.

    Attributes:
        title: The heading.
        words: Paragraphs.
        tables: Each a caption, the column heads, and rows of texts.
    """

    title: str
    words: Sequence[str] = ()
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = ()


def section(found: Section) -> str:
    """Return a section with its words and tables."""
    tables = "".join(table(*each) for each in found.tables)
    return f"<section><h2>{escape(found.title)}</h2>{paragraphs(found.words)}{tables}</section>"


def paragraphs(words: Iterable[str]) -> str:
    """Return one paragraph a text."""
    return "".join(f"<p>{escape(text)}</p>" for text in words)


def points(words: Iterable[str]) -> str:
    """Return a list, one point a text."""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in words)}</ul>"


def fact(name: str, value: str, more: str) -> str:
    """Return one number of a ``<dl class="facts">``."""
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; a head that starts with ``#`` marks a column of numbers."""
    number = [head.startswith("#") for head in heads]

    def cell(tag: str, text: str, j: int) -> str:
        return f"<{tag}{' class=num' if number[j] else ''}>{escape(text)}</{tag}>"

    top = "".join(cell("th", head.removeprefix("#"), j) for j, head in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell('td', text, j) for j, text in enumerate(row))}</tr>" for row in rows)
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    inner = f"{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="full">{inner}</table></div>'
