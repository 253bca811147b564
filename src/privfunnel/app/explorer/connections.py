"""The server's end of its connections: whoever has no key gets little time, little room and no word on the terminal.

A connection that has not sent the headers of a request has no key yet. Such ones have a deadline and a limit on their
number, where the one that has waited longest makes room; the gate closes the connection of whoever it refuses. What
they do wrong is their own matter, so that nothing of it is logged. When the server ends, what is still being answered
is ended first: no open tab holds it up.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from privfunnel.app.explorer.security import Gate
from privfunnel.app.explorer.sessions import Sessions
from privfunnel.infra.storage import Document

#: Seconds for the headers of a request.
HEADER_SECONDS = 10.0
#: Connections at a time that have sent no request yet, and of all kinds; eight tabs have fifty.
MOST_WAITING, MOST = 64, 256
#: What the event loop's reports on a connection name.
_OF_CONNECTIONS = {"protocol", "transport", "socket"}


class Connection(H11Protocol):
    """A connection with a deadline for headers, one of a limited number."""

    #: Ends the connection unless headers come before.
    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, and make room where too many wait."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(HEADER_SECONDS, transport.abort)
        living = [each for each in self.connections if not each.transport.is_closing()]
        waiting = [each for each in living if isinstance(each, Connection) and each.cycle is None]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda each: each._since).transport.abort()
        elif len(living) > MOST:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take data; what is no whole head of a request is waited for until the deadline."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._met()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Say that this is no HTTP; an answer that is on its way already has nobody to go to."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._met()
        super().connection_lost(exc)

    def _met(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """The page's server.

    Args:
        gate: The application behind its gate.
        sessions: The tabs, whose work ends with the server.
    """

    def __init__(self, gate: Gate, sessions: Sessions) -> None:
        """Configure it; nothing is bound yet."""
        self._sessions = sessions
        super().__init__(
            uvicorn.Config(
                gate,
                http=Connection,
                ws="none",
                backlog=MOST_WAITING,  # so many are accepted at a time: never more than there may be open files
                log_level="error",  # warnings are about what strangers send
                access_log=False,
                server_header=False,
                # Seconds at the server's end for answers that are nearly there.
                timeout_graceful_shutdown=1,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        asyncio.get_running_loop().set_exception_handler(_told)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and first of all what is still being answered."""
        self._sessions.hang_up()
        await super().shutdown(sockets)


def _told(loop: asyncio.AbstractEventLoop, context: Document) -> None:
    """Report what went wrong in the event loop, unless it is about a connection: anybody can make that go wrong."""
    if not _OF_CONNECTIONS & context.keys():
        loop.default_exception_handler(context)
