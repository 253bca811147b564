"""The gate: only the invited browser gets in, from our own page, under our own name."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for module in ("starlette", "uvicorn", "httpx"):
    pytest.importorskip(module, reason="the explorer and its test client need them")

import httpx  # noqa: E402

from explorer_server import Server, running  # noqa: E402
from privfunnel.app.explorer import app, security  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(max_upload=1000) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client(invited=False) as client:
        yield client


@pytest.fixture
def invited(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def post(client: httpx.Client, path: str, **options: Any) -> httpx.Response:
    """Post as our own page does."""
    return client.post(path, headers={"origin": str(client.base_url).rstrip("/")}, **options)


def test_the_token_is_traded_for_a_cookie_and_leaves_the_address(
    server: Server, client: httpx.Client
) -> None:
    token = server.gate.invite()
    answer = client.get("/", params={"token": token})
    assert answer.status_code == 200
    assert 'content="0; url=/"' in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token not in cookie + answer.text
    page = client.get("/")
    assert page.status_code == 200
    assert token not in page.text


def test_a_token_works_once(server: Server) -> None:
    token = server.gate.invite()
    with server.client(invited=False) as first, server.client(invited=False) as second:
        assert (
            first.head("/", params={"token": token}).status_code == 403
        )  # what looks ahead does not use it up
        assert first.get("/", params={"token": token}).status_code == 200
        late = second.get("/", params={"token": token})
        assert late.status_code == 403
        assert "has been used" in late.text
        assert "set-cookie" not in late.headers
        assert second.get("/api/hello").status_code == 403
        assert first.get("/api/hello").status_code == 200


def test_the_browser_is_started_on_a_file_for_this_user_alone(tmp_path: Path) -> None:
    path = security.write_invitation(tmp_path, "http://127.0.0.1:1/?token=a&b=c")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.parent == tmp_path
    assert 'url=http://127.0.0.1:1/?token=a&amp;b=c"' in path.read_text("utf-8")
    assert path.name != security.write_invitation(tmp_path, "http://127.0.0.1:1/").name


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/assets/base.css", "/api/hello", "/nowhere"])
def test_without_the_cookie_nothing_is_served(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 403
    assert "privfunnel explore" in answer.text


def cookie_of(client: httpx.Client) -> str:
    return f"privfunnel={client.cookies['privfunnel']}"


def test_every_login_has_a_cookie_of_its_own(server: Server) -> None:
    with server.client() as first, server.client() as second:
        assert cookie_of(first) != cookie_of(second)
        for client in (first, second):
            assert client.get("/api/hello").status_code == 200
        key = first.cookies["privfunnel"]
    with server.client(invited=False) as stranger:
        for secret in (server.gate.invite(), ""):
            headers = {"cookie": f"privfunnel={secret}"}
            assert stranger.get("/api/hello", headers=headers).status_code == 403
        assert stranger.get("/", params={"token": key}).status_code == 403


@pytest.mark.parametrize("change", ["", "wrong", "{}x", "x{}", "té"])
def test_a_wrong_token_opens_nothing(server: Server, client: httpx.Client, change: str) -> None:
    token = change.format(server.gate.invite())
    assert client.get("/", params={"token": token}).status_code == 403
    cookie = f"privfunnel={token}".encode()
    assert client.get("/api/hello", headers=[(b"cookie", cookie)]).status_code == 403


def test_the_token_works_on_the_front_page_only(server: Server, client: httpx.Client) -> None:
    assert client.get("/api/hello", params={"token": server.gate.invite()}).status_code == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:{port}"],
)
def test_other_host_names_are_refused(server: Server, host: str) -> None:
    with server.client() as client:
        headers = {"host": host.format(port=server.port), "cookie": cookie_of(client)}
        assert client.get("/api/hello", headers=headers).status_code == 421


@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_our_other_names_are_served(server: Server, host: str) -> None:
    with server.client() as client:
        headers = {"host": host.format(port=server.port), "cookie": cookie_of(client)}
        assert client.get("/api/hello", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://evil.example:8765", "file://", "http://127.0.0.1:1"]
)
def test_other_origins_are_refused(invited: httpx.Client, origin: str) -> None:
    assert invited.get("/api/hello", headers={"origin": origin}).status_code == 403
    assert invited.post("/api/sessions", headers={"origin": origin}).status_code == 403


def test_changes_need_an_origin(invited: httpx.Client) -> None:
    assert invited.post("/api/sessions").status_code == 403
    assert post(invited, "/api/sessions").status_code == 200


def test_other_sites_may_link_to_the_front_page_but_not_read(invited: httpx.Client) -> None:
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert invited.get("/api/hello", headers=elsewhere).status_code == 403
    assert invited.get("/", headers=elsewhere).status_code == 403
    assert invited.get("/", headers={**elsewhere, "sec-fetch-mode": "navigate"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/hello", "/nowhere", "/static/app.js"])
def test_every_answer_carries_the_protective_headers(invited: httpx.Client, path: str) -> None:
    headers = invited.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_websockets_are_closed(server: Server) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    asyncio.run(server.gate({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_files_outside_the_assets_cannot_be_read(invited: httpx.Client) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/assets/..%2f..%2f__init__.py"):
        assert invited.get(path).status_code == 404


def test_hosts_of_other_addresses() -> None:
    assert "192.168.1.5:80" in security.allowed_hosts("192.168.1.5", 80)
    assert "192.168.1.5" in security.allowed_hosts("192.168.1.5", 80)
    assert "[fe80::1]:99" in security.allowed_hosts("fe80::1", 99)
    wildcard = security.allowed_hosts("0.0.0.0", 99, ["Lab.example"])
    assert "0.0.0.0:99" not in wildcard
    assert "lab.example:99" in wildcard


def test_tokens_are_long_and_differ() -> None:
    tokens = {security.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(len(token) for token in tokens) >= 43


# --- sessions -------------------------------------------------------------------------------------------------------


def opened(client: httpx.Client) -> str:
    return str(post(client, "/api/sessions").json()["id"])


def test_sessions_live_in_private_folders_that_go_away(server: Server, invited: httpx.Client) -> None:
    name = opened(invited)
    session = server.sessions.get(name)
    assert session is not None
    assert stat.S_IMODE(session.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.sessions.folder.stat().st_mode) == 0o700
    assert post(invited, f"/api/sessions/{name}/close").status_code == 204
    assert not session.folder.exists()
    gone = invited.get(f"/api/sessions/{name}/curve")
    assert gone.status_code == 410
    assert "reload" in gone.json()["error"]


def test_the_folder_is_removed_when_the_server_ends() -> None:
    with running() as server:
        with server.client() as client:
            opened(client)
        folder = server.sessions.folder
        assert len([path for path in folder.iterdir() if path.is_dir()]) == 1
    assert not folder.exists()


def test_unknown_sessions_are_gone(invited: httpx.Client) -> None:
    assert invited.get("/api/sessions/guess/curve").status_code == 410


def test_the_session_idle_for_longest_makes_room(invited: httpx.Client) -> None:
    names = [opened(invited) for _ in range(9)]
    assert invited.get(f"/api/sessions/{names[0]}/events").status_code == 410
    assert invited.get(f"/api/sessions/{names[1]}/events").status_code == 204


def uploads(server: Server, name: str) -> list[str]:
    session = server.sessions.get(name)
    assert session is not None
    return sorted(path.name for path in session.folder.glob("upload-*/*"))


def test_an_earlier_upload_goes_when_another_table_is_opened(server: Server, invited: httpx.Client) -> None:
    name = opened(invited)
    url = f"/api/sessions/{name}"
    table = b"s,x\n" + b"a,1\nb,2\n" * 9
    for file in ("first.csv", "second.csv"):
        answer = post(invited, f"{url}/upload", params={"name": file}, content=table)
        assert answer.json()["rows"] == 18
        assert uploads(server, name) == [file]
    session = server.sessions.get(name)
    assert session is not None
    (kept,) = session.folder.glob("upload-*/*")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # What cannot be read is not kept, and the table before it still is.
    assert "error" in post(invited, f"{url}/upload", params={"name": "bad.parquet"}, content=b"PAR1").json()
    assert uploads(server, name) == ["second.csv"]
    roles = {"private": ["s"], "public": ["x"], "bins": {}}
    assert post(invited, f"{url}/roles", json=roles).json()["n_x"] == 2
    assert post(invited, f"{url}/example", json={"name": "heart-failure"}).json()["rows"] == 299
    assert uploads(server, name) == []


@pytest.mark.parametrize("stated", [True, False])
def test_too_large_an_upload_is_refused_and_removed(
    server: Server, invited: httpx.Client, stated: bool
) -> None:
    name = opened(invited)
    session = server.sessions.get(name)
    assert session is not None
    folder: Path = session.folder
    body = b"x" * 1001 if stated else iter([b"x" * 600, b"x" * 600])
    url = f"/api/sessions/{name}/upload"
    answer = post(invited, url, params={"name": "big.csv"}, content=body)
    assert answer.status_code == 413
    assert "big.csv is larger than" in answer.json()["error"]
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("roles", b"[1]"),
        ("roles", b"{"),
        ("roles", b'{"private": "sex", "public": []}'),
        ("roles", b'{"private": [1], "public": []}'),
        ("roles", b'{"private": ["a"], "public": ["b"], "bins": {"a": 3}}'),
        ("roles", b" " * (2 << 20)),
        ("roles", b'{"bins": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("roles", b'{"private": ["a"], "public": ["b"], "bins": {"a": ' + b'{"a":' * 500 + b"1" + b"}" * 502),
        ("refine", b'{"at": 1' + b"0" * 400 + b"}"),
        ("refine", b'{"at": true}'),
        ("given", b""),
    ],
)
def test_malformed_requests_get_one_line(invited: httpx.Client, path: str, body: bytes) -> None:
    url = f"/api/sessions/{opened(invited)}/{path}"
    answer = post(invited, url, content=body)
    assert answer.status_code == 400
    message = answer.json()["error"]
    assert "\n" not in message
    assert ": " in message


@pytest.mark.parametrize("query", ["disclosure=abc", "disclosure=nan", "leakage=inf", "width=x"])
def test_numbers_that_are_none_are_refused(invited: httpx.Client, query: str) -> None:
    answer = invited.get(f"/api/sessions/{opened(invited)}/point?{query}")
    assert answer.status_code == 400
    assert "is not a number" in answer.json()["error"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("patients.csv", "patients.csv"),
        ("größe 2.parquet", "größe 2.parquet"),
        ("a/b\\c.csv", "c.csv"),
        ('x"""\nimport os\n"""y.csv', 'x"""import os"""y.csv'),
        ("a\x1b[31m\u2028\x85b\0.csv", "a[31mb.csv"),
        ("\n", "table.csv"),
        ("", "table.csv"),
    ],
)
def test_names_are_shown_without_control_characters(name: str, shown: str) -> None:
    assert app.shown_name(name) == shown


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("patients.csv", "patients.csv"),
        ("größe 2.parquet", "größe 2.parquet"),
        ("a/b\\c.csv", "a_b_c.csv"),
        ("..", "table.csv"),
        ("", "table.csv"),
        ("x" * 300 + ".csv", "x" * 96 + ".csv"),
        (".hidden.csv", "hidden.csv"),
        ("n\0l\n.csv", "n_l_.csv"),
    ],
)
def test_uploads_keep_their_names_where_that_is_safe(name: str, safe: str) -> None:
    assert app.file_name(name) == safe
