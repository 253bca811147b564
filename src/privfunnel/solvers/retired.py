"""Options by their former names: still accepted, with a warning that says today's.

Every way to configure a solver ends in a call of its class: ``pf.AEM(...)``, and the registry behind
``pf.solve(..., solver="aem", ...)`` and ``--option``. The metaclass :class:`Configured` stands at that door, so that a
class only lists what changed.
"""

from __future__ import annotations

import math
import warnings
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any

from privfunnel.errors import InvalidInputError, RetiredOptionWarning

#: The former option that chose between the published and the repaired class of a method.
VARIANT = "variant"


class Configured(ABCMeta):
    """Classes whose keyword arguments may carry former names: see the four tables of ``base.Solver``."""

    def __call__(cls, **options: Any) -> Any:
        """Make an instance from options under today's or former names."""
        chosen, options = modernise(cls, options)
        return super(Configured, chosen).__call__(**options)


def modernise(cls: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The class and options of today that a class with possibly former options stands for, with a warning for each.

    Raises:
        InvalidInputError: An option is given under both names, or a variant is not known.
    """
    if VARIANT in options and cls.variants:
        cls = _variant(cls, options[VARIANT])
    current: dict[str, Any] = {}
    for name, value in options.items():
        if name == VARIANT and cls.variants:
            continue
        if name in cls.dropped:
            _warn(f"{cls.name}: the option {name!r} is gone and was ignored: {cls.dropped[name]}")
            continue
        new = cls.renamed.get(name, name)
        if new != name:
            if new in options:
                raise InvalidInputError(
                    f"{cls.name}: {name!r} is the former name of {new!r}: give one of them"
                )
            _warn(f"{cls.name}: the option {name!r} is now called {new!r}")
        if value is None and new in cls.formerly_none:
            remedy = "written math.inf" if new == "time_limit" else "said by leaving it out"
            _warn(f"{cls.name}: {name}=None is now {remedy}")
            if new != "time_limit":
                continue
            value = math.inf
        current[new] = value
    return cls, current


def _variant(cls: Any, value: object) -> Any:
    if value not in cls.variants:
        listed = " or ".join(repr(variant) for variant in cls.variants)
        raise InvalidInputError(f"{cls.name}: variant={value!r} is not known: choose {listed}")
    chosen = cls.variants[value]
    _warn(f"{cls.name}: variant={value!r} is now the solver {chosen.name!r} (pf.{chosen.__name__})")
    return chosen


def _warn(message: str) -> None:
    warnings.warn(message, RetiredOptionWarning, stacklevel=4)
