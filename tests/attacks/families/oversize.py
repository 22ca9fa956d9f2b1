"""Requests that are too large in one dimension, and pathological parameters and patterns."""

from __future__ import annotations

from tests.attacks.attack import REFUSALS, VIEW, Attack, both, each, get, post, within
from tests.support.security.hostile import headers, uris

_KEYS = f"/views/{VIEW}/keys"
_BATCH = f"/views/{VIEW}/batch"
_SEARCH = f"/views/{VIEW}/search"
_TOP = f"/views/{VIEW}/top"
_MB = 1 << 20

_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_HUGE_LENGTH = (
    b"POST /views/orders/search HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999\r\n\r\n{"
)


def _chunked(path: str, chunks: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: a\r\n%b\r\n%b" % (path.encode(), _CHUNKED, chunks)


_URIS = [get(uri) for _, uri in uris()]
_HEADERS = [get(f"{_KEYS}/order%201", lines) for _, lines in headers()]

_PARAMETERS = [
    get(f"{_KEYS}?" + "&".join(f"p{n}=1" for n in range(500))),
    get(f"{_KEYS}?limit=" + "9" * 5000),
    get(f"{_KEYS}?limit=-1"),
    get(f"{_KEYS}?limit=1e9"),
    get(f"{_KEYS}?cursor=" + "A" * 20_000),
    get(f"{_KEYS}?from=%00&to=%ff&order=%00"),
    get(f"{_KEYS}/order%201?min_offset=" + "1:1," * 8000),
    get(f"{_KEYS}/order%201?stale=" + "x" * 20_000),
    get(f"{_KEYS}/order%201?encoding=base64url&encoding=base64url"),
    get(f"{_KEYS}/" + "%41" * 10_000),
    get(f"/views/{VIEW}/windows?from=" + "9" * 60),
]
_PATTERNS = [
    get(f"{_TOP}?by=" + "a." * 500),
    get(f"{_TOP}?by=" + "." * 1000),
    get(f"{_TOP}?by=" + "a." * 5000),
    get(f"{_TOP}?by=" + "%5B" * 900),
    get(f"{_TOP}?n=99999999999&by=of"),
    get(f"/views/{VIEW}/aggregate?by=" + "x." * 15 + "x&value=" + "y." * 15 + "y"),
    get(f"/views/{VIEW}/count?prefix=" + "a" * 20_000),
    get(f"{_KEYS}?prefix=" + "%EF%BF%BF" * 2000),
    get(f"{_KEYS}?from=z&to=a"),
]
_ANY = frozenset([*REFUSALS, "200"])  # of hostile URIs, some are valid keys

ATTACKS: list[Attack] = [
    *both(
        "long-request-line",
        "414",
        each(get("/" + "a" * 100_000), get(f"/{'a/' * 50_000}"), b"GET /" + b"a" * 400_000),
    ),
    *both("hostile-uris", "bounded work each", within(5.0, *_URIS)),
    *both("hostile-headers", "bounded work each", within(5.0, *_HEADERS)),
    *both(
        "large-headers",
        "431",
        each(
            get("/views", b"X: y\r\n" * 200_000), get("/views", b"X: " + b"y" * 200_000 + b"\r\n")
        ),
    ),
    *both("large-bodies", "413 or 400", each(_HUGE_LENGTH, post(_SEARCH, b"[" * (4 * _MB)))),
    *both(
        "large-chunks",
        "413 or 400",
        each(
            _chunked(_SEARCH, b"300000\r\n" + b"[" * 0x300000 + b"\r\n0\r\n\r\n"),
            _chunked(_SEARCH, b"1;" + b"x" * 300_000 + b"\r\n[\r\n0\r\n\r\n"),
            _chunked(_SEARCH, b"0\r\n" + b"X: y\r\n" * 100_000),
        ),
    ),
    *both("many-chunks", "400", each(_chunked(_SEARCH, b"1\r\n[\r\n" * 200_000 + b"0\r\n\r\n"))),
    *both("many-keys", "400", each(post(_BATCH, b'{"keys":[%b"a"]}' % (b'"a",' * 5000)))),
    *both("pathological-parameters", "400 or 404", each(*_PARAMETERS, only=_ANY)),
    *both("pathological-patterns", "400, or bounded work", within(5.0, *_PATTERNS)),
]
