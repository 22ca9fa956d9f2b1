"""One request and its response, between the connection and the ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from gunicorn.asgi.parser import CallbackRequest

from backend.http.asgi import ENDED_EARLY_EXTENSION, App, Message, Scope
from backend.server.response import error_response, head

log = logging.getLogger("backend.server")

_BODY_BUFFER = 256 * 1024  # bytes of a body that wait for the application
_MAX_JOINED = 64 * 1024  # bytes; a larger body is not copied to join it with its headers
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


class Channel(Protocol):
    """The interface of a connection that an exchange uses."""

    @property
    def is_open(self) -> bool: ...
    @property
    def may_stay_open(self) -> bool: ...
    def write(self, parts: list[bytes]) -> None: ...
    async def writable(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def exchange_ended(self, keep_open: bool) -> None: ...


class Exchange:
    """One request and its response.

    The connection feeds the request body, and the application calls `receive` and `send`. The
    exchange ends when the application returns. Then the connection starts the next one.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._chunks: list[bytes] = []
        self._buffered = 0
        self.is_received = False  # the whole request has arrived
        self._is_delivered = False  # the application has the whole body
        self._is_disconnected = False  # the client has disconnected, or the body is late
        self._waiter: asyncio.Future[None] | None = None
        self._has_started = False
        self._head = b""  # is sent with the first bytes of the body
        self._has_ended = False
        self._sent = 0  # bytes of the response body

    # -- for the connection ----------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """Add bytes of the request body."""
        self._chunks.append(chunk)
        self._buffered += len(chunk)
        if not self.has_room:
            self._channel.pause_reading()
        self._wake()

    @property
    def has_room(self) -> bool:
        """Whether there is room for more of the request body."""
        return self._buffered <= _BODY_BUFFER

    def complete(self) -> None:
        """Called when the whole request has arrived."""
        self.is_received = True
        self._wake()

    def disconnect(self) -> None:
        """Called when the rest of the request will not arrive. The application gets
        `http.disconnect`."""
        self._is_disconnected = True
        self._wake()

    @property
    def is_unanswered(self) -> bool:
        """Whether no part of the response was written."""
        return bool(self._head) or not self._has_started

    @property
    def is_read(self) -> bool:
        """Whether nothing is lost if the application is stopped before it has finished."""
        return self._scope["method"] in ("GET", "HEAD")

    def begin(self, request: CallbackRequest, scope: Scope) -> None:
        """Called when the head of the request is complete."""
        self._version = request.version
        self._asks_to_close = request.should_close()
        self._is_head = scope["method"] == "HEAD"
        self._expects_continue = (
            not self.is_received
            and request.version >= (1, 1)
            and any(
                name == b"expect" and value.lower() == b"100-continue"
                for name, value in scope["headers"]
            )
        )
        self._scope = scope

    async def run(self, application: App) -> None:
        """Call the application and end the exchange, even if the application fails."""
        keep_open = False
        try:
            await application(self._scope, self.receive, self.send)
            keep_open = self._finish()
        except Exception:
            log.exception("%s %r", self._scope["method"], self._scope["raw_path"])
            self._send_error(500, "Internal Server Error")
        finally:
            self._channel.exchange_ended(keep_open)

    # -- for the application ---------------------------------------------------------------------

    async def receive(self) -> Message:
        """ASGI: the next part of the body. After the body, wait for the client to disconnect."""
        while not self._is_disconnected:
            if self._chunks:
                return self._next_chunk()
            if self.is_received and not self._is_delivered:
                self._is_delivered = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if self._expects_continue and not self.is_received and not self._has_started:
                self._expects_continue = False
                self._channel.write([_CONTINUE])
            await self._wait_for_input()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """ASGI: the start of the response, or a part of its body."""
        if not self._channel.is_open:
            await asyncio.sleep(0)  # a loop that only sends can be cancelled here
            return
        if message["type"] == "http.response.start":
            if self._has_started:
                raise RuntimeError("the application has started the response twice")
            self._start(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body":
            if not self._has_started or self._has_ended:
                raise RuntimeError("the application sends a body before or after its response")
            self._send_body(message.get("body", b""), message.get("more_body", False))
            await self._channel.writable()

    # -- internal --------------------------------------------------------------------------------

    def _next_chunk(self) -> Message:
        # together: a client may send a chunk for each byte
        chunk = b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        self._channel.resume_reading()
        self._is_delivered = self.is_received
        return {"type": "http.request", "body": chunk, "more_body": not self._is_delivered}

    async def _wait_for_input(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._omits_body = self._is_head or status in (204, 304)
        self._length: int | None = None
        kept = []
        for header in headers:
            name = header[0].lower()
            if name == b"transfer-encoding" or (name == b"content-length" and status == 204):
                continue  # this class does the framing
            if name == b"content-length":
                self._length = int(header[1])
            kept.append(header)
        is_unframed = self._length is None and not self._omits_body
        self._is_chunked = is_unframed and self._version >= (1, 1)
        if self._is_chunked:
            kept.append((b"transfer-encoding", b"chunked"))
        # After an incomplete request, its remaining bytes could be mistaken for another request.
        self._closes = (
            self._asks_to_close
            or not self.is_received
            or not self._channel.may_stay_open
            or (is_unframed and not self._is_chunked)
        )
        self._head = head(status, kept, self._closes)
        self._has_started = True

    def _send_body(self, body: bytes, more: bool) -> None:
        if self._omits_body:
            body = b""
        elif body.__class__ is not bytes:
            body = bytes(body)  # a copy, because the application may reuse the buffer
        size = len(body)
        if self._length is not None and not self._omits_body and self._sent + size > self._length:
            raise RuntimeError("the response body is longer than its Content-Length")
        self._sent += size
        parts = []
        if self._head and (size or not more):
            parts.append(self._head)
            self._head = b""
        if self._is_chunked:
            if size:
                parts += (b"%x\r\n" % size, body, b"\r\n")
            if not more:
                parts.append(_LAST_CHUNK)
        elif size:
            parts.append(body)
        if parts:
            self._channel.write(parts if size >= _MAX_JOINED else [b"".join(parts)])
        self._has_ended = not more

    def _finish(self) -> bool:
        """Whether the connection can take another request."""
        if not self._channel.is_open:
            return False
        if not self._has_started and self._is_disconnected:
            self._send_error(408, "The request has not arrived in time")
            return False
        if self._scope["extensions"].get(ENDED_EARLY_EXTENSION):
            self._send_error(500, "Internal Server Error")
            return False
        if not self._has_started:
            raise RuntimeError("the application has sent no response")
        if not self._has_ended:
            raise RuntimeError("the application has not completed its response")
        if self._length is not None and not self._omits_body and self._sent < self._length:
            raise RuntimeError("the response body is shorter than its Content-Length")
        return not self._closes

    def _send_error(self, status: int, message: str) -> None:
        """Send an error response, unless a part of another response was sent."""
        if self._channel.is_open and self.is_unanswered:
            self._channel.write([error_response(status, message)])
