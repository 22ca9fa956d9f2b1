"""Connections of urllib3 whose time-outs are for all addresses of a host together, and for a whole
response instead of each part of it. Otherwise, a server that sends a byte now and then would never
time out."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import allowed_gai_family

READ_TIMEOUT: ContextVar[float | None] = ContextVar("read_timeout", default=None)
"""Seconds for each read of a stream's body. The time-out of the request is then for the head only.
None: the response is not a stream."""


class LimitedReader(io.RawIOBase):
    """Reads from a socket. Its time-out, from the creation of the reader on, is for all reads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._timeout = sock.gettimeout()
        self._end = None if self._timeout is None else time.monotonic() + self._timeout
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._end is not None:
            remaining_s = self._end - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError("timed out")
            self._sock.settimeout(remaining_s)
        return self._raw.readinto(buffer)

    def limit_each_read(self, seconds: float) -> None:
        """Limit each read to this time, instead of all reads together."""
        self._end, self._timeout = None, seconds
        self._sock.settimeout(seconds)

    def close(self) -> None:
        if not self.closed and self._sock.fileno() >= 0:
            # otherwise the rest of the time would limit the sending of the next request on the
            # connection
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


class _LimitedConnection(HTTPConnection):
    response_class = _LimitedResponse

    def _new_conn(self) -> socket.socket:
        return _connect(self, super()._new_conn)


class _LimitedTlsConnection(HTTPSConnection):
    response_class = _LimitedResponse

    def _new_conn(self) -> socket.socket:
        return _connect(self, super()._new_conn)


def use_timed_connections(pool: HTTPConnectionPool) -> None:
    """Make the pool open connections of this module from now on."""
    tls = pool.scheme == "https"
    pool.ConnectionCls = _LimitedTlsConnection if tls else _LimitedConnection


def _connect(connection: HTTPConnection, connect: Callable[[], socket.socket]) -> socket.socket:
    """Connect to one of the host's addresses. Each address has a share of the time, so an address
    that hangs leaves time for the others. `connect` connects to one address, and may take all of
    the time. Raises the errors of `connect`."""
    host, timeout = connection._dns_host, connection.timeout
    addresses = _addresses(host, connection.port)
    if not addresses or not isinstance(timeout, (int, float)):
        return connect()
    end = time.monotonic() + timeout
    try:
        for remaining in range(len(addresses), 0, -1):
            connection._dns_host = addresses[-remaining]
            connection.timeout = max(end - time.monotonic(), 0.001) / remaining
            try:
                sock = connect()
            except (ConnectTimeoutError, NewConnectionError):
                if remaining == 1:
                    raise
            else:
                sock.settimeout(timeout)  # for the request
                return sock
    finally:
        connection._dns_host, connection.timeout = host, timeout
    raise AssertionError  # the last address returns or raises


def _addresses(host: str, port: int) -> list[str]:
    """The IP addresses of a host; empty if its name cannot be resolved."""
    try:
        results = socket.getaddrinfo(
            host.strip("[]"), port, allowed_gai_family(), socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        return []
    # the zone of an IPv6 address is a number next to it
    return list(
        dict.fromkeys(f"{a[0]}%{a[3]}" if len(a) > 3 and a[3] else str(a[0]) for *_, a in results)
    )
