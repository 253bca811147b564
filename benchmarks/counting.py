"""How often compiled loops call their parts: counted by running the callers as plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

#: A function as a module's own code finds it: the module, and its name there.
Place = tuple[ModuleType, str]


@contextmanager
def counting(parts: Iterable[Place], callers: Iterable[Place]) -> Iterator[Counter[str]]:
    """Count calls of ``parts``, and of the ``callers`` between them and the function that is run.

    Parts stay compiled, callers are interpreted. Run the function itself by its ``py_func``.
    """
    count: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            count[name] += 1
            return function(*arguments)

        return call

    with ExitStack() as patches:
        for module, name in parts:
            patches.enter_context(mock.patch.object(module, name, counted(name, getattr(module, name))))
        for module, name in callers:
            function = getattr(module, name).py_func
            patches.enter_context(mock.patch.object(module, name, counted(name, function)))
        yield count
