"""HTTP requests as they are written: no path is normalised, nothing is followed or tried again."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

TIMEOUT = 20


@dataclass(frozen=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One keep-alive connection to 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        self._connection.request(method, path, body=body, headers=dict(headers or {}))
        answer = self._connection.getresponse()
        return Response(answer.status, answer.headers, answer.read())

    def get(self, path: str, **headers: str) -> Response:
        return self.request("GET", path, headers=headers)


def raw(port: int, request: bytes) -> Response:
    """Sends the bytes as they are, on a connection of their own."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            answer.close()
