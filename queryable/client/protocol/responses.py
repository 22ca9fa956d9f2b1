"""Reads responses, and raises errors for responses that are not from this API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from model.formats.json_decoder import decode_json
from queryable.client.protocol.errors import (
    QueryableError,
    ServerError,
    Unavailable,
    error_from_response,
    not_of_this_api,
)
from queryable.client.protocol.transport import (
    Call,
    CloseStream,
    ReadChunk,
    Response,
    TransportError,
)


@contextmanager
def decoding() -> Iterator[None]:
    """Wraps the decoding of a response. Raises ServerError if it is not a response of this API."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as e:
        if isinstance(e, QueryableError):
            raise
        raise ServerError("not-understood", f"Not a response of this API: {e!r}") from None


def json_of(response: Response) -> Any:
    """The JSON of a response with status 200. Raises QueryableError for any other status."""
    if response.status != 200:
        raise error_from_response(response.status, response.headers, response.body)
    try:
        return decode_json(response.body)
    except ValueError:
        raise not_of_this_api(200, response.headers, response.body) from None


def number_from_json(value: Any) -> Any:
    """A number from JSON, which has text for infinite numbers."""
    return float(value) if isinstance(value, str) else value


def unavailable(response: Any, body: bytes) -> Unavailable:
    """The error for a status of 500 or more. Raises it unless it is Unavailable."""
    error = error_from_response(response.status, response.headers, body)
    if not isinstance(error, Unavailable):
        raise error
    return error


def depends_on_view(response: Response) -> bool:
    """Whether the response depends on the definition of a view: a value, a missing key, or a
    request that is not valid for this definition."""
    if response.status in (400, 404):
        return "view-definition" in response.headers or _is_missing_key(response)
    return response.status == 200


def _is_missing_key(response: Response) -> bool:
    error = error_from_response(response.status, response.headers, response.body)
    return error.code == "key-not-found"


def read_all(stream: Any) -> Call[bytes]:
    """The rest of a stream's body, as far as it arrives; closes the stream."""
    chunks = []
    try:
        while chunk := (yield ReadChunk(stream)):
            chunks.append(chunk)
    except TransportError:
        pass  # the status is known; the rest of the body is not needed
    yield CloseStream(stream)
    return b"".join(chunks)
