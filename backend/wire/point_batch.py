"""Framing of coalesced point reads from the proxy to a backend.

    request   raw paths, unchanged, one per line
    answer    "QTR1"
              how many items, how many heads, length of the epoch
              a head:  status, length of its lines
              an item: number of its head, lengths of its ETag and of its body; head ALONE: the
                       proxy must send this request separately
              then the epoch, the heads' lines, and ETag and body of each item

Numbers are 4 B, little-endian. A head is what many answers share: `name: value` lines, each ended
by a line feed, in the order in which they are sent. The Topology-Epoch is in all of them, so it
stands once. The proxy's side is proxy/point_batch.lua.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

MAGIC = b"QTR1"
ALONE = 0xFFFF_FFFF
MOST_READS = 1024


Head = tuple[int, bytes]
"""Status and lines."""

Item = tuple[int, bytes, bytes]
"""One answer: the number of its head, its ETag (or empty), its body. A plain tuple: creating an
object of a class would cost as much as the read."""

ASK_ALONE: Item = (ALONE, b"", b"")


def encode_paths(paths: Sequence[bytes]) -> bytes:
    return b"\n".join(paths)


def decode_paths(body: bytes) -> list[bytes]:
    """The inverse; ValueError if there are more than MOST_READS."""
    if body.count(b"\n") >= MOST_READS:
        raise ValueError(f"more than {MOST_READS} reads in one request")
    return body.split(b"\n")


def encode_answers(epoch: bytes, heads: Sequence[Head], items: Sequence[Item]) -> bytes:
    numbers = [len(items), len(heads), len(epoch)]
    blobs = [epoch]
    for status, lines in heads:
        numbers += (status, len(lines))
        blobs.append(lines)
    for head, etag, body in items:
        numbers += (head, len(etag), len(body))
        blobs += (etag, body)
    return b"".join([MAGIC, struct.pack(f"<{len(numbers)}I", *numbers), *blobs])


def decode_answers(answer: bytes) -> tuple[bytes, list[Head], list[Item]]:
    """The inverse: epoch, heads, items; ValueError if the answer is malformed."""
    try:
        if answer[:4] != MAGIC:
            raise ValueError("not an answer to coalesced point reads")
        count, heads, epoch_size = struct.unpack_from("<3I", answer, 4)
        numbers = struct.unpack_from(f"<{2 * heads + 3 * count}I", answer, 16)
    except struct.error as e:
        raise ValueError(str(e)) from None
    at = 16 + 4 * len(numbers)

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        if at > len(answer):
            raise ValueError("the answer is truncated")
        return answer[at - size : at]

    epoch = take(epoch_size)
    of_heads, of_items = numbers[: 2 * heads], numbers[2 * heads :]
    found = [(s, take(n)) for s, n in zip(of_heads[::2], of_heads[1::2], strict=True)]
    triples = zip(of_items[::3], of_items[1::3], of_items[2::3], strict=True)
    items = [(head, take(etag), take(body)) for head, etag, body in triples]
    if at != len(answer):
        raise ValueError("unexpected bytes after the answer")
    return epoch, found, items
