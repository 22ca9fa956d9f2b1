"""The state that the connections of a worker share: the application, limits and connections."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gunicorn_h1c import H1CProtocol

from backend.http.asgi import Receive, Scope, Send
from backend.security.connection_key import ConnectionKey
from backend.server.bounds import OpenConnections, UnreadBytes
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPoll, PlainPost

if TYPE_CHECKING:
    from backend.server.connection import Connection


class Application(Protocol):
    """The ASGI application, with the methods for answers without ASGI."""

    request_timeout: float
    """Seconds within which a complete request must arrive."""
    send_timeout: float
    """Seconds after which a client that reads nothing of its response is disconnected."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...
    def allows_host(self, host: bytes) -> bool:
        """Whether a plain GET with this Host may be answered by `answer_now`."""

    def answer_now(self, raw_path: bytes, token: bytes | None) -> Answer | None:
        """The answer to a plain GET; None if it must wait, so that `__call__` is needed. `token`:
        that of its Authorization header, not verified; None if it has none."""

    def forward_now(
        self, raw_path: bytes, token: bytes | None, ended: Callable[[Answer | None], None]
    ) -> bool:
        """Whether another instance is being asked for the answer to a GET that `answer_now` has
        just left, and that has no `traceparent`. Then `ended` is called later, with the answer, or
        None if `__call__` is needed."""

    def reads_now(
        self, reads: PlainPost, client: str, has_certificate: bool, connection: ConnectionKey
    ) -> Answer | None:
        """The answer to coalesced point reads of the proxy; None if `__call__` is needed. `client`:
        the address of its socket. `connection`: the key of its connection."""

    def heartbeat_now(
        self, heartbeat: PlainPost, client: str, has_certificate: bool
    ) -> Answer | None:
        """The answer to a heartbeat of another instance; None if `__call__` is needed."""

    def unchanged_now(self, poll: PlainPoll, client: str, has_certificate: bool) -> Answer | None:
        """304 to a proxy that has the latest topology; None if `__call__` is needed."""

    def drain(self) -> float:
        """Called before the server stops. Returns the seconds for which it must continue to
        answer."""


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
        self.connections: set[Connection] = set()
        self.open = OpenConnections(limits.worker_connections)
        self.unread = UnreadBytes()
        self.keeps_connections = limits.keepalive > 0  # whether they accept further requests
        self._feeding: deque[Callable[[], None]] = deque()

    def feed_in_turn(self, feed: Callable[[], None]) -> None:
        """Call it in a later round of the event loop. There is one such call in a round, because
        the parser may need milliseconds for it."""
        if not self._feeding:
            self.loop.call_soon(self._feed_next)
        self._feeding.append(feed)

    def _feed_next(self) -> None:
        feed = self._feeding.popleft()
        if self._feeding:
            self.loop.call_soon(self._feed_next)
        feed()
