"""Certificates with one thing changed, as somebody would forge them."""

from __future__ import annotations

import dataclasses
from typing import Any

from privfunnel.certificate import Certificate

_CLAIM = {"constant", "disclosure", "utility", "distortion", "weights"}
_SCOPE = {"guards", "zero", "tasks", "costs", "invariant", "quantity"}


def changed(thing: Any, **changes: Any) -> Any:
    """A dataclass with some fields changed; of a certificate also those of its body, of its claim and of its scope.

    ``intercept`` and ``slope`` are those of its line: the claim's, with the sign that they are told with.
    """
    if not isinstance(thing, Certificate):
        return dataclasses.replace(thing, **changes)
    parts: dict[str, dict[str, Any]] = {"frame": {}, "body": {}, "claim": {}, "scope": {}}
    own = {field.name for field in dataclasses.fields(thing.body)}
    for name, value in changes.items():
        if name == "intercept":
            parts["claim"]["constant"] = value if thing.intercept == thing.claim.constant else -value
        elif name == "slope":
            parts["claim"] |= _slope(thing, value)
        else:
            part = (
                "body"
                if name in own
                else "claim"
                if name in _CLAIM
                else "scope"
                if name in _SCOPE
                else "frame"
            )
            parts[part][name] = value
    scope = dataclasses.replace(thing.claim.scope, **parts["scope"])
    claim = dataclasses.replace(thing.claim, scope=scope, **parts["claim"])
    body = dataclasses.replace(thing.body, **parts["body"])
    return dataclasses.replace(thing, **{"claim": claim, "body": body, **parts["frame"]})


def _slope(proof: Certificate, value: float) -> dict[str, Any]:
    scope = proof.claim.scope
    if scope.costs is not None:
        return {"distortion": value}
    if scope.tasks is not None:
        return {"utility": value}
    if scope.quantity == "guesses":
        return {"weights": 0.0 * proof.claim.weights + value}
    return {"disclosure": -value if proof.claim.turned else value}
