"""What the page asks for, read from its requests and checked before any work begins."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.requests import Request

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.infra.storage import Document
from privfunnel.measures import INFORMATION

MAX_JSON = 1 << 20
MAX_DEPTH = 8  # the page's own requests have four


async def body(request: Request) -> Document:
    """Return what a request holds, a JSON object of limited size and depth."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_JSON:
            raise InvalidInputError("the request is too large: reload the page and try again")
    try:
        data = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InvalidInputError("the request is not a JSON object: reload the page and try again")
    if _depth(data) > MAX_DEPTH:
        raise InvalidInputError("the request is nested too deeply: reload the page and try again")
    return data


def is_finite(value: Any) -> bool:
    """Whether a value that came as JSON is a number that a float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def _depth(data: object) -> int:
    """Return how deep lists and objects lie in each other, without a recursion that the data could exhaust."""
    level, depth = [data], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
    return depth


def texts(data: Document, name: str) -> list[str]:
    """Return a list of texts in a request."""
    value = data.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidInputError(f"{name} is not a list of column names: reload the page and try again")
    return value


def number(request: Request, name: str) -> float | None:
    """Return a finite number in the address of a request, or None where it is not there."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInputError(f"{name} = {text!r} is not a number: type one")
    return value


def guarded(data: Document) -> Document:
    """The attackers, published columns, guarantees and the measure that the page asks for, those that say something."""
    asked = data.get("guarded", {})
    if not isinstance(asked, dict) or not isinstance(asked.get("known", []), list):
        raise InvalidInputError("what to guard against cannot be read: reload the page and try again")
    found: Document = {name: texts(asked, name) for name in ("published", "guarantees")}
    found["known"] = [texts({"known": columns}, "known") for columns in asked.get("known", [])]
    found["measure"] = "" if asked.get("measure") in (None, INFORMATION.name) else str(asked["measure"])
    return {name: said for name, said in found.items() if said}


def traced(data: Document) -> Document:
    """Return how many points a curve is to have, and by which solver."""
    return {"points": data.get("points", 20), "solver": str(data.get("solver", "auto"))}


def chosen(request: Request) -> float:
    """Return the chosen disclosure in nats."""
    disclosure = number(request, "disclosure")
    if disclosure is None:
        raise InvalidInputError("no point is chosen: choose one on the curve")
    return disclosure


def form(request: Request) -> str:
    """Return what rows are released as."""
    return request.query_params.get("form", "records")
