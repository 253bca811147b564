"""Who may talk to the explorer: the gate in front of every request.

The page works on private data, so it is closed to everything but the browser that was handed its address:

- a random token in the address is traded, once, for a cookie with a secret of its own that scripts cannot read
  (``HttpOnly``) and other sites cannot send (``SameSite=Strict``), and disappears from the address bar;
- the address never stands on a command line, which every user of the machine can read: the browser is started on a
  file that only this user can open, and that file leads to the address;
- the ``Host`` header must be one we serve, so that a foreign name rebound to 127.0.0.1 gets nothing;
- a request that changes something must come from our own origin, and no request may come from another one;
- who is refused is hung up on, and who sends no request in time as well (:mod:`.connections`);
- the answer forbids the page to load or send anything anywhere else.
"""

from __future__ import annotations

import hmac
import html
import secrets
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privfunnel.infra.storage import PRIVATE, write_text

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_LOCKED = "Open the address that `privfunnel explore` printed: it carries the key to this page.\n"
_USED = (
    "This address has been used, or is not right: it opens the page once. Go on in the browser that opened it, "
    "or stop `privfunnel explore` and start it again.\n"
)


def new_token() -> str:
    """Return a fresh secret of 256 bits that is safe in a URL."""
    return secrets.token_urlsafe(32)


def allowed_hosts(host: str, port: int, extra: Iterable[str] = ()) -> frozenset[str]:
    """Return the values of the ``Host`` header that are ours.

    Args:
        host: The address the server is bound to.
        port: Its port.
        extra: Further names under which the page may be reached.
    """
    names = {"127.0.0.1", "localhost", "[::1]", *extra}
    if host not in {"0.0.0.0", "::", ""}:  # a wildcard is not a name anyone asks for
        names.add(f"[{host}]" if ":" in host else host)
    with_port = {f"{name}:{port}".lower() for name in names}
    return frozenset(with_port | {name.lower() for name in names} if port == 80 else with_port)


@dataclass(frozen=True)
class Gate:
    """ASGI middleware that lets only the invited browser in.

    Attributes:
        app: The application behind the gate.
        hosts: Accepted values of the ``Host`` header, port included.
        cookie: Name of the cookie; it carries the port, since cookies are shared by all ports of a host.
    """

    app: ASGIApp
    hosts: frozenset[str]
    cookie: str = "privfunnel"
    #: Tokens that nobody has used yet; each of them opens the page once.
    _tokens: set[str] = field(default_factory=set, init=False, repr=False)
    #: Secrets of the cookies handed out. A cookie goes to every port of the host: it must not give the token away.
    _keys: list[str] = field(default_factory=list, init=False, repr=False)

    def invite(self) -> str:
        """Return a new token: whoever comes with it first is let in, and nobody after that."""
        token = new_token()
        self._tokens.add(token)
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refuse(scope)
        handler: ASGIApp = self.app if refusal is None else refusal
        await handler(scope, receive, _with_headers(send))

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer for a request that goes no further, or None to let it pass."""
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self.hosts:
            return _refusal("This host name is not served here.\n", 421)
        if not self._same_origin(scope, headers):
            return _refusal("Requests from other sites are refused.\n", 403)
        offered = None
        if scope["path"] == "/" and scope["method"] == "GET":
            offered = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [None])[0]
            if offered is not None and self._spend(offered):
                # A page of our own that leads on, not a redirect: a browser that came from the file, or from a link,
                # would not send a strict cookie along a redirect.
                answer = HTMLResponse(leading_to("/"))
                self._keys.append(new_token())
                answer.set_cookie(self.cookie, self._keys[-1], httponly=True, samesite="strict", path="/")
                return answer
        shown = self._cookie_value(headers)
        if not any(_equal(shown, key) for key in self._keys):
            return _refusal(_LOCKED if offered is None else _USED, 403)
        return None

    def _spend(self, offered: str) -> bool:
        """Whether this is a token that nobody has used; from now on it is used."""
        found = [token for token in self._tokens if _equal(offered, token)]
        self._tokens.difference_update(found)
        return bool(found)

    def _same_origin(self, scope: Scope, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is not None:
            scheme, _, name = origin.partition("://")
            return scheme in {"http", "https"} and name.lower() in self.hosts
        if scope["method"] not in _SAFE_METHODS:
            return False  # every browser names the origin of a request that changes something
        site = headers.get("sec-fetch-site", "none")
        # Following a link to the front page is harmless: without the token it shows nothing.
        return site in {"none", "same-origin"} or (
            scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        )

    def _cookie_value(self, headers: Headers) -> str:
        return cookie_parser(headers.get("cookie", "")).get(self.cookie, "")


def _refusal(words: str, status: int) -> Response:
    """An answer after which the connection is closed: who has no key is not waited for, not even for a body."""
    return PlainTextResponse(words, status_code=status, headers={"connection": "close"})


def leading_to(address: str) -> str:
    """Return a small page that goes on to an address by itself, without scripts."""
    there = html.escape(address, quote=True)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>privfunnel explorer</title>'
        f'<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={there}"></head>'
        f'<body><p><a href="{there}">Open the explorer</a></p></body></html>\n'
    )


def write_invitation(folder: Path, address: str) -> Path:
    """Write a file that leads to an address, for this user alone, and return its path.

    The file has a name that cannot be guessed and the mode 0600, and ``folder`` is private: a command line that names
    it tells other users nothing.
    """
    path = folder / f"open-{secrets.token_urlsafe(16)}.html"
    write_text(path, leading_to(address), force=False, mode=PRIVATE)
    return path


def _equal(offered: str, secret: str) -> bool:
    """Whether a secret was given, in a time that does not tell how much of it was right."""
    return hmac.compare_digest(offered.encode(), secret.encode())


def _with_headers(send: Send) -> Send:
    """Add the protective headers to whatever answer goes out."""

    async def wrapped(message: MutableMapping[str, Any] | Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
