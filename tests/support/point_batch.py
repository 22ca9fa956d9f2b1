"""The proxy's side of coalesced point reads: the inverse of `backend.wire.point_batch`."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from backend.wire.point_batch import MAGIC, Head, Item, ReadsOfToken


def encode_paths(paths: Sequence[bytes]) -> bytes:
    """The body of a request for these raw paths, without tokens."""
    return b"\n".join(paths)


def encode_reads(groups: Sequence[ReadsOfToken]) -> bytes:
    """The body of a request; reads without a token come first."""
    lines: list[bytes] = []
    for token, paths in groups:
        lines += [*([] if token is None else [b"token:" + token]), *paths]
    return b"\n".join(lines)


def decode_answers(response: bytes) -> tuple[bytes, list[Head], list[Item]]:
    """The epoch, heads and items of a response. Raises ValueError if it is malformed."""
    try:
        if response[:4] != MAGIC:
            raise ValueError("not a response to coalesced point reads")
        item_count, head_count, epoch_size = struct.unpack_from("<3I", response, 4)
        numbers = struct.unpack_from(f"<{2 * head_count + 3 * item_count}I", response, 16)
    except struct.error as e:
        raise ValueError(str(e)) from None
    at = 16 + 4 * len(numbers)

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        if at > len(response):
            raise ValueError("the response is truncated")
        return response[at - size : at]

    epoch = take(epoch_size)
    of_heads, of_items = numbers[: 2 * head_count], numbers[2 * head_count :]
    heads = [(s, take(n)) for s, n in zip(of_heads[::2], of_heads[1::2], strict=True)]
    triples = zip(of_items[::3], of_items[1::3], of_items[2::3], strict=True)
    items = [(head, take(etag), take(body)) for head, etag, body in triples]
    if at != len(response):
        raise ValueError("unexpected bytes after the response")
    return epoch, heads, items
