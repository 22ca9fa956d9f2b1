"""gunicorn's asgi worker, made to stop well and to bound its connections.

As it comes, SIGTERM leaves idle keep-alive connections open until the arbiter kills the worker,
before the application's shutdown has run; and `worker_connections` is not enforced.
"""

from __future__ import annotations

from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

_PATIENCE = 10.0  # s for requests under way when the worker is told to stop

# It notes on the class what the parser can do and reads it from ASGIProtocol by name: ask there,
# before the subclass is asked.
ASGIProtocol._check_h1c_protocol_available()


class _Connection(ASGIProtocol):  # type: ignore[misc]
    """A client's connection that its worker knows of."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.worker.connections.add(self)
        if len(self.worker.connections) > self.worker.worker_connections:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.worker.connections.discard(self)
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        return bool(getattr(self, "_awaiting_request", False))


class Worker(gasgi.ASGIWorker):  # type: ignore[misc]
    """Drains on SIGTERM: says so, closes idle connections, lets requests under way end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connections: set[_Connection] = set()
        # the worker's serve loop makes its connections by this name
        gasgi.ASGIProtocol = _Connection

    def handle_exit_signal(self) -> None:
        self.asgi.drain()
        super().handle_exit_signal()

    async def _shutdown(self) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.connections):
            if connection.idle:
                connection.transport.close()
        # whatever does not end by itself must not cost the application its shutdown
        impatience = self.loop.call_later(_PATIENCE, self._abort_connections)
        await super()._shutdown()
        impatience.cancel()

    def _abort_connections(self) -> None:
        for connection in list(self.connections):
            connection.transport.abort()
