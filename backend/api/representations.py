"""In which form a reader gets a value: what `Accept` asks for, and what a view can give."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backend.api.answer import Header
from backend.core.avro_codecs import AvroCodec, ConfluentCodec
from backend.core.codecs import Codec
from backend.core.errors import BadRequest, NotAcceptable
from backend.core.limits import MOST_ACCEPT_BYTES
from backend.core.views import View

JSON = "json"
OCTETS = "octet-stream"
AVRO = "avro"
NDJSON = b"application/x-ndjson"

VARY: Header = (b"vary", b"accept")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_RANGE = re.compile(rf"\s*({_TOKEN})/({_TOKEN})\s*((?:;[^,]*)?)", re.ASCII)
_QUALITY = re.compile(r";\s*q=([01](?:\.[0-9]{0,3})?)\s*(?:;|$)", re.ASCII | re.IGNORECASE)


def offered(view: View) -> tuple[str, ...]:
    """What a value of the view can be had as; the first where the reader does not mind."""
    if view.is_custom:
        return (JSON,)  # what its class makes of the records
    return (JSON, OCTETS, AVRO) if view.value == "avro" else (JSON, OCTETS)


def accept_of(headers: Sequence[Header]) -> bytes:
    """The request's Accept, all of it in one line; BadRequest if it is too long."""
    given = b",".join(value for name, value in headers if name == b"accept")
    if len(given) > MOST_ACCEPT_BYTES:
        raise BadRequest(
            "bad-request",
            f"Accept has {len(given)} bytes; at most {MOST_ACCEPT_BYTES} are allowed.",
            header="accept",
            limit=MOST_ACCEPT_BYTES,
        )
    return given


def wants_lines(headers: Sequence[Header]) -> bool:
    """Whether the reader accepts NDJSON; BadRequest."""
    accepted = accept_of(headers).lower()
    return any(each.split(b";")[0].strip() == NDJSON for each in accepted.split(b","))


def chosen(headers: Sequence[Header], of: Sequence[str]) -> str:
    """One of `of`, by the request's Accept (RFC 9110, 12.5.1); NotAcceptable, BadRequest.

    A header that says nothing that can be read is none.
    """
    given = accept_of(headers)
    if not given or given == b"*/*":
        return of[0]
    ranges = _ranges(given.decode("latin-1"))
    if not ranges:
        return of[0]
    best = max(of, key=lambda name: _quality(name, ranges))  # the first of equals
    if _quality(best, ranges) <= 0:
        types = ", ".join(f"application/{name}" for name in of)
        raise NotAcceptable("not-acceptable", f"This is to be had as {types}.")
    return best


def _ranges(accept: str) -> dict[tuple[str, str], float]:
    """(type, subtype) -> quality; `*` stands for any."""
    ranges = {}
    for part in accept.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            continue
        quality = _QUALITY.search(found[3])
        ranges[(found[1].lower(), found[2].lower())] = float(quality[1]) if quality else 1.0
    return ranges


def _quality(name: str, ranges: dict[tuple[str, str], float]) -> float:
    """By the range that is closest to it."""
    for accepted in (("application", name), ("application", "*"), ("*", "*")):
        if accepted in ranges:
            return ranges[accepted]
    return 0.0


def represented(kind: str, raw: bytes, codec: Codec) -> tuple[list[Header], bytes]:
    """Headers and body of a value's record bytes as octets or as Avro."""
    content_type = (b"content-type", f"application/{kind}".encode())
    if kind == OCTETS:
        return [content_type, VARY], raw
    assert isinstance(codec, AvroCodec | ConfluentCodec)
    avro = codec.avro(raw)
    headers = [
        content_type,
        VARY,
        (b"schema-fingerprint", avro.schema.fingerprint.encode()),
    ]
    if avro.schema_id is not None:
        headers.append((b"schema-id", b"%d" % avro.schema_id))
    return headers, avro.raw
