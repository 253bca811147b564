"""The objectives, one file a method, each from its paper; :data:`METHODS` finds them by name."""

from __future__ import annotations

from privfunnel.infra.storage import Document
from privfunnel.learning.deep.codes import code_from
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods.alr import AdversarialRepresentation
from privfunnel.learning.deep.methods.base import Batch, Method, Player, Variables
from privfunnel.learning.deep.methods.club import ComplexityLeakageUtility
from privfunnel.learning.deep.methods.dca import DifferenceOfConvexFunnel
from privfunnel.learning.deep.methods.dvpf import DeepVariationalFunnel
from privfunnel.learning.deep.methods.ppan import AdversarialNetworks
from privfunnel.learning.deep.methods.vpaf import ConditionalFunnel

__all__ = ["METHODS", "Batch", "Method", "Player", "Variables", "method_from"]

METHODS: dict[str, type[Method]] = {
    cls.name: cls
    for cls in (
        ConditionalFunnel,
        ComplexityLeakageUtility,
        DeepVariationalFunnel,
        DifferenceOfConvexFunnel,
        AdversarialNetworks,
        AdversarialRepresentation,
    )
}


def method_from(data: Document) -> Method:
    """The method that :meth:`privfunnel.learning.deep.methods.base.Method.to_dict` described."""
    given = dict(data)
    made = METHODS[given.pop("name")]
    layouts = {
        key: None if each is None else Layout(int(each["numbers"]), tuple(each["groups"]))
        for key, each in given.pop("variables").items()
    }
    given["variables"] = Variables(**layouts)  # type: ignore[arg-type]
    given["code"] = code_from(given["code"])
    given["hidden"] = tuple(given["hidden"])
    return made(**given)
