"""The proxy's side of coalesced point reads: the inverse of `backend.wire.point_batch`."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backend.wire.point_batch import (
    ABSENT,
    ALONE,
    DIGEST_BYTES,
    MAGIC,
    KeyAnswers,
    KeysFrame,
    Reads,
    encode_reads,
    headers_of,
    key_format_of,
)
from model.partitioner import partition_of
from model.records import ENTRY, ENTRY_HEAD_SIZE, entry_offset
from model.views import View


def groups_of(of: View, keys: Sequence[bytes], partitions: int = 3) -> list[Reads]:
    """The groups in which nginx asks for these keys."""
    by_partition: dict[int, list[bytes]] = defaultdict(list)
    for key in keys:
        by_partition[partition_of("murmur2")(key, partitions)].append(ENTRY + key)
    return [
        Reads(f"{of.name} {key_format_of(of)} murmur2 {partitions} {number}".encode(), stored)
        for number, stored in by_partition.items()
    ]


def encode_keys(of: View, keys: Sequence[bytes], partitions: int = 3) -> bytes:
    """The body of a request for these keys, without tokens."""
    return encode_reads([], groups_of(of, keys, partitions))


def encode_answers(epoch: bytes, keys: Sequence[KeyAnswers]) -> bytes:
    """The response with these answers, as a backend writes it."""
    frame = KeysFrame()
    for answer in keys:
        frame.add(answer)
    return frame.response(epoch)


def assert_complete(body: bytes, tokens: Sequence[bytes], groups: Sequence[Reads]) -> None:
    """The groups have each read of the body, with its token and partition, and nothing else."""
    assert body.startswith(b"tokens ") is bool(tokens)
    if tokens:
        first, _, body = body.partition(b"\n")
        assert first == b"tokens " + b",".join(tokens)
        assert all(len(token) == DIGEST_BYTES for token in tokens)
    for group in groups:
        assert len(group.tokens) in (1, len(group.texts))
        assert all(0 <= number <= len(tokens) for number in group.tokens)
        assert group.texts != []
        assert all(text[0] == 1 for text in group.texts)
    head, joined = body.split(b"\n\n", 1)
    first, *lines = head.split(b"\n")
    lengths = list(map(int, first.removeprefix(b"lengths ").split(b",")))
    keys = [text for group in groups for text in group.texts]
    assert list(map(len, keys)) == (lengths if len(lengths) > 1 else lengths * len(keys))
    assert b"".join(keys) == joined
    for line, (partition, texts, tokens) in zip(lines, groups, strict=True):
        *words, count, numbers = line.split(b" ")
        assert b" ".join(words) == b"partition %b" % partition
        assert int(count) == len(texts)
        assert list(map(int, numbers.split(b","))) == tokens


class Answers(NamedTuple):
    epoch: bytes
    keys: list[KeyAnswers]


def decode_answers(response: bytes, groups: Sequence[Reads]) -> Answers:
    """The answers to these groups. Raises ValueError if the response is malformed."""
    in_groups = [len(group.texts) for group in groups]
    try:
        if response[:4] != MAGIC:
            raise ValueError("not a response to coalesced point reads")
        group_count, zero, epoch_size = struct.unpack_from("<3I", response, 4)
        if group_count != len(in_groups) or zero:
            raise ValueError("wrong number of groups")
        count = 3 * group_count + sum(in_groups)
        numbers = iter(struct.unpack_from(f"<{count}I", response, 16))
    except struct.error as e:
        raise ValueError(str(e)) from None
    at = 16 + 4 * count

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        if at > len(response):
            raise ValueError("the response is truncated")
        return response[at - size : at]

    of_groups = [(next(numbers), next(numbers), next(numbers)) for _ in in_groups]
    sizes = [[next(numbers) for _ in range(number)] for number in in_groups]
    epoch = take(epoch_size)
    lines = [(take(fixed), take(state), take(miss)) for fixed, state, miss in of_groups]
    keys = [
        (*texts, each, [take(size) for size in each if size < ABSENT])
        for texts, each in zip(lines, sizes, strict=True)
    ]
    if at != len(response):
        raise ValueError("unexpected bytes after the response")
    return Answers(epoch, keys)


class Whole(NamedTuple):
    """An answer as the proxy sends it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def whole_answers(
    of: KeyAnswers, keys: Sequence[bytes], are_text: bool = True
) -> Iterator[Whole | None]:
    """The answers to the keys of a group, without Content-Length and Topology-Epoch; None for a key
    that must be read by itself. proxy/reads/point_reads.lua makes the same answers. `are_text`:
    whether the keys of the view are text."""
    fixed, state, miss, sizes, sent = of
    entries = iter(sent)
    for size, key in zip(sizes, keys, strict=True):
        if size == ALONE:
            yield None
            continue
        of_all, of_found = fixed.split(b"\n\n")
        headers = headers_of(state) + headers_of(of_all + b"\n")
        if size == ABSENT:
            of_miss, body = miss.split(b"\n\n", 1)
            yield Whole(404, [*headers, *headers_of(of_miss + b"\n")], body)
            continue
        entry = next(entries)
        *found, (name, etag) = headers_of(of_found + b"\n")
        assert name == b"etag"
        etag += b'%d-json"' % entry_offset(entry)
        body = entry[ENTRY_HEAD_SIZE:]
        if are_text:
            body = b'{"key":"%b","value":%b}' % (key, body)
        time = int.from_bytes(entry[:8], "big", signed=True)
        dated = [] if time < 0 else [(b"record-timestamp", b"%d" % time)]
        yield Whole(200, [*headers, *found, *dated, (b"etag", etag)], body)
