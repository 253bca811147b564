"""Messages in the words of the page: no options of a command line, no Python, and one unit."""

from __future__ import annotations

import re

from privfunnel.measures import nats_per

_READ = "encoding|delimiter|decimal|dates|null|quote|escape|type|sheet|columns|skip-rows"
#: What a message says for the command line, and what the page says instead.
_INSTEAD = (
    (re.compile(rf"\((?:--(?:{_READ})\b)[^()]*(?:\([^()]*\)[^()]*)*\)"), "(“Change how the file is read”)"),
    (re.compile(r"repeat an earlier draw \(--sticky[^()]*\) or allow more"), "keep less, or allow more"),
    (re.compile(r"\(--person [^()]*\)"), "(“Each row is about”)"),
    (re.compile(r"\(missing='drop', --missing drop\)"), "(“More about the rows”)"),
    (re.compile(r"\(bins=\{.*?\}\)"), "(under Roles)"),
    (re.compile(r"bin (it|them), e\.g\. .*$", re.DOTALL), r"choose bins for \1 under Roles"),
    (re.compile(r"map it with --unseen .*$", re.DOTALL), "load the table again and draw the curve again"),
    (re.compile(r"give its encoding, e\.g\. .*$", re.DOTALL), "save it as UTF-8, or choose its encoding"),
    (
        re.compile(r"it needs a header or --columns, and rows"),
        "it needs a line with the names of its columns, and rows",
    ),
)
#: A part of a sentence that names an option, an argument or an extra to install.
_FOREIGN = re.compile(r"(?<![\w-])--[a-z][\w-]*|\b\w+=\{|\bpip install\b|\bprivfunnel\.\w+|\bPython\b")
#: An amount in both units, and in the unit of computation; the page has one unit.
_BOTH = re.compile(r"\d\S* bits \((\d\S* nats)\)")
_NATS = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?) nats\b")
_PARTS = re.compile(r"(?<=[:;,])\s+")
_REMEDY = "change the table or the roles and try again"


def for_page(message: str, units: str = "bits") -> str:
    """Return a message without anything that only the command line or Python understands.

    What has words of its own for the page gets them; of other messages the parts that name an option go, and where
    that leaves no advice, a general one follows.
    """
    message = _BOTH.sub(r"\1", message)
    message = _NATS.sub(lambda found: f"{float(found[1]) / nats_per(units):.3g} {units}", message)
    for pattern, words in _INSTEAD:
        message = pattern.sub(words, message)
    if not _FOREIGN.search(message):
        return message
    kept = [part for part in _PARTS.split(message) if not _FOREIGN.search(part)]
    told = " ".join(kept).rstrip(" ,;")
    if not told:
        return f"this did not work: {_REMEDY}"
    return f"{told} {_REMEDY}" if told.endswith(":") else told
