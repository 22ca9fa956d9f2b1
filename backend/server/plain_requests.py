"""HTTP requests that can be told apart without a parser: whole ones of the plainest form.

A pattern matches all of what a connection has received, or nothing: whatever it does not match is a
parser's to read. Sources: RFC 9110 and 9112.
"""

from __future__ import annotations

import re

MOST_BYTES = 4096
"""Of a GET that is worth looking at, and of a path that travels with others."""

# of a path: printable ASCII but "#" and "?", and no parser may see anything else in it
_TARGET = rb"/[!-\"$->@-~]*"
_PATH = re.compile(_TARGET)
_LINES_OF_PATHS = bytes(c for c in range(0x21, 0x7F) if c not in b"#?") + b"\n"

# Exactly one Host; of the rest only what can ask for nothing but the ordinary answer.
_GET = re.compile(
    rb"GET (" + _TARGET + rb") HTTP/1\.1\r\n"
    rb"[Hh]ost: [!-~]+\r\n"
    rb"(?:(?i:user-agent|accept-encoding|accept-language|cookie|referer|origin|cache-control|pragma"
    rb"|via|dnt|priority|sec-[a-z-]+|x-request-id|x-forwarded-for|x-real-ip|traceparent|tracestate"
    rb"|queryable-final-status): [ -~]*\r\n"
    rb"|(?i:accept): (?:\*/\*|application/json)\r\n"
    rb"|(?i:connection): keep-alive\r\n)*"
    rb"\r\n"
)
# as proxy/point_batch_client.lua writes it
_READS = re.compile(
    rb"POST /internal/reads HTTP/1\.1\r\nHost: [!-~]+\r\nContent-Length: ([0-9]{1,7})\r\n\r\n"
)


def path_of_get(data: bytes) -> bytes | None:
    """The raw path of a GET without query that asks for nothing out of the ordinary."""
    if len(data) > MOST_BYTES:
        return None
    found = _GET.fullmatch(data)
    return found[1] if found else None


def body_of_reads(data: bytes) -> bytes | None:
    """The body of a request with which the proxy sends point reads together."""
    found = _READS.match(data)
    if found is None or len(data) - found.end() != int(found[1]):
        return None
    return data[found.end() :]


def are_plain(lines: bytes) -> bool:
    """Whether none of these lines has a byte that no plain path has; costs a millisecond a MB."""
    return not lines.translate(None, _LINES_OF_PATHS)


def is_plain(path: bytes) -> bool:
    """Whether a GET of this path, without query, is one that `path_of_get` may recognise."""
    return len(path) <= MOST_BYTES and _PATH.fullmatch(path) is not None
