"""Framing of coalesced point reads from the proxy to a backend.

    request   raw paths, unchanged, one per line: those of reads without a token; then, for each
              token, a line `token:TOKEN` and the paths of its reads
    response  "QTR1"
              number of items, number of heads, length of the epoch
              per head: status, length of its lines
              per item: number of its head, length of its ETag, length of its body
              the epoch, the lines of each head, and the ETag and body of each item

Each token is named once. The items are in the order of the paths in the request.

Numbers are 4 B, little-endian. Many items share a head. Its lines are `name: value`, each ended by
a line feed, in the order in which they are sent. All items have the same Topology-Epoch, so it is
sent once. If the number of an item's head is ALONE, the proxy must send that request separately.
The proxy's side is proxy/point_batch.lua.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

MAGIC = b"QTR1"
ALONE = 0xFFFF_FFFF
MAX_LINES = 1024
"""The maximum number of reads and tokens of a request."""

_TOKEN = b"\ntoken:"


ReadsOfToken = tuple[bytes | None, list[bytes]]
"""A token, which is not verified, and the paths of its reads. None: reads without a token. It is a
plain tuple, as an Item."""

Head = tuple[int, bytes]
"""Status and lines."""

Item = tuple[int, bytes, bytes]
"""The number of a head, an ETag (or empty) and a body. It is a plain tuple, because creating an
object of a class would cost as much as the read."""

ASK_ALONE: Item = (ALONE, b"", b"")


def decode_reads(body: bytes) -> list[ReadsOfToken]:
    """The groups of a request. Raises ValueError if it has more than MAX_LINES lines."""
    if body.count(b"\n") >= MAX_LINES:
        raise ValueError(f"more than {MAX_LINES} lines in one request")
    without, *others = (b"\n" + body).split(_TOKEN)
    groups: list[ReadsOfToken] = [(None, without[1:].split(b"\n"))] if without else []
    for group in others:
        token, *paths = group.split(b"\n")
        groups.append((token, paths))
    return groups


def encode_answers(epoch: bytes, heads: Sequence[Head], items: Sequence[Item]) -> bytes:
    """The response for these items."""
    numbers = [len(items), len(heads), len(epoch)]
    blobs = [epoch]
    for status, lines in heads:
        numbers += (status, len(lines))
        blobs.append(lines)
    for head, etag, body in items:
        numbers += (head, len(etag), len(body))
        blobs += (etag, body)
    return b"".join([MAGIC, struct.pack(f"<{len(numbers)}I", *numbers), *blobs])
