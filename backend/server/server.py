"""What the connections of a worker share: the application, the limits and each other."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from backend.http.asgi import Receive, Scope, Send
from backend.wire.answer import Answer

if TYPE_CHECKING:
    from backend.server.connection import Connection


class Application(Protocol):
    """The ASGI application, and what the server asks of it besides."""

    request_timeout: float
    """Seconds within which a request has to arrive."""
    send_timeout: float
    """Seconds within which a client has to read something of its response."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...
    def answer_now(self, raw_path: bytes) -> Answer | None:
        """The answer to a plain GET that needs no waiting; None: use `__call__`."""

    def reads_now(self, body: bytes) -> Answer:
        """The answer to point reads that the proxy has coalesced."""

    def drain(self) -> float:
        """The server is about to stop; seconds for which it should still answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a connection. Times in seconds; the rest as gunicorn's settings of these names."""

    keepalive: float
    worker_connections: int
    limit_request_line: int
    limit_request_fields: int
    limit_request_field_size: int


class Server:
    """Shared by the connections of a worker."""

    def __init__(self, application: Application, limits: Limits, loop: AbstractEventLoop) -> None:
        self.application = application
        self.limits = limits
        self.loop = loop
        self.connections: set[Connection] = set()
        self.keeps_connections = limits.keepalive > 0  # they take further requests
