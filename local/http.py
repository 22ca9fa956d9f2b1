"""A small HTTP client for readiness checks and example answers."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """``status`` 0: no answer; ``body`` has the error."""

    status: int
    headers: dict[str, str]
    body: bytes


def get(url: str, timeout: float = 5.0, headers: Mapping[str, str] | None = None) -> Answer:
    """GET of an http URL. The path is sent unchanged; header names are in lower case."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET", target, headers=dict(headers or {}))
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, {}, str(error).encode())
    finally:
        connection.close()
