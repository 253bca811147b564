"""The explorer: a local page for choosing a release by looking at it.

``privfunnel explore`` starts it; :func:`serve` does the same from Python.
"""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable, Iterable
from pathlib import Path

from privfunnel.errors import InvalidInputError, need
from privfunnel.explorer.process import Limits

__all__ = ["Limits", "serve"]


def serve(
    table: Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: Iterable[str] = (),
    max_upload: int = 256 << 20,
    limits: Limits | None = None,
    browser: bool = False,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve the page until interrupted.

    Args:
        table: A table to begin with, opened in place.
        host: Address to bind to; anything but the default makes the page reachable from other machines.
        port: Port, or 0 for a free one.
        names: Further host names under which the page may be asked for.
        max_upload: Largest upload in bytes.
        limits: What one tab's processes may use.
        browser: Whether to open the page in the default browser.
        announce: Called with the address once the port is bound.

    Raises:
        InvalidInputError: The table does not exist, or the address cannot be bound.
        MissingExtraError: The web framework is not installed.
    """
    uvicorn = need("uvicorn", "explorer")
    need("starlette", "explorer")
    need("duckdb", "tables")
    from privfunnel.explorer import app, security

    if table is not None and not table.is_file():
        raise InvalidInputError(f"there is no file {str(table)!r}: check the path")
    with _bind(host, port) as bound:
        port = bound.getsockname()[1]
        settings = app.Settings(
            token=security.new_token(),
            hosts=security.allowed_hosts(host, port, names),
            cookie=f"privfunnel-{port}",
            given=None if table is None else table.resolve(),
            max_upload=max_upload,
            limits=limits or Limits(),
        )
        shown = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/?token={settings.token}"
        config = uvicorn.Config(
            app.create(settings),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        if announce is not None:
            announce(address)
        if browser:
            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[bound])


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        raise InvalidInputError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): choose another --host or --port"
        ) from error
    return bound
