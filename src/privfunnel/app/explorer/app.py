"""The explorer's web application: routes only. Work is done by :mod:`.jobs` in other processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from privfunnel.algorithms import registry
from privfunnel.app.explorer import asking, reading
from privfunnel.app.explorer.examples import EXAMPLES
from privfunnel.app.explorer.process import JobError, JobStoppedError, Limits
from privfunnel.app.explorer.security import Gate
from privfunnel.app.explorer.sessions import Session, Sessions
from privfunnel.app.explorer.workspace import ROWS
from privfunnel.errors import InvalidInputError, PrivFunnelError
from privfunnel.infra.storage import PRIVATE, Document
from privfunnel.measures import MEASURES
from privfunnel.model.guarantees import GUARANTEES

WATCH_SECONDS = 60.0
LONGEST_SEARCH = 1000  # characters
MEDIA = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".py": "text/x-python",
}


@dataclass(frozen=True)
class Settings:
    """How the explorer was started.

    Attributes:
        hosts: Accepted ``Host`` headers.
        cookie: Name of the cookie.
        given: A table named on the command line, opened in place, or None.
        example: An example named on the command line, or None.
        max_upload: Largest upload in bytes.
        limits: What the working processes of all tabs may use.
    """

    hosts: frozenset[str]
    cookie: str = "privfunnel"
    given: Path | None = None
    example: str | None = None
    max_upload: int = 256 << 20
    limits: Limits = field(default_factory=Limits)


Handler = Callable[[Request], Awaitable[Response]]


def create(settings: Settings, sessions: Sessions) -> Gate:
    """Build the application behind its gate; the sessions end when it does."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(_watch(sessions))
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.to_thread(sessions.shutdown)

    assets = resources.files("privfunnel")
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/favicon.ico", _icon),
            Mount("/static", StaticFiles(directory=str(assets / "app" / "explorer" / "static"))),
            Mount("/assets", StaticFiles(directory=str(assets / "report" / "assets"))),
            Route("/api/hello", _hello),
            Route("/api/sessions", _plain(_open), methods=["POST"]),
            Route("/api/sessions/{session}/upload", _in_session(_upload), methods=["POST"]),
            Route("/api/sessions/{session}/example", _in_session(_example), methods=["POST"]),
            Route("/api/sessions/{session}/given", _in_session(_given), methods=["POST"]),
            Route("/api/sessions/{session}/roles", _in_session(_roles), methods=["POST"]),
            Route("/api/sessions/{session}/units", _in_session(_units), methods=["POST"]),
            Route("/api/sessions/{session}/trace", _in_session(_trace), methods=["POST"]),
            Route("/api/sessions/{session}/refine", _in_session(_refine), methods=["POST"]),
            Route("/api/sessions/{session}/cancel", _in_session(_cancel), methods=["POST"]),
            Route("/api/sessions/{session}/stop", _in_session(_stop), methods=["POST"]),
            Route("/api/sessions/{session}/close", _in_session(_close), methods=["POST"]),
            Route("/api/sessions/{session}/events", _in_session(_events)),
            Route("/api/sessions/{session}/news", _in_session(_news)),
            Route("/api/sessions/{session}/curve", _in_session(_curve)),
            Route("/api/sessions/{session}/point", _in_session(_point)),
            Route("/api/sessions/{session}/beside", _in_session(_beside)),
            Route("/api/sessions/{session}/audit", _in_session(_audit)),
            Route("/api/sessions/{session}/ledger", _in_session(_ledger)),
            Route("/api/sessions/{session}/search", _in_session(_search)),
            Route("/api/sessions/{session}/export/{name}", _in_session(_prepare), methods=["POST"]),
            Route("/api/sessions/{session}/export/{name}", _in_session(_export)),
        ],
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.sessions = sessions
    return Gate(app, settings.hosts, settings.cookie)


async def _watch(sessions: Sessions) -> None:
    """Look now and then for pages that are gone."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        await sessions.close_silent()


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status_code=status)


def _plain(handler: Handler) -> Handler:
    """Turn errors into JSON that the page shows as it is."""

    @wraps(handler)
    async def wrapped(request: Request) -> Response:
        try:
            return await handler(request)
        except (JobError, JobStoppedError) as error:
            # The request was in order, the data was not: that is an answer for the page, not a failure of HTTP, which
            # a browser would write to its console.
            return _error(str(error), 200)
        except PrivFunnelError as error:
            return _error(str(error), 400)

    return wrapped


def _in_session(handler: Callable[[Request, Session], Awaitable[Response]]) -> Handler:
    """Find the tab's session, or say that it is gone."""

    @_plain
    async def wrapped(request: Request) -> Response:
        session = _sessions(request).get(request.path_params["session"])
        if session is None:
            return _error("this tab's data is no longer there: reload the page", 410)
        return await handler(request, session)

    return wrapped


