"""Whoever has no key cannot hold the page up, fill its connections, or make it write to the terminal."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator

import pytest

for module in ("starlette", "uvicorn", "httpx"):
    pytest.importorskip(module, reason="the explorer and its test client need them")

from explorer_server import Server, running  # noqa: E402
from privfunnel.app.explorer import connections  # noqa: E402

#: What strangers may send: nothing, half a head, half a body, no HTTP at all, and what would be another protocol.
HALVES = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a head that never ends": b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000,
    "half a body": b"POST /api/sessions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 1000\r\n\r\nhalf",
    "a body in broken pieces": b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzzzz\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with running() as server:
        yield server


def call(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=120.0)


def heard_until_the_end(stranger: socket.socket) -> bytes:
    """What the server says until it hangs up."""
    heard = b""
    with contextlib.suppress(ConnectionError):
        while more := stranger.recv(65536):
            heard += more
    return heard


@pytest.mark.parametrize("what", HALVES)
def test_who_sends_no_request_is_hung_up_on_without_a_word(
    server: Server,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    # The server writes where the terminal was when it began: what it would write is looked for in its log.
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    with call(server) as stranger:
        stranger.sendall(HALVES[what].replace(b"{port}", str(server.port).encode()))
        heard = heard_until_the_end(stranger)
    assert not heard or heard.split()[1] in (b"400", b"403", b"421"), heard
    with server.client() as client:
        assert client.get("/api/hello").status_code == 200
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_a_second_head_has_a_deadline_too(server: Server) -> None:
    with server.client() as client:
        cookie = f"privfunnel={client.cookies['privfunnel']}"
        asked = f"GET /api/hello HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\ncookie: {cookie}\r\n\r\n"
    with call(server) as invited:
        invited.sendall(asked.encode())
        assert invited.recv(65536).startswith(b"HTTP/1.1 200")
        invited.sendall(b"GET / HT")
        heard_until_the_end(invited)


def test_a_crowd_that_says_nothing_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """They never meet a deadline here: the newcomer takes the place of whoever has waited longest."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 3600.0)
    with running() as server, contextlib.ExitStack() as crowd, server.client() as client:
        strangers = [crowd.enter_context(call(server)) for _ in range(3 * connections.MOST_WAITING)]
        with server.client(invited=False) as late:
            assert late.get("/api/hello").status_code == 403
        assert client.get("/api/hello").status_code == 200
        for stranger in strangers[:10]:
            assert heard_until_the_end(stranger) == b""
        monkeypatch.setattr(connections, "MOST", 0)
        with call(server) as more:
            assert heard_until_the_end(more) == b""
    assert capfd.readouterr() == ("", "")


def test_open_tabs_do_not_hold_up_the_end() -> None:
    """A stream of events that nobody closes."""
    with contextlib.ExitStack() as tabs:
        with running() as server:
            client = tabs.enter_context(server.client())
            origin = {"origin": server.origin}
            tab = client.post("/api/sessions", headers=origin).json()["id"]
            here = f"/api/sessions/{tab}"
            assert client.post(f"{here}/example", headers=origin, json={"name": "heart-failure"}).is_success
            roles = {"private": ["sex", "death"], "public": ["smoking", "diabetes"]}
            assert client.post(f"{here}/roles", headers=origin, json=roles).is_success
            assert client.post(f"{here}/trace", headers=origin, json={"points": 200}).status_code == 202
            events = tabs.enter_context(client.stream("GET", f"{here}/events"))
            assert events.status_code == 200
            (session,) = server.sessions._open.values()
            assert session.stream is not None
        # The stream was ended in order: it was not cut off where the patience of the server had an end.
        assert session.stream.closed
        list(events.iter_lines())  # raises where it was cut off
