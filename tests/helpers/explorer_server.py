"""A real explorer in a thread of the test, spoken to over a real socket."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import httpx

from privfunnel.app.explorer import Limits, app, connections, process, security
from privfunnel.app.explorer.sessions import Sessions


@contextlib.contextmanager
def copied_processes() -> Iterator[None]:
    """Inside the block, working processes are copies of one that has imported what they need.

    Each would import it for two seconds otherwise, as users' do, and as they do in test_explorer_process.py.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    from multiprocessing import forkserver

    copies = multiprocessing.get_context("forkserver")
    copies.set_forkserver_preload(["privfunnel.app.explorer.jobs"])
    with patch.dict(os.environ):
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)  # a copy ends without writing down what it ran
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = (
            "system"  # as processes of their own set it before they import
        )
        forkserver.ensure_running()
    with patch.object(process, "_SPAWN", copies):
        yield


@dataclass(frozen=True)
class Server:
    """A running explorer."""

    port: int
    gate: Any

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """A new invitation: each opens the page once."""
        return f"{self.origin}/?token={self.gate.invite()}"

    @property
    def sessions(self) -> Sessions:
        found: Sessions = self.gate.app.state.sessions
        return found

    @contextlib.contextmanager
    def client(self, *, invited: bool = True) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.origin, timeout=120.0, trust_env=False) as client:
            if invited:
                client.get("/", params={"token": self.gate.invite()}).raise_for_status()
            yield client


@contextlib.contextmanager
def running(**settings: Any) -> Iterator[Server]:
    """Serve until the block ends."""
    with copied_processes(), socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        hosts = security.allowed_hosts("127.0.0.1", port)
        sessions = Sessions(settings.get("limits", Limits()))
        gate = app.create(app.Settings(hosts=hosts, **settings), sessions)
        server = connections.Server(gate, sessions)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            deadline = time.monotonic() + 120.0
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            yield Server(port, gate)
        finally:
            server.should_exit = True
            thread.join(120.0)
