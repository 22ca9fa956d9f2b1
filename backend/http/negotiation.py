"""Content negotiation: chooses a representation by `Accept` (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backend.wire.answer import Header
from model.limits import MAX_ACCEPT_BYTES
from model.problems import BadRequest, NotAcceptable

NDJSON = b"application/x-ndjson"
ARROW = b"application/vnd.apache.arrow.stream"
STREAMS = (NDJSON, ARROW)
_JSON = ("application", "json")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_RANGE = re.compile(rf"\s*({_TOKEN})/({_TOKEN})\s*((?:;[^,]*)?)", re.ASCII)
_QUALITY = re.compile(r";\s*q=([01](?:\.[0-9]{0,3})?)\s*(?:;|$)", re.ASCII | re.IGNORECASE)


def accept_of(headers: Sequence[Header]) -> bytes:
    """The values of Accept, joined. Raises BadRequest if they are too long."""
    accept = b",".join(value for name, value in headers if name == b"accept")
    if len(accept) > MAX_ACCEPT_BYTES:
        raise BadRequest(
            "bad-request",
            f"Accept has {len(accept)} bytes; at most {MAX_ACCEPT_BYTES} are allowed.",
            header="accept",
            limit=MAX_ACCEPT_BYTES,
        )
    return accept


def stream_type(headers: Sequence[Header], offered: Sequence[bytes] = STREAMS) -> bytes | None:
    """The type of stream that the client names in Accept and prefers, also to JSON if it names
    that, too; None for JSON. Generated clients name all types of the OpenAPI document, and read
    JSON. Raises BadRequest."""
    accept = accept_of(headers)
    lowered = accept.lower()
    if not any(name in lowered for name in offered):
        return None
    ranges = _ranges(accept.decode("latin-1"))
    qualities = {name: ranges.get(_type_of(name), 0.0) for name in offered}
    best = max(offered, key=qualities.__getitem__)  # the first of several
    return best if qualities[best] > ranges.get(_JSON, 0.0) else None


def wants_lines(headers: Sequence[Header]) -> bool:
    """Whether the client prefers NDJSON to JSON. Raises BadRequest."""
    return stream_type(headers, (NDJSON,)) is not None


def _type_of(name: bytes) -> tuple[str, str]:
    first, _, second = name.decode().partition("/")
    return first, second


def chosen(headers: Sequence[Header], offered: Sequence[str]) -> str:
    """The best of `offered` for the request's Accept (RFC 9110, 12.5.1). Raises NotAcceptable,
    BadRequest.

    A header that cannot be parsed is ignored.
    """
    accept = accept_of(headers)
    if not accept or accept == b"*/*":
        return offered[0]
    ranges = _ranges(accept.decode("latin-1"))
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda name: _quality(name, ranges))  # the first of several
    if _quality(best, ranges) <= 0:
        types = ", ".join(f"application/{name}" for name in offered)
        raise NotAcceptable("not-acceptable", f"Supported types: {types}.")
    return best


def _ranges(accept: str) -> dict[tuple[str, str], float]:
    """(type, subtype) -> quality; `*` matches any."""
    ranges = {}
    for part in accept.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            continue
        quality = _QUALITY.search(match[3])
        ranges[(match[1].lower(), match[2].lower())] = float(quality[1]) if quality else 1.0
    return ranges


def _quality(name: str, ranges: dict[tuple[str, str], float]) -> float:
    """The quality of the most specific range that matches."""
    for accepted in (("application", name), ("application", "*"), ("*", "*")):
        if accepted in ranges:
            return ranges[accepted]
    return 0.0
