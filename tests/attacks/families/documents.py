"""Bodies that are small and expensive: nested JSON, bombs in Avro and Protobuf, compressed ones."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache

from tests.attacks.attack import VIEW, Attack, Attempt, Perform, both, each, post

_BATCH = f"/views/{VIEW}/batch"
_SEARCH = f"/views/{VIEW}/search"
_OCTETS = b"Content-Type: application/octet-stream\r\n"


def _append(
    view: str, body: bytes, headers: bytes = b"Content-Type: application/json\r\n"
) -> Perform:
    """POST to the topic of a view, whose name only the site knows."""

    async def perform(attempt: Attempt) -> None:
        topic = attempt.site.topic + (f"-{view}" if view != VIEW else "")
        await each(post(f"/topics/{topic}/records", body, headers))(attempt)

    return perform


def _long(number: int) -> bytes:
    """An Avro long."""
    encoded, rest = b"", (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        encoded += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return encoded + bytes([rest])


def _url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


# an array that says that it has a billion numbers
_AVRO_BOMB = _long(1_000_000_000) + _long(0) + _long(0)
# a record in a record in a record
_AVRO_DEEP = (_long(0) + _long(1)) * 200_000 + _long(0) + _long(0)


def _protobuf_deep(levels: int) -> bytes:
    """shop.Order.next (field 12) in itself."""
    inner = b""
    for _ in range(levels):
        size, length = len(inner), b""
        while size > 0x7F:
            length += bytes([size & 0x7F | 0x80])
            size >>= 7
        inner = b"\x62" + length + bytes([size]) + inner
    return inner


_PROTOBUF_DEEP = _protobuf_deep(2000)
_PROTOBUF_WIDE = b"\x22\x00" * 300_000  # shop.Order.tags: empty strings

_GZIP = b"Content-Type: application/json\r\nContent-Encoding: gzip\r\n"


@cache
def _bomb() -> bytes:
    """100 KB that become 100 MB."""
    return gzip.compress(b'{"keys":["' + b"a" * (100 << 20) + b'"]}', 1)


async def _gzip_bomb(attempt: Attempt) -> None:
    await each(post(_BATCH, _bomb(), _GZIP))(attempt)


def _valued(raw: bytes) -> bytes:
    return json.dumps({"key": "bomb", "value": _url(raw)}).encode()


ATTACKS: list[Attack] = [
    *both(
        "deep-json",
        "400",
        each(
            post(_BATCH, b"[" * 500_000),
            post(_BATCH, b'{"keys":' * 30_000),
            post(_SEARCH, b'{"query":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
            post(_SEARCH, b'{"query":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}"),
        ),
    ),
    *both(
        "wide-json",
        "400",
        each(
            post(_BATCH, b'{"keys":[%b1]}' % (b"1," * 400_000)),
            post(_BATCH, b'{"keys":[%b""]}' % (b'"",' * 30_000)),
            post(_SEARCH, b'{%b"query":"a"}' % (b'"a":1,' * 10_000)),
        ),
    ),
    *both(
        "odd-json",
        "400",
        each(
            post(_SEARCH, b'{"query":' + b"9" * 500_000 + b"}"),
            post(_SEARCH, b'{"query":1e999999}'),
            post(_SEARCH, b'{"query":"' + b"\\u0041" * 100_000 + b'"}'),
            post(_SEARCH, b'{"query":"\xff\xfe"}'),
            post(_SEARCH, b'{"query":"\\ud800"}'),
            post(_SEARCH, b'{"query":NaN}'),
            post(_BATCH, b'{"keys":[' + b"-" * 30_000 + b"]}"),
        ),
    ),
    *both("gzip-bomb", "the body is not unpacked: 400 or 415", _gzip_bomb),
    *both(
        "avro-bombs",
        "400",
        each(
            post("/views/avro/search", _AVRO_BOMB, _OCTETS),
            post("/views/avro/search", _long(-5) + _long(1 << 40), _OCTETS),
            post("/views/avro/search", _AVRO_DEEP[:8000], _OCTETS),
        ),
    ),
    *both("protobuf-deep", "400", _append("protobuf", _valued(_PROTOBUF_DEEP))),
    *both("protobuf-wide", "400", _append("protobuf", _valued(_PROTOBUF_WIDE))),
    *both(
        "append-deep-json",
        "400",
        _append(VIEW, b'{"key":"a","value":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    ),
]
