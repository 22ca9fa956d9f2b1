"""Reading the body of a request, within a bound."""

from __future__ import annotations

from backend.api.asgi import Receive
from backend.core.errors import BadRequest


async def read_body(receive: Receive, most: int) -> bytes:
    """The whole body; BadRequest if it is too large or does not come."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest("bad-request", "The body has not come to its end.")
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > most:
            raise BadRequest("body-too-large", f"A body has {most} bytes at most.")
        if not message.get("more_body"):
            return b"".join(parts)
