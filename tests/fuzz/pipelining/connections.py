"""Bursts of requests over several connections; each answer is checked."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from typing import BinaryIO

from tests.fuzz.pipelining.requests import Answer, Request

LONGEST = 40
"""Requests of a burst."""
EVENTS = "text/event-stream"

MakeRequest = Callable[[random.Random], Request]


class WrongAnswer(AssertionError):
    """An answer that is not the one of its request."""


class Closed(WrongAnswer):
    """No answer, because the connection was closed."""


def run(
    port: int, make: MakeRequest, requests: int, random_: random.Random, connections: int
) -> int:
    """Sends `requests` in bursts over alternating connections. Returns how many were answered;
    WrongAnswer."""
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(_Connection(port))) for _ in range(connections)]
        answered = 0
        while answered < requests:
            bursts = [[make(random_) for _ in range(random_.randint(1, LONGEST))] for _ in opened]
            for connection, burst in zip(opened, bursts, strict=True):
                connection.send(b"".join(request.data for request in burst), random_)
            for connection, burst in zip(opened, bursts, strict=True):
                answered += connection.receive(burst)
        return answered


def answer_to(port: int, request: Request) -> Answer:
    """On a connection of its own, unchecked."""
    with closing(_Connection(port)) as connection:
        connection.send(request.data, random.Random(1))
        return connection.read(request)


class _Connection:
    """A connection that is opened again when the server has said that it closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        self._stream = self._socket.makefile("rb")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _reopen(self) -> None:
        self.close()
        self._open()

    def send(self, data: bytes, random_: random.Random) -> None:
        """In one or two pieces, so that requests are split anywhere."""
        at = random_.randint(0, len(data)) if random_.random() < 0.5 else len(data)
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` finds out why
            self._socket.sendall(data[:at])
            self._socket.sendall(data[at:])

    def receive(self, burst: Sequence[Request]) -> int:
        """Checks the answers; returns how many there are.

        A stream of changes does not end: the connection is closed after its first event, and the
        requests behind it have no answer. Neither have those behind a request that was refused
        before its body had arrived, because the server closes the connection then. A reset can
        erase the last answers before they are read (RFC 9112, 9.6).
        """
        for count, request in enumerate(burst, 1):
            try:
                answer = self.read(request)
            except Closed:
                if not any(each.closes for each in burst[count - 1 :]):
                    raise
                self._reopen()
                return count - 1
            _check(request, answer)
            if answer.headers.get("connection") == "close" or _is_stream(answer):
                self._reopen()
                return count
        return len(burst)

    def read(self, request: Request) -> Answer:
        """The next answer, which should be that of the request."""
        return _read(self._stream, request.has_body)


def is_answer(request: Request, answer: Answer) -> bool:
    """Whether the answer is that of the request."""
    try:
        return request.check(answer)
    except (ValueError, LookupError, TypeError):
        return False


def _check(request: Request, answer: Answer) -> None:
    if not is_answer(request, answer):
        status, headers, body = answer
        raise WrongAnswer(f"{request.data!r} got {status} {headers} {body[:1000]!r}")


def _is_stream(answer: Answer) -> bool:
    return answer.headers.get("content-type", "").startswith(EVENTS)


def _read(stream: BinaryIO, has_body: bool) -> Answer:
    """The next response. Of a stream of events, the body is the first one."""
    try:
        line = stream.readline()
    except ConnectionResetError:
        line = b""
    if not line:
        raise Closed("the connection was closed before all answers")
    if not line.startswith(b"HTTP/1.1 "):
        raise WrongAnswer(f"not the beginning of a response: {line!r}")
    status = int(line.split()[1])
    headers: dict[str, str] = {}
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if not has_body or status in (204, 304):
        return Answer(status, headers, b"")
    if headers.get("transfer-encoding") != "chunked":
        return Answer(status, headers, stream.read(int(headers["content-length"])))
    answer = Answer(status, headers, b"")
    is_stream, body = _is_stream(answer), b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        stream.readline()
        if is_stream and b"\n\n" in body:
            return answer._replace(body=body)
    stream.readline()
    return answer._replace(body=body)
