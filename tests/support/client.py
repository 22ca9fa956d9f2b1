"""An HTTP client that sends requests unchanged: no normalised paths, no redirects, no retries."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

TIMEOUT = 60.0  # s; long enough for a loaded machine


@dataclass(frozen=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of the problem document. Fails if the body is not one."""
        assert self.headers["Content-Type"] == "application/problem+json", self
        problem = self.json()
        assert problem["status"] == self.status
        assert {"type", "title", "code", "detail"} <= problem.keys()
        return str(problem["code"])


class Client:
    """One keep-alive connection to 127.0.0.1; for one thread. `context`: for TLS."""

    def __init__(
        self, port: int, timeout: float = TIMEOUT, context: ssl.SSLContext | None = None
    ) -> None:
        if context is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        else:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", port, timeout=timeout, context=context
            )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_connected(self) -> bool:
        """Whether the next request uses an open connection. The server may have closed it."""
        return self._connection.sock is not None

    def connect(self) -> None:
        self._connection.connect()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **named: str,
    ) -> Response:
        """`named` are headers with `_` for `-`; a body is JSON unless they say otherwise. A failed
        connection is closed; the next request opens a new one."""
        given = {name.replace("_", "-"): value for name, value in named.items()} | (headers or {})
        if body is not None and not any(name.lower() == "content-type" for name in given):
            given["Content-Type"] = "application/json"
        try:
            self._connection.request(method, path, body=body, headers=given)
            answer = self._connection.getresponse()
            try:
                return Response(answer.status, answer.headers, answer.read())
            except ConnectionError as error:
                raise http.client.HTTPException(f"the body ends early: {error!r}") from error
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if isinstance(error, OSError):
                raise
            raise ConnectionError(repr(error)) from error

    def get(self, path: str, **headers: str) -> Response:
        return self.request("GET", path, **headers)


def key_path(view: str, key: str | bytes) -> str:
    """The canonical path of a text key, percent-encoded."""
    return f"/views/{view}/keys/{quote(key, safe='')}"


def exchange(port: int, request: bytes) -> bytes:
    """All bytes that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def raw(port: int, request: bytes) -> Response:
    """Sends the bytes unchanged on a new connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            answer.close()
