"""Read the Sphinx roles of the docstrings, such as ``:func:`solve```, as links while the site is built.

An extension of griffe, which mkdocstrings uses to collect docstrings; named in ``zensical.toml``.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)`")


def target(obj: griffe.Object, name: str) -> str:
    """The full name that ``name`` has in the docstring of ``obj``."""
    if name.startswith("privfunnel."):
        return name
    scope = obj if obj.is_class or obj.is_module else obj.parent
    try:
        return obj.resolve(name) if scope is None else scope.resolve(name)
    except griffe.NameResolutionError:
        return name


def markdown(text: str, obj: griffe.Object) -> str:
    """``text`` with a link for every role whose target is on the site, and code for the others."""

    def link(match: re.Match[str]) -> str:
        shown = match[2].rpartition(".")[2] if match[1] else match[2].removeprefix("privfunnel.")
        return f'<autoref identifier="{target(obj, match[2])}" optional><code>{shown}</code></autoref>'

    return ROLE.sub(link, text)


class Roles(griffe.Extension):
    """Rewrites the docstring of every object."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called once an object and its members are known."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value, obj)
