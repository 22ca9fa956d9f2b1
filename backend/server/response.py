"""The bytes of responses. Source: RFC 9112."""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus

from backend.wire.answer import Answer, problem_answer
from model.problems import Problem

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_CLOSE = b"connection: close\r\n"
# Problem codes of requests that do not reach the application; the proxy uses the same ones.
_CODES = {
    408: "request-timeout",
    414: "uri-too-long",
    431: "headers-too-large",
    500: "internal-error",
}


class _Clock:
    """The last lines of a header block, which all responses have; built once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = b""

    def lines(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            date = formatdate(now, usegmt=True).encode()
            self._lines = (
                b"Server: gunicorn/asgi\r\nX-Content-Type-Options: nosniff\r\nDate: %b\r\n\r\n"
                % date
            )
        return self._lines


_clock = _Clock()


def response(answer: Answer) -> bytes:
    """All bytes of a response. An Answer's headers are trusted, so line breaks are not checked."""
    parts = [_STATUS_LINES[answer.status]]
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    parts += (_clock.lines(), answer.body)
    return b"".join(parts)


def head(status: int, headers: list[tuple[bytes, bytes]], closes: bool) -> bytes:
    """Status line and headers. Raises ValueError if a header contains a line break."""
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status]
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
    if closes:
        parts.append(_CLOSE)
    lines = b"".join(parts)
    # otherwise a client could read a part of a value as a header or as another response
    expected = len(headers) + 1 + closes
    if lines.count(b"\n") != expected or lines.count(b"\r") != expected:
        raise ValueError(f"a response header contains a line break: {headers!r}")
    return lines + _clock.lines()


def error_response(status: int, message: str) -> bytes:
    """A problem document, after which the connection is closed."""
    problem = Problem(_CODES.get(status, "bad-request"), f"{message.rstrip('.')}.")
    problem.status, problem.title = status, HTTPStatus(status).phrase
    answer = problem_answer(problem, [(b"connection", b"close")])
    answer.headers.append((b"content-length", b"%d" % len(answer.body)))
    return response(answer)
