"""Framing of coalesced point reads from the proxy to a backend.

    request   raw paths, unchanged, one per line
    response  "QTR1"
              number of items, number of heads, length of the epoch
              per head: status, length of its lines
              per item: number of its head, length of its ETag, length of its body
              the epoch, the lines of each head, and the ETag and body of each item

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
MAX_READS = 1024

Head = tuple[int, bytes]
"""Status and lines."""

Item = tuple[int, bytes, bytes]
"""The number of a head, an ETag (or empty) and a body. It is a plain tuple, because creating an
object of a class would cost as much as the read."""

ASK_ALONE: Item = (ALONE, b"", b"")


def decode_paths(body: bytes) -> list[bytes]:
    """The paths of a request. Raises ValueError if there are more than MAX_READS."""
    if body.count(b"\n") >= MAX_READS:
        raise ValueError(f"more than {MAX_READS} reads in one request")
    return body.split(b"\n")


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