# --- pages ----------------------------------------------------------------------------------------------------------


async def _page(_: Request) -> Response:
    page = resources.files("privfunnel.app.explorer").joinpath("static", "index.html")
    return Response(page.read_text("utf-8"), media_type="text/html")


async def _icon(_: Request) -> Response:
    """The icon under the name that browsers ask for unasked, on pages without a link to it: a shown file, say."""
    icon = resources.files("privfunnel.app.explorer").joinpath("static", "icon.svg")
    return Response(icon.read_bytes(), media_type="image/svg+xml")


async def _hello(request: Request) -> Response:
    settings = _settings(request)
    return JSONResponse(
        {
            "max_upload": human_size(settings.max_upload),
            "max_bytes": settings.max_upload,
            "given": settings.given is not None or settings.example is not None,
            "examples": [{"name": e.name, "title": e.title, "about": e.about} for e in EXAMPLES.values()],
            "solvers": list(registry.names()),
            "measures": [
                {"name": each.name, "title": each.title, "about": each.about, "information": each.in_nats}
                for each in MEASURES.values()
            ],
            "guarantees": [
                {"name": each.name, "title": each.title, "example": each.example}
                for each in GUARANTEES.values()
            ],
        }
    )


def human_size(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size / 2**30:.3g} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"


async def _open(request: Request) -> Response:
    session = await _sessions(request).open()
    session.front.prepare()
    return JSONResponse({"id": session.id})


async def _close(request: Request, session: Session) -> Response:
    await _sessions(request).close(session.id)
    return Response(status_code=204)


# --- table ----------------------------------------------------------------------------------------------------------


async def _upload(request: Request, session: Session) -> Response:
    settings = _settings(request)
    name = shown_name(request.query_params.get("name", ""))
    too_large = (
        f"{name} is larger than {human_size(settings.max_upload)}: start `privfunnel explore FILE` instead"
    )
    if int(request.headers.get("content-length") or 0) > settings.max_upload:
        return _error(too_large, 413)
    read = _reading(request)
    folder = session.new_upload()  # until it is ended, no other upload removes it
    target = folder / file_name(name)
    size = 0
    kept = False
    try:
        with open(target, "xb", opener=lambda path, flags: os.open(path, flags, PRIVATE)) as file:
            async for chunk in request.stream():
                size += len(chunk)
                if size > settings.max_upload:
                    return _error(too_large, 413)
                file.write(chunk)
        await session.cancel()
        found = await _loaded(
            session, session.ask("inspect", path=str(target), name=name, read=read), upload=folder
        )
        kept = True
        return JSONResponse(found)
    except ClientDisconnect:
        return _error("the upload was interrupted: try again", 400)
    finally:
        session.end_upload(folder)
        if not kept:  # what could not be read is no table of this tab's: the one before it stays
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _reading(request: Request) -> Document:
    """Return how the file is to be read."""
    try:
        asked = json.loads(request.query_params.get("read", "{}"))
    except (ValueError, RecursionError):
        asked = None
    return reading.checked(asked)


def shown_name(name: str) -> str:
    """Return the last part of an upload's name, on one line: it goes into messages, commands and reports."""
    last = Path(name.replace("\\", "/")).name
    return "".join(c for c in last if unicodedata.category(c) not in {"Cc", "Cs", "Zl", "Zp"}) or "table.csv"


def file_name(name: str) -> str:
    """Return a name that is safe for a file and still the person's: messages show it."""
    return re.sub(r"[^\w .()+-]", "_", name)[-100:].lstrip(". ") or "table.csv"


async def _example(request: Request, session: Session) -> Response:
    data = await asking.body(request)
    await session.cancel()
    return JSONResponse(await _loaded(session, session.ask("example", name=str(data.get("name")))))


async def _given(request: Request, session: Session) -> Response:
    given, example = _settings(request).given, _settings(request).example
    if example is not None:
        return JSONResponse(await _loaded(session, session.ask("example", name=example)))
    if given is None:
        raise InvalidInputError("no table was named on the command line: drop a file or pick an example")
    return JSONResponse(
        await _loaded(
            session, session.ask("inspect", path=str(given), name=given.name, read=_reading(request))
        )
    )


async def _loaded(session: Session, table: Awaitable[Any], upload: Path | None = None) -> Any:
    """Wait for a table to be opened; uploads before it are removed then."""
    found = await table
    session.prepared.clear()
    await asyncio.to_thread(session.forget_uploads, upload)
    session.tracer.prepare()  # its imports are done by the time the roles are
    return found


