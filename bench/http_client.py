"""Single HTTP requests, and many concurrent reads that check the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

from bench.records import PATH, key, value


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers (names in lower case) and body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def get(port: int, path: str, token: str = "") -> Answer | None:
    """GET on a new connection; None if the server does not answer within 5 s."""
    return request(port, path, token=token)


def request(
    port: int,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    timeout: float = 5.0,
    token: str = "",
) -> Answer | None:
    """Sends a request on a new connection, with JSON as its body; None if the server does not
    answer in `timeout` s."""
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        headers = [(name.lower(), text) for name, text in response.getheaders()]
        return Answer(response.status, headers, response.read())
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def wrong_answers(port: int, numbers: Sequence[int], connections: int = 4) -> list[str]:
    """Reads the records; describes each answer that is not a 200 with the record as written."""
    parts = [numbers[i::connections] for i in range(connections)]
    with ThreadPoolExecutor(connections) as threads:
        return [bad for part in threads.map(lambda p: _wrong(port, p), parts) for bad in part]


def _wrong(port: int, numbers: Sequence[int]) -> list[str]:
    bad = []
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        for number in numbers:
            name = key(number).decode()
            connection.request("GET", f"{PATH}/{name}")
            response = connection.getresponse()
            body = response.read()
            expected = b'{"key":"%b","value":%b}' % (key(number), value(number))
            if response.status != 200 or body != expected:
                bad.append(f"{name}: {response.status} {body[:200]!r}")
    finally:
        connection.close()
    return bad
