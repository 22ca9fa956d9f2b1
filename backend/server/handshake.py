"""TLS connections from their first byte on: connections in their handshake count as well.

If an event loop gets the TLS context with the listening socket, it reports a connection only after
its handshake. Then clients that do not finish their handshake could use up the process's open files
unnoticed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from backend.server.bounds import address_of
from backend.server.connection import Connection
from backend.server.server import Server

_HANDSHAKE_TIMEOUT = 10.0  # s for a client's handshake
_CLOSE_TIMEOUT = 1.0  # s for a client to answer the end of TLS


def connection_factory(
    server: Server, context: ssl.SSLContext | None
) -> Callable[[], asyncio.BaseProtocol]:
    """Makes the protocol of a new connection. `context`: None without TLS."""
    if context is None:
        return lambda: Connection(server)
    return lambda: Handshake(server, context)


class Handshake(asyncio.Protocol):
    """A connection until its handshake has ended. Then a Connection takes its place."""

    def __init__(self, server: Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._transport: Any = None
        self._tls: Any = None
        self.address = ""  # of the socket, without the port; "" if it is unknown
        self.request_ends = server.loop.time() + _HANDSHAKE_TIMEOUT

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.address = address_of(transport)
        self._server.open.add(self)
        if transport.is_closing():  # there is no room
            return
        self._tls = self._server.loop.start_tls(
            transport,
            asyncio.Protocol(),  # it gets no data: the Connection is made first
            self._context,
            server_side=True,
            ssl_handshake_timeout=_HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=_CLOSE_TIMEOUT,
        )
        self._step()

    def _step(self, _: object = None) -> None:
        """Run the coroutine to its next wait. A task would begin it later, and bytes that arrive
        before that would be lost. (From Python 3.12 on, tasks can begin immediately.)"""
        try:
            future = self._tls.send(None)
        except StopIteration as ended:
            self._server.open.discard(self)
            self._become_connection(ended.value)
        except (OSError, TimeoutError):  # the client has sent something else, or is gone
            self.abort()
        else:
            future.add_done_callback(self._step)

    def _become_connection(self, transport: Any) -> None:
        # the handshake also ends, without an error, when its connection ends
        if transport is None or self._transport.is_closing():
            return
        connection = Connection(self._server)
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def abort(self) -> None:
        self._server.open.discard(self)
        self._transport.abort()
