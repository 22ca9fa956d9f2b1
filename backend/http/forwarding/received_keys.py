"""Coalesced reads of keys, as the instance that sends them sees them.

The proxy makes the same answers in proxy/reads/point_reads.lua.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from backend.queries.point import ViewReads
from backend.wire.answer import RECORD_TIMESTAMP, Answer
from backend.wire.point_batch import ABSENT, ALONE, KeyAnswers, headers_of
from model.kinds.kind import DOCUMENT
from model.records import ENTRY_HEAD_SIZE, head_numbers
from model.view_versions import ViewVersions, public_name


class KeyRead(NamedTuple):
    """A plain read of a key that another instance has. `words` name the partition: VIEW FORMAT
    PARTITIONER PARTITIONS PARTITION. `key`: as it is in records."""

    reads: ViewReads
    words: bytes
    key: bytes


def key_read(reads: ViewReads, partition: int, key: bytes, versions: ViewVersions) -> KeyRead:
    """A read of this key. Raises Unavailable if the number of partitions is not known."""
    view = reads.view
    name = view.base
    if name in versions.with_versions:
        name = public_name(name, view.version)
    count, _ = reads.partition_count()
    words = f"{name} {reads.key_format} {view.partitioner} {count} {partition}"
    return KeyRead(reads, words.encode(), key)


def answers_of(reads: ViewReads, keys: Sequence[bytes], answers: KeyAnswers) -> list[Answer | None]:
    """The answer to each of these keys, which are as they are in records; None if the key must be
    asked for separately. Raises ValueError if the answers are malformed."""
    fixed, state, miss, sizes, sent = answers
    if not fixed:
        return [None] * len(keys)
    shared_lines, separator, found_lines = fixed.partition(b"\n\n")
    *found_headers, (name, etag) = headers_of(found_lines + b"\n")
    if not separator or name != b"etag":
        raise ValueError("the lines of a group do not end with an ETag")
    shared = headers_of(state) + headers_of(shared_lines + b"\n")
    missed = None
    if miss:
        miss_lines, _, miss_body = miss.partition(b"\n\n")
        missed = 404, [*headers_of(miss_lines + b"\n"), *shared], miss_body
    entries = iter(sent)
    is_text = reads.view.key_codec.is_text
    result: list[Answer | None] = []
    for key, size in zip(keys, sizes, strict=True):
        if size == ABSENT and missed is not None:
            status, headers, body = missed
            result.append(Answer(status, headers.copy(), body))
            continue
        if size in (ABSENT, ALONE):
            result.append(None)
            continue
        entry = next(entries)
        time, offset = head_numbers(entry)
        headers = [*shared, *found_headers, (b"etag", b'%b%d-json"' % (etag, offset))]
        if time >= 0:
            headers.append((RECORD_TIMESTAMP, b"%d" % time))
        body = entry[ENTRY_HEAD_SIZE:]
        if is_text:
            body = DOCUMENT % (reads.key_json(key), body)
        result.append(Answer(200, headers, body))
    return result
