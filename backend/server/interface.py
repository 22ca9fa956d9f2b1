"""What the server requires of an application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from backend.http.asgi import Receive, Scope, Send
from backend.security.connection_key import ConnectionKey
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPoll, PlainPost


class FastPath(Protocol):
    """Answers without ASGI."""

    @property
    def allows_host(self) -> Callable[[bytes], bool]:
        """Whether a plain GET with this Host may be answered by `answer_now`."""

    def answer_now(self, raw_path: bytes, token: bytes | None) -> Answer | None:
        """The answer to a plain GET; None if it must wait, so that `__call__` is needed. `token`:
        the token of the Authorization header, not verified; None if there is none."""

    def forward_now(
        self, raw_path: bytes, token: bytes | None, ended: Callable[[Answer | None], None]
    ) -> bool:
        """Asks another instance for the answer to a GET that `answer_now` has just left unanswered,
        and that has no `traceparent`. Returns whether it is being asked. Then `ended` is called
        later, with the answer, or with None if `__call__` is needed."""

    def reads_now(
        self, reads: PlainPost, client: str, has_certificate: bool, connection: ConnectionKey
    ) -> Answer:
        """The answer to coalesced point reads. `client`: the address of the sender's socket.
        `connection`: the key of its connection."""

    def heartbeat_now(self, heartbeat: PlainPost, client: str, has_certificate: bool) -> Answer:
        """The answer to a heartbeat of another instance."""

    def unchanged_now(self, poll: PlainPoll, client: str, has_certificate: bool) -> Answer | None:
        """304 to a proxy that has the latest topology; None if `__call__` is needed."""


class Application(Protocol):
    """The ASGI application."""

    request_timeout: float
    """Seconds within which a complete request must arrive."""
    send_timeout: float
    """Seconds after which a client that reads nothing of its response is disconnected."""

    @property
    def fast_path(self) -> FastPath: ...
    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...
    def drain(self) -> float:
        """Called before the server stops. Returns the seconds for which it must continue to
        answer."""
