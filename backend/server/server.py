"""The state that the connections of a worker share: the application, limits and connections."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from gunicorn_h1c import H1CProtocol

from backend.server.bounds import ClosableConnection, OpenConnections, UnreadBytes
from backend.server.interface import Application


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a connection, as in gunicorn's settings of these names. `keepalive` is in s."""

    keepalive: float
    worker_connections: int
    limit_request_line: int
    limit_request_fields: int
    limit_request_field_size: int

    def parser(
        self,
        headers_complete: Callable[[], bool],
        body: Callable[[bytes], None],
        message_complete: Callable[[], None],
    ) -> H1CProtocol:
        """A parser with these limits, for the requests of one connection."""
        return H1CProtocol(
            on_headers_complete=headers_complete,
            on_body=body,
            on_message_complete=message_complete,
            limit_request_line=self.limit_request_line,
            limit_request_fields=self.limit_request_fields,
            limit_request_field_size=self.limit_request_field_size,
            limit_remaining=0,  # no limit: after the end of a request, it has at most one slice
        )


class Server:
    """Shared by the connections of a worker."""

    def __init__(self, application: Application, limits: Limits, loop: AbstractEventLoop) -> None:
        self.application = application
        self.limits = limits
        self.loop = loop
        self.connections: set[ClosableConnection] = set()
        self.open = OpenConnections(limits.worker_connections)
        self.unread = UnreadBytes()
        self.keeps_connections = limits.keepalive > 0  # whether they accept further requests
        self._feeding: deque[Callable[[], None]] = deque()

    def feed_in_turn(self, feed: Callable[[], None]) -> None:
        """Call `feed` in a later round of the event loop. Each round has at most one such call,
        because the parser may need milliseconds for it."""
        if not self._feeding:
            self.loop.call_soon(self._feed_next)
        self._feeding.append(feed)

    def _feed_next(self) -> None:
        feed = self._feeding.popleft()
        if self._feeding:
            self.loop.call_soon(self._feed_next)
        feed()
