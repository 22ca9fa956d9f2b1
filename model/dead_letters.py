"""Dead letters: records that a view cannot read, as backends and Spark write them.

A dead letter is a record of ``<topic>.dead-letter``. Its key is ``topic:partition:offset`` of the
record, so a letter that is written twice is stored once. Its value is the record's value. It has
these headers, in this order (numbers are decimal text):

| header | |
|---|---|
| reason | why the record was rejected; its first 4,096 characters |
| source-topic, source-partition, source-offset | where the record is |
| source-timestamp | the record's timestamp, ms since 1970 |
| source-key | the record's key; missing if it has none |
| source-key-bytes, source-value-bytes | the size, if the key or value is truncated |
| source-headers-bytes | the size of the headers, if they are left out; or ``unknown`` |
| source-value | ``null`` if the record's value is null: the letter's value is then empty |
| by | the program that rejected it |
| source-header-NAME | the record's own header NAME; all of them, in their order |

The timestamp is a header, because Spark's sink cannot set a record's timestamp, and brokers reject
timestamps of the future. A null value would be a tombstone: compaction would delete the letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from model.kafka.headers import Header

SUFFIX = ".dead-letter"
OWN_HEADER = "source-header-"
"""The prefix of the record's own headers."""

# A topic may accept records that its dead-letter topic rejects. With these bounds, all parts of a
# letter together fit in a record of MAX_MESSAGE_BYTES.
MAX_MESSAGE_BYTES = 2 * 1024 * 1024
"""``max.message.bytes`` of the topic: twice Kafka's default, as a letter is larger than its record.
"""
MAX_VALUE_BYTES = 1024 * 1024
MAX_KEY_BYTES = 256 * 1024
MAX_HEADERS_BYTES = 128 * 1024
MAX_REASON = 4096  # characters: the error of a custom format may have the whole value
HEADER_BYTES = 24
"""Added to the size of each header, for its prefix and its lengths. This bounds the number of
headers, too."""


class Rejected(NamedTuple):
    """A rejected record; ``timestamp`` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] | None  # None: not readable


def headers_bytes(headers: Iterable[Header]) -> int:
    """The size of a record's headers (bytes), as ``MAX_HEADERS_BYTES`` limits it."""
    return sum(HEADER_BYTES + len(name.encode()) + len(value or b"") for name, value in headers)


def dead_letter(
    record: Rejected, reason: str, rejected_by: str
) -> tuple[bytes, bytes, list[Header]]:
    """Key, value and headers of the dead letter of a record."""
    value, value_bytes = _bounded(record.value or b"", MAX_VALUE_BYTES)
    key, key_bytes = _bounded(record.key, MAX_KEY_BYTES)
    own, own_bytes = _own_headers(record.headers)
    letter_headers = {
        "reason": reason[:MAX_REASON].encode(errors="backslashreplace"),
        "source-topic": record.topic.encode(),
        "source-partition": b"%d" % record.partition,
        "source-offset": b"%d" % record.offset,
        "source-timestamp": b"%d" % record.timestamp,
        "source-key": key,
        "source-key-bytes": key_bytes,
        "source-value-bytes": value_bytes,
        "source-headers-bytes": own_bytes,
        "source-value": b"null" if record.value is None else None,
        "by": rejected_by.encode(),
    }
    headers: list[Header] = [
        (name, text) for name, text in letter_headers.items() if text is not None
    ]
    headers += [(OWN_HEADER + name, text) for name, text in own]
    name = f"{record.topic}:{record.partition}:{record.offset}"
    return name.encode(), value or b"", headers


def _own_headers(headers: Sequence[Header] | None) -> tuple[Sequence[Header], bytes | None]:
    """The record's headers, and None. If they are too long or not readable: no headers, and their
    size or ``unknown``."""
    if headers is None:
        return (), b"unknown"
    size = headers_bytes(headers)
    return (headers, None) if size <= MAX_HEADERS_BYTES else ((), b"%d" % size)


def _bounded(content: bytes | None, max_bytes: int) -> tuple[bytes | None, bytes | None]:
    """The first ``most`` bytes, and the length if it is greater (otherwise None)."""
    if content is None or len(content) <= max_bytes:
        return content, None
    return content[:max_bytes], b"%d" % len(content)