async def _roles(request: Request, session: Session) -> Response:
    data = await asking.body(request)
    bins = data.get("bins", {})
    if not isinstance(bins, dict) or not all(isinstance(rule, dict) for rule in bins.values()):
        raise InvalidInputError("bins is not a table of rules: reload the page and try again")
    private, public = asking.texts(data, "private"), asking.texts(data, "public")
    rows = {name: data.get(name, "") for name in ROWS}
    for name, said in rows.items():
        if not isinstance(said, str):
            raise InvalidInputError(f"{name} is not a text: reload the page and try again")
    await session.cancel()
    session.prepared.clear()
    return JSONResponse(await session.ask("roles", private=private, public=public, bins=bins, **rows))


# --- curve ----------------------------------------------------------------------------------------------------------


async def _trace(request: Request, session: Session) -> Response:
    """Trace a new curve."""
    data = await asking.body(request)
    await session.begin(**asking.traced(data), guarded=asking.guarded(data))
    return JSONResponse({}, status_code=202)


async def _refine(request: Request, session: Session) -> Response:
    """Add points to the curve: one at the disclosure ``at``, or some where the least is known."""
    data = await asking.body(request)
    at = data.get("at")
    if at is not None and not asking.is_finite(at):
        raise InvalidInputError(f"{at!r} is not a disclosure: choose a point on the curve")
    await session.begin(**asking.traced(data), refine=True, at=at)
    return JSONResponse({}, status_code=202)


async def _cancel(_: Request, session: Session) -> Response:
    return JSONResponse({"cancelled": await session.cancel()})


async def _stop(_: Request, session: Session) -> Response:
    return JSONResponse({"stopped": await session.stop()})


async def _events(request: Request, session: Session) -> Response:
    stream = session.stream
    if stream is None:
        return Response(status_code=204)  # tells an EventSource not to come back
    try:
        start = int(request.headers.get("last-event-id", "-1")) + 1
    except ValueError:
        start = 0
    if stream.closed and start >= len(stream.events):
        return Response(status_code=204)

    async def lines() -> AsyncIterator[str]:
        async for number, event in stream.read(start):
            yield f"id: {number}\ndata: {json.dumps(event)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


async def _news(_: Request, session: Session) -> Response:
    """Say how far the task is that the page waits for: ``done`` of ``total`` and a message, or nothing."""
    return JSONResponse(session.news)


async def _units(request: Request, session: Session) -> Response:
    data = await asking.body(request)
    return JSONResponse(await session.ask("units", units=str(data.get("units"))))


async def _curve(_: Request, session: Session) -> Response:
    return JSONResponse(await session.ask("summary"))


async def _point(request: Request, session: Session) -> Response:
    width = asking.number(request, "width")
    return JSONResponse(
        await session.ask(
            "point",
            disclosure=asking.number(request, "disclosure"),
            leakage=asking.number(request, "leakage"),
            width=int(min(max(width or 520.0, 240.0), 1200.0)),
            group=request.query_params.get("group", ""),
            form=asking.form(request),
        )
    )


async def _beside(request: Request, session: Session) -> Response:
    return JSONResponse(await session.compare(disclosure=asking.chosen(request)))


async def _audit(request: Request, session: Session) -> Response:
    form = request.query_params.get("form", "")
    return JSONResponse(await session.audit(disclosure=asking.chosen(request), form=form))


async def _ledger(request: Request, session: Session) -> Response:
    return JSONResponse(await session.ask("ledger", disclosure=asking.chosen(request)))


async def _search(request: Request, session: Session) -> Response:
    text = request.query_params.get("text", "")[:LONGEST_SEARCH]
    return JSONResponse(await session.ask("search", disclosure=asking.chosen(request), text=text))


async def _prepare(request: Request, session: Session) -> Response:
    """Write a download, so that the page can show that this takes time, and why it fails."""
    await session.export(request.path_params["name"], asking.chosen(request), asking.form(request))
    return JSONResponse({})


async def _export(request: Request, session: Session) -> Response:
    name = request.path_params["name"]
    asked = (name, asking.chosen(request), asking.form(request))
    path = session.prepared.pop(asked, None)
    try:
        if path is None:
            await session.export(*asked)
            path = session.prepared.pop(asked)
    except (JobError, JobStoppedError) as error:
        return _error(str(error), 400)  # a download has no page to show the message
    return FileResponse(
        path,
        media_type=MEDIA.get(path.suffix, "application/octet-stream"),
        filename=name,
    )
