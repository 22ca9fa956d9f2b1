"""Reads request bodies, with a limit for each and one for all that are in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from backend.http.asgi import Message, Receive
from backend.queries.turns import INSTANCES, this_client
from backend.wire.answer import Header
from model.limits import check_json
from model.problems import BadRequest, Unavailable, UnsupportedMediaType

JSON_TYPE = b"application/json"

MAX_BYTES_IN_FLIGHT = 64 << 20


def media_type(headers: list[Header]) -> bytes:
    """The media type of the body, in lower case and without parameters; empty if none is given."""
    given = [value for name, value in headers if name == b"content-type"]
    return given[0].split(b";")[0].strip().lower() if len(given) == 1 else b""


def require_json(headers: list[Header]) -> None:
    """Raise UnsupportedMediaType unless the body is JSON.

    A page in a browser may send a body of another type, or of none, to any server without a
    preflight request.
    """
    if media_type(headers) != JSON_TYPE:
        raise UnsupportedMediaType(
            "unsupported-media-type", "Send the body as Content-Type: application/json."
        )


def json_of(body: bytes) -> Any:
    """The JSON document of a body. Raises BadRequest if it is none, or has too many parts."""
    check_json(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise BadRequest("bad-request", f"The body is not JSON: {e}.") from None


class BodyBudget:
    """Limits the bytes of the bodies of all requests in flight. Used in the event loop.

    One client may use three quarters of this limit, so it cannot keep other clients out.
    """

    def __init__(self, size: int = MAX_BYTES_IN_FLIGHT) -> None:
        self.left = size
        self._share = size - size // 4
        self._by_client: Counter[str] = Counter()

    @contextmanager
    def counted(self, receive: Receive) -> Iterator[Receive]:
        """Yields a `receive` for one request. It raises Unavailable when the budget is exceeded.
        The bytes count until the request ends."""
        buffered = 0
        client = this_client()

        async def receive_counted() -> Message:
            nonlocal buffered
            message = await receive()
            size = len(message.get("body", b""))
            used = self._by_client[client] + size
            if size > self.left or (used > self._share and client != INSTANCES):
                raise Unavailable("overloaded", "The bodies of requests in flight are too large.")
            self.left -= size
            self._by_client[client] = used
            buffered += size
            return message

        try:
            yield receive_counted
        finally:
            self.left += buffered
            self._by_client[client] -= buffered
            if not self._by_client[client]:
                del self._by_client[client]


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """The whole body. Raises BadRequest if it is too large or incomplete."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest("bad-request", "The body is incomplete.")
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise BadRequest("body-too-large", f"A body has {max_bytes} bytes at most.")
        if not message.get("more_body"):
            return b"".join(chunks)
