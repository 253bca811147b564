"""Wrap the prose of a generated page, so that its source can be read, and compared line by line, like one typed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

WIDTH = 116
ITEM = re.compile(r"\s*(?:[-*•]|\d+\.) ")
INDENT = re.compile(r" *")
#: What begins a block that is left as it is: code, tables, headings, figures, quotations, HTML.
FIXED = ("    ", "|", "#", "!", ">", "<")


def blocks(text: str) -> Iterator[list[str]]:
    """The lines of ``text`` in blocks: a paragraph, a table, a fenced block with its fences, an empty line."""
    block: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if fenced or line.lstrip().startswith("```"):
            if not fenced and block:
                yield block
                block = []
            block.append(line)
            if line.lstrip().startswith("```"):
                fenced = not fenced
                if not fenced:
                    yield block
                    block = []
        elif not line.strip() or (block and line.startswith("|") != block[0].startswith("|")):
            if block:
                yield block
            block = [line]
            if not line.strip():
                yield block
                block = []
        else:
            block.append(line)
    if block:
        yield block


def wrapped(text: str) -> str:
    """``text`` with its paragraphs and list items filled to :data:`WIDTH`; code, tables and headings as they were."""
    lines: list[str] = []
    for block in blocks(text):
        if block[0].startswith(FIXED) or block[0].lstrip()[:3] in {"", "```"}:
            lines += block
            continue
        items: list[list[str]] = []
        for line in block:
            if not items or ITEM.match(line):
                items.append([line])
            else:
                items[-1].append(line)
        for first, *rest in items:
            mark = ITEM.match(first) or INDENT.match(first)
            head = mark[0] if mark else ""
            lines += textwrap.wrap(
                " ".join([first[len(head) :].strip(), *(line.strip() for line in rest)]), WIDTH,
                initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
    return "\n".join(lines)
