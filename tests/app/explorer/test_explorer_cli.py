"""``privfunnel explore``: it starts, says where, serves, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("starlette", reason="the explorer needs its extra")
pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

from helpers_signals import hang_up
from privfunnel.app.cli import main
from privfunnel.app.cli._limits import parse_size
from privfunnel.errors import InvalidInputError

AWKWARD = Path(__file__).parents[2] / "fixtures" / "awkward.csv"


@contextlib.contextmanager
def explorer(folder: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command with its temporary files in ``folder``; yield the address it prints."""
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    command = [sys.executable, "-m", "privfunnel", "explore", "--no-browser", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=hang_up,
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
            assert found is not None
            yield found[0], process
        finally:
            process.kill()


def browse(address: str) -> urllib.request.OpenerDirector:
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    with opener.open(address, timeout=120) as answer:
        assert b'url=/"' in answer.read()
    with opener.open(address.partition("?")[0], timeout=120) as answer:
        assert b"Privacy funnel" in answer.read()
    return opener


def post(opener: urllib.request.OpenerDirector, origin: str, path: str) -> bytes:
    request = urllib.request.Request(f"{origin}{path}", data=b"{}", headers={"origin": origin}, method="POST")
    with opener.open(request, timeout=120) as answer:
        return bytes(answer.read())


def test_it_serves_the_given_table_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with explorer(tmp_path, str(AWKWARD)) as (address, process):
        origin = address.partition("/?")[0]
        opener = browse(address)
        session = re.search(rb'"id":"([^"]+)"', post(opener, origin, "/api/sessions"))
        assert session is not None
        table = post(opener, origin, f"/api/sessions/{session[1].decode()}/given")
        assert b'"name":"awkward.csv","rows":400' in table
        assert any(tmp_path.glob("privfunnel-*"))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert list(tmp_path.glob("privfunnel-*")) == []
    assert AWKWARD.exists()


def test_it_can_begin_with_an_example(tmp_path: Path) -> None:
    with explorer(tmp_path, "heart-failure") as (address, process):
        origin = address.partition("/?")[0]
        opener = browse(address)
        session = re.search(rb'"id":"([^"]+)"', post(opener, origin, "/api/sessions"))
        assert session is not None
        assert b'"rows":299' in post(opener, origin, f"/api/sessions/{session[1].decode()}/given")
        process.terminate()
        process.wait(120)
    assert list(tmp_path.glob("privfunnel-*")) == []


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
def test_a_closed_terminal_leaves_nothing_behind(tmp_path: Path) -> None:
    with explorer(tmp_path, "heart-failure") as (address, process):
        opener = browse(address)
        post(opener, address.partition("/?")[0], "/api/sessions")
        assert any(tmp_path.glob("privfunnel-*"))
        process.send_signal(signal.SIGHUP)
        process.wait(120)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert list(tmp_path.glob("privfunnel-*")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-file.csv"], "there is no file 'no-such-file.csv'"),
        (["--max-upload", "much"], "--max-upload 'much' is not a size"),
        (["--memory-limit", "-1"], "--memory-limit '-1' is not a size"),
        (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["explore", "--no-browser", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_a_port_in_use_is_explained() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["explore", "--no-browser", "--port", port])
    assert result.exit_code == 2
    assert "choose another --host or --port" in result.stderr


def test_other_addresses_are_warned_of() -> None:
    result = CliRunner().invoke(main, ["explore", "--no-browser", "--host", "203.0.113.7"])
    assert "can be reached from other machines" in result.stderr


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("2k", 2048), ("256M", 256 << 20), ("4 GiB", 4 << 30), ("1.5gb", 3 << 29)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--x") == size


@pytest.mark.parametrize("text", ["", "M", "12X", "1e3", "-5M"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a size"):
        parse_size(text, "--x")
