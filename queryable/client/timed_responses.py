"""Responses of urllib3 whose time-out is a limit for the whole, and not for each part of them that
arrives: a server that sends a byte now and then would never be timed out."""

from __future__ import annotations

import http.client
import io
import socket
import time
from contextvars import ContextVar
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection

READ_TIMEOUT: ContextVar[float | None] = ContextVar("read_timeout", default=None)
"""Seconds for each read of a stream's body: the limit is for its head only. None: no stream."""


class LimitedReader(io.RawIOBase):
    """Reads from a socket until its time-out, counted from now on, is over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._timeout = sock.gettimeout()
        self._end = None if self._timeout is None else time.monotonic() + self._timeout
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._end is not None:
            left = self._end - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def limit_each_read(self, seconds: float) -> None:
        """Instead of all of them together."""
        self._end, self._timeout = None, seconds
        self._sock.settimeout(seconds)

    def close(self) -> None:
        if not self.closed and self._sock.fileno() >= 0:
            # what is left would be the limit for sending the next request of the connection
            self._sock.settimeout(self._timeout)
        self._raw.close()
        super().close()


class _LimitedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._limited = LimitedReader(sock)
        self.fp = io.BufferedReader(self._limited)

    def begin(self) -> None:
        super().begin()
        if (seconds := READ_TIMEOUT.get()) is not None:
            self._limited.limit_each_read(seconds)


class LimitedConnection(HTTPConnection):
    response_class = _LimitedResponse


class LimitedTlsConnection(HTTPSConnection):
    response_class = _LimitedResponse
