"""The explorer: a local page for choosing a release by looking at it.

``privfunnel explore`` starts it; :func:`serve` does the same from Python.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.app.explorer.process import Limits
from privfunnel.errors import InvalidInputError, need

__all__ = ["Keeping", "Limits", "serve"]


def serve(
    table: str | os.PathLike[str] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: Iterable[str] = (),
    max_upload: int = 256 << 20,
    limits: Limits | None = None,
    keeping: Keeping | None = None,
    browser: bool = False,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve the page until interrupted.

    Args:
        table: A table to begin with, opened in place, or the name of an example.
        host: Address to bind to; anything but the default makes the page reachable from other machines.
        port: Port, or 0 for a free one.
        names: Further host names under which the page may be asked for.
        max_upload: Largest upload in bytes.
        limits: What the working processes of all tabs may use.
        keeping: The ledger that releases are entered in, and the key of sticky draws.
        browser: Whether to open the page in the default browser.
        announce: Called with the address once the port is bound.

    Raises:
        InvalidInputError: The table does not exist, the address cannot be bound, or a budget or series stands alone.
        MissingExtraError: The web framework is not installed.
    """
    need("uvicorn", "explorer")
    need("starlette", "explorer")
    need("duckdb", "tables")
    from privfunnel.app.explorer import app, security
    from privfunnel.app.explorer.connections import Server
    from privfunnel.app.explorer.sessions import Sessions

    given, example = _given(table)
    keeping = None if keeping is None else keeping.checked()
    with _bind(host, port) as bound:
        port = bound.getsockname()[1]
        settings = app.Settings(
            hosts=security.allowed_hosts(host, port, names),
            cookie=f"privfunnel-{port}",
            given=given,
            example=example,
            max_upload=max_upload,
            limits=limits or Limits(),
        )
        shown = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else f"[{host}]" if ":" in host else host
        sessions = Sessions(settings.limits, keeping=keeping)
        gate = app.create(settings, sessions)
        try:
            if announce is not None:
                announce(f"http://{shown}:{port}/?token={gate.invite()}")
            if browser:
                # A browser's command line can be read by every user of the machine: it names a private file instead.
                way_in = f"http://{shown}:{port}/?token={gate.invite()}"
                webbrowser.open(security.write_invitation(sessions.folder, way_in).as_uri())
            with _hangup_ends():
                Server(gate, sessions).run(sockets=[bound])
        finally:
            sessions.shutdown()


@contextmanager
def _hangup_ends() -> Iterator[None]:
    """End on SIGHUP, a closed terminal, as on SIGTERM: in order, with the uploads removed.

    Where it is ignored already (``nohup``), or there is no such signal, nothing changes.
    """
    hangup = getattr(signal, "SIGHUP", None)
    if (
        hangup is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(hangup) is signal.SIG_IGN
    ):
        yield
        return
    before = signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(hangup, before)


def _given(table: str | os.PathLike[str] | None) -> tuple[Path | None, str | None]:
    """Return the path of the table, or the name of the example, to begin with."""
    from privfunnel.app.explorer.examples import EXAMPLES

    if table is None:
        return None, None
    path = Path(table)
    if path.is_file():
        return path.resolve(), None
    name = os.fspath(table)
    if name in EXAMPLES:
        return None, name
    raise InvalidInputError(
        f"there is no file {name!r}: check the path, or use an example: {', '.join(EXAMPLES)}"
    )


def _bind(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)  # a browser that is quicker than the server waits in the queue
    except OSError as error:
        bound.close()
        raise InvalidInputError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): choose another --host or --port"
        ) from error
    return bound
