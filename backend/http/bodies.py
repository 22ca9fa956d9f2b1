"""Reads request bodies, within a bound for each and for all that are in flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backend.http.asgi import Message, Receive
from model.problems import BadRequest, Unavailable

MOST_BYTES = 64 << 20  # of the bodies of requests in flight


class BodyBudget:
    """Bytes that the bodies of all requests in flight may have. Used in the event loop."""

    def __init__(self, size: int = MOST_BYTES) -> None:
        self.left = size

    @contextmanager
    def counted(self, receive: Receive) -> Iterator[Receive]:
        """For one request: its `receive`, which raises Unavailable where a part of the body exceeds
        the budget. The parts count until the request is over."""
        buffered = 0

        async def receive_counted() -> Message:
            nonlocal buffered
            message = await receive()
            size = len(message.get("body", b""))
            if size > self.left:
                raise Unavailable("overloaded", "The bodies of requests in flight are too large.")
            self.left -= size
            buffered += size
            return message

        try:
            yield receive_counted
        finally:
            self.left += buffered


async def read_body(receive: Receive, most: int) -> bytes:
    """The whole body; BadRequest if it is too large or incomplete."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest("bad-request", "The body is incomplete.")
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > most:
            raise BadRequest("body-too-large", f"A body has {most} bytes at most.")
        if not message.get("more_body"):
            return b"".join(parts)
