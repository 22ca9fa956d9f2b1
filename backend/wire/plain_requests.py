"""Recognises complete HTTP requests of the simplest form without a parser.

A pattern matches either all bytes that a connection has received, or nothing. The HTTP parser reads
all requests that do not match. Sources: RFC 9110 and 9112.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAC_SIZE = 32
"""The number of hex digits of a signature with the key of the connection
(`backend.security.connection_key`)."""
MAX_BYTES = 4096
"""The maximum size of a plain GET without its token, and of a path in a coalesced request."""
MAX_TOKEN_BYTES = 8192
"""The maximum size of a token (RFC 6750) in a plain GET or a coalesced request."""

# A path: printable ASCII without "#" and "?", which every parser reads in the same way.
_TARGET = rb"/[!-\"$->@-~]*"

TOKEN = rb"[A-Za-z0-9._~+/-]+=*"
"""The pattern of a token (RFC 6750, 2.1)."""
_IS_TOKEN = re.compile(TOKEN)

# Headers that must not change the response. Possessive: it never goes back to an earlier line.
_OTHERS = (
    rb"(?:(?i:user-agent|accept-encoding|accept-language|cookie|referer|cache-control|pragma"
    rb"|via|dnt|priority|sec-(?!fetch-site:)[a-z-]+|x-request-id|x-forwarded-for|x-real-ip"
    rb"|traceparent|tracestate|queryable-final-status|queryable-client): [ -~]*\r\n"
    rb"|(?i:accept): (?:\*/\*|application/json)\r\n"
    rb"|(?i:sec-fetch-site): (?:same-origin|same-site|none)\r\n"
    rb"|(?i:connection): keep-alive\r\n)*+"
)
# Exactly one Host header, and at most one token.
_GET = re.compile(
    rb"GET (" + _TARGET + rb") HTTP/1\.1\r\n"
    rb"[Hh]ost: [!-~]+\r\n"
    + _OTHERS
    + rb"(?:(?i:authorization: bearer) +("
    + TOKEN
    + rb")\r\n"
    + _OTHERS
    + rb")?\r\n"
)
# The request that proxy/reads/point_batch_client.lua sends, or another instance.
_READS = re.compile(
    rb"POST /internal/reads HTTP/1\.1\r\nHost: [!-~]+\r\n"
    rb"(?:queryable-forwarded: [!-~]+\r\n)?"
    rb"(?:(?i:queryable-signature): ([0-9A-Za-z:]{1,256})\r\n)?"
    rb"Content-Length: ([0-9]{1,7})\r\n\r\n"
)

# The request that backend/cluster/peer_posts.py sends.
_HEARTBEAT = re.compile(
    rb"POST /internal/heartbeat HTTP/1\.1\r\nHost: [!-~]+\r\n"
    rb"queryable-forwarded: [!-~]+\r\n"
    rb"(?:queryable-signature: ([0-9a-f:]{1,256})\r\n)?"
    rb"Content-Length: ([0-9]{1,4})\r\n\r\n"
)

# Heads that _READS has matched: up to the length, without a signature; and up to a signature with
# the key of the connection. Looking up a head takes a fraction of the time of matching the pattern,
# because the pattern's code is not in the processor's caches.
_unsigned_heads: set[bytes] = set()
_keyed_heads: set[bytes] = set()
_BEFORE_LENGTH = b"\r\nContent-Length:"
_SIGNATURE_SLICE = slice(-MAC_SIZE - len(_BEFORE_LENGTH), -len(_BEFORE_LENGTH))
_MAX_KNOWN_HEADS, _MAX_KNOWN_HEAD_BYTES = 1000, 512

# The request with which proxy/discovery.lua asks whether the topology has changed.
_POLL = re.compile(
    rb"GET /processors HTTP/1\.1\r\nHost: ([!-~]+)\r\n"
    rb'Accept: application/json\r\nIf-None-Match: ("[!#-~]{1,64}")\r\n'
    rb"(?:Queryable-Signature: ([0-9a-f:]{1,256})\r\n)?\r\n"
)


class PlainPoll(NamedTuple):
    """The proxy's request for a topology with another ETag. `signature`: None without a cluster
    secret."""

    host: bytes
    etag: bytes
    signature: bytes | None


class PlainPost(NamedTuple):
    """A proxy's or an instance's request for coalesced point reads, or a heartbeat. `signature`:
    None without a cluster secret."""

    signature: bytes | None
    body: bytes


def plain_get(data: bytes) -> tuple[bytes, bytes | None] | None:
    """The raw path of a plain GET without a query string, and its token, if it has one; None for
    other requests."""
    if len(data) > MAX_BYTES + MAX_TOKEN_BYTES or (match := _GET.fullmatch(data)) is None:
        return None
    path, token = match.groups()
    token_size = 0 if token is None else len(token)
    if token_size > MAX_TOKEN_BYTES or len(data) - token_size > MAX_BYTES:
        return None
    return path, token


def is_traced(get: bytes) -> bool:
    """Whether a plain GET has an id for the logs."""
    return b"\ntraceparent:" in get.lower()


def host_of_get(data: bytes) -> bytes:
    """The value of Host of a plain GET."""
    start = data.index(b"\n") + len(b"\nHost: ")
    return data[start : data.index(b"\r", start)]


def plain_reads(data: bytes) -> PlainPost | None:
    """A request for coalesced point reads; None for other requests."""
    head, is_complete, body = data.partition(b"\r\n\r\n")
    before, _, length = head.rpartition(b" ")
    if is_complete and len(length) < 8 and length.isdigit() and int(length) == len(body):
        if before in _unsigned_heads:
            return tuple.__new__(PlainPost, (None, body))
        if before[: _SIGNATURE_SLICE.start] in _keyed_heads and before.endswith(_BEFORE_LENGTH):
            signature = before[_SIGNATURE_SLICE]
            if signature.isalnum():
                return tuple.__new__(PlainPost, (signature, body))
    match = _READS.match(data)
    if match is None or len(data) - match.end() != int(match[2]):
        return None
    given = match[1]
    if given is None:
        _remember(data[: match.start(2) - 1], _unsigned_heads)
    elif len(given) == MAC_SIZE and given.isalnum():
        _remember(data[: match.start(1)], _keyed_heads)
    return PlainPost(given, data[match.end() :])


def _remember(head: bytes, known: set[bytes]) -> None:
    if len(head) <= _MAX_KNOWN_HEAD_BYTES:
        if len(known) >= _MAX_KNOWN_HEADS:
            known.clear()
        known.add(head)


def plain_heartbeat(data: bytes) -> PlainPost | None:
    """A heartbeat of another instance; None for other requests."""
    match = _HEARTBEAT.match(data)
    if match is None or len(data) - match.end() != int(match[2]):
        return None
    return PlainPost(match[1], data[match.end() :])


def plain_poll(data: bytes) -> PlainPoll | None:
    """The proxy's request for another topology; None for other requests."""
    match = _POLL.fullmatch(data)
    return None if match is None else PlainPoll(match[1], match[2], match[3])


def is_token(text: bytes) -> bool:
    """Whether `plain_get` can recognise a GET with this token."""
    return len(text) <= MAX_TOKEN_BYTES and _IS_TOKEN.fullmatch(text) is not None
