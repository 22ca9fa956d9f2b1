"""A persistent connection to another instance, for one request at a time.

It reads the part of HTTP/1.1 (RFC 9112) with which our own server answers a small POST: one head
with a Content-Length, and a body. A general HTTP client takes several times as long.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Any, NamedTuple

from aiohappyeyeballs import start_connection

from backend.wire.answer import Header
from model.topology import Member

MAX_ANSWER_BYTES = 128 << 20
"""The maximum size of the body of an answer."""
_MAX_HEAD_BYTES = 16 << 10
IDLE_S = 30.0
"""After this time without a request, the client closes a connection. Servers wait longer."""
_OTHER_ADDRESS_S = 0.25  # s until the next address of a host is tried as well (RFC 8305)

_STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2})(?: [^\r\n]*)?")
_LENGTH = re.compile(rb"[0-9]{1,10}")


class MalformedAnswerError(ConnectionError):
    """The bytes are not an answer of an instance, or there are too many."""


class ClosedBeforeAnswerError(ConnectionError):
    """The connection was closed before the first byte of an answer arrived."""


class RawAnswer(NamedTuple):
    """An answer with all of its headers. Their names are in lower case."""

    status: int
    headers: list[Header]
    body: bytes


class PeerConnection(asyncio.Protocol):
    """One connection. Used in the event loop. The caller sends one request at a time."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        tls: ssl.SSLContext | None,
        closed: Callable[[PeerConnection], None],
    ) -> None:
        """`closed(connection)` is called when the connection has ended."""
        self.tls = tls
        self._loop = loop
        self._closed = closed
        self._transport: Any = None
        self._timer: TimerHandle | None = None
        self._answer: asyncio.Future[RawAnswer] | None = None
        self._begin_answer()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def post(self, request: bytes, silence: float, ends_at: float) -> RawAnswer:
        """Sends all bytes of a request, and returns the answer. Raises TimeoutError if no byte of
        it arrives for `silence` s, or if it is not complete at `ends_at` (s, the loop's clock).
        Raises ConnectionError if the connection fails. After an error, the connection is closed."""
        if not self.is_open:
            raise ClosedBeforeAnswerError("the connection was closed")
        self._silence, self._ends_at = silence, ends_at
        self._answer = answer = self._loop.create_future()
        self._set_timer()
        self._transport.write(request)
        try:
            raw_answer: RawAnswer = await answer
        except BaseException:
            self.abort()
            raise
        finally:
            self._answer = None
        if (b"connection", b"close") in raw_answer.headers:
            self.close()
        return raw_answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        is_unanswered = self._length is None and not self._head
        kind = ClosedBeforeAnswerError if is_unanswered else ConnectionError
        self._fail(kind("the connection was closed"))
        self._closed(self)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # there is no request
            return
        try:
            is_complete = self._feed(data)
        except MalformedAnswerError as error:
            self._fail(error)
            return
        if is_complete:
            self._answer.set_result(RawAnswer(self._status, self._headers, b"".join(self._body)))
            self._begin_answer()  # an idle connection does not keep the last answer
        self._set_timer()

    # -- the answer ------------------------------------------------------------------------------

    def _begin_answer(self) -> None:
        self._head = b""
        self._status, self._headers = 0, list[Header]()
        self._body: list[bytes] = []
        self._size = 0  # of the parts of the body
        self._length: int | None = None  # of the whole body; None before the end of the head

    def _feed(self, data: bytes) -> bool:
        """Adds bytes, and returns whether the answer is complete."""
        if self._length is None:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if len(head) > _MAX_HEAD_BYTES:
                raise MalformedAnswerError("the head of the answer is too long")
            if not end:
                return False
            self._status, self._headers = _parsed(head)
            self._length = _length_in(self._headers)
        self._body.append(data)
        self._size += len(data)
        if self._size > self._length:
            raise MalformedAnswerError("more than one answer")
        return self._size == self._length

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # -- time ------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Sets the timer for the next byte of an answer, or for the next request."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        is_waiting = self._answer is not None and not self._answer.done()
        at = min(now + self._silence, self._ends_at) if is_waiting else now + IDLE_S
        self._timer = self._loop.call_at(at, self._expired)

    def _expired(self) -> None:
        self._timer = None
        if self._answer is None or self._answer.done():
            self.close()
        else:
            self._fail(TimeoutError())


async def connect(
    member: Member, tls: ssl.SSLContext | None, closed: Callable[[PeerConnection], None]
) -> PeerConnection:
    """Opens a new connection, with its TLS handshake. Raises OSError. `tls`: None for plain
    HTTP."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(member.address, member.port, type=socket.SOCK_STREAM)
    sock = await start_connection(addresses, happy_eyeballs_delay=_OTHER_ADDRESS_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, connection = await loop.create_connection(
            lambda: PeerConnection(loop, tls, closed),
            sock=sock,
            ssl=tls,
            server_hostname=None if tls is None else member.address,
        )
    except BaseException:
        sock.close()
        raise
    return connection


def _parsed(head: bytes) -> tuple[int, list[Header]]:
    first, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise MalformedAnswerError("not an answer of an instance")
    headers: list[Header] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise MalformedAnswerError("a header without a colon")
        headers.append((name.lower(), value.strip(b" \t")))
    return int(status[1]), headers


def _length_in(headers: list[Header]) -> int:
    lengths = [value for name, value in headers if name == b"content-length"]
    is_chunked = any(name == b"transfer-encoding" for name, _ in headers)
    if is_chunked or len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        raise MalformedAnswerError("an answer without a length")
    length = int(lengths[0])
    if length > MAX_ANSWER_BYTES:
        raise MalformedAnswerError("the answer is too long")
    return length
