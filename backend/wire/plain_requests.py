"""Recognises complete HTTP requests of the simplest form without a parser.

A pattern matches either all bytes that a connection has received, or nothing. The HTTP parser reads
all requests that do not match. Sources: RFC 9110 and 9112.
"""

from __future__ import annotations

import re

MAX_BYTES = 4096
"""The maximum size of a plain GET, and of a path in a coalesced request."""

# A path: printable ASCII without "#" and "?", which every parser reads in the same way.
_TARGET = rb"/[!-\"$->@-~]*"
_PATH = re.compile(_TARGET)
_LINES_OF_PATHS = bytes(c for c in range(0x21, 0x7F) if c not in b"#?") + b"\n"

# Exactly one Host header; the other headers must not change the response.
_GET = re.compile(
    rb"GET (" + _TARGET + rb") HTTP/1\.1\r\n"
    rb"[Hh]ost: [!-~]+\r\n"
    rb"(?:(?i:user-agent|accept-encoding|accept-language|cookie|referer|cache-control|pragma"
    rb"|via|dnt|priority|sec-(?!fetch-site:)[a-z-]+|x-request-id|x-forwarded-for|x-real-ip|traceparent|tracestate"
    rb"|queryable-final-status): [ -~]*\r\n"
    rb"|(?i:accept): (?:\*/\*|application/json)\r\n"
    rb"|(?i:sec-fetch-site): (?:same-origin|same-site|none)\r\n"
    rb"|(?i:connection): keep-alive\r\n)*"
    rb"\r\n"
)
# The request that proxy/point_batch_client.lua sends.
_READS = re.compile(
    rb"POST /internal/reads HTTP/1\.1\r\nHost: [!-~]+\r\nContent-Length: ([0-9]{1,7})\r\n\r\n"
)


def path_of_get(data: bytes) -> bytes | None:
    """The raw path of a plain GET without a query string; None for other requests."""
    if len(data) > MAX_BYTES:
        return None
    match = _GET.fullmatch(data)
    return match[1] if match else None


def host_of_get(data: bytes) -> bytes:
    """The value of Host of a plain GET."""
    start = data.index(b"\n") + len(b"\nHost: ")
    return data[start : data.index(b"\r", start)]


def body_of_reads(data: bytes) -> bytes | None:
    """The body of the proxy's request for coalesced point reads; None for other requests."""
    match = _READS.match(data)
    if match is None or len(data) - match.end() != int(match[1]):
        return None
    return data[match.end() :]


def are_plain(lines: bytes) -> bool:
    """Whether the lines contain only bytes that a plain path can have. Takes 1 ms per MB."""
    return not lines.translate(None, _LINES_OF_PATHS)


def is_plain(path: bytes) -> bool:
    """Whether `path_of_get` can recognise a GET of this path."""
    return len(path) <= MAX_BYTES and _PATH.fullmatch(path) is not None
