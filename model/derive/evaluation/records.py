"""Records of a topic in memory, and those in lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from model.times import parse_instant

START_MS = 1_767_225_600_000
"""The timestamp of records that have none: 2026-01-01T00:00:00Z."""
_MEMBERS = frozenset({"key", "value", "timestamp", "partition"})


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. ``value``: None is a tombstone. ``timestamp``: ms since 1970.
    ``offset``: by default, the number of the record among those of its partition."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = START_MS
    partition: int = 0
    offset: int | None = None


def with_offsets(records: Iterable[Record]) -> Iterator[tuple[Record, int]]:
    """The records with their offsets."""
    following: dict[int, int] = {}
    for record in records:
        offset = following.get(record.partition, 0) if record.offset is None else record.offset
        following[record.partition] = offset + 1
        yield record, offset


def parse_lines(lines: Iterable[bytes], *, whole: bool, timestamp: int = START_MS) -> list[Record]:
    """The records in lines of JSON; empty lines are left out. ``whole``: a line is an object with
    ``key``, ``value``, ``timestamp`` and ``partition``, else it is a value. ``timestamp``: that of
    records without one, in ms since 1970. Raises ValueError with the number of the line."""
    records = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            records.append(_record(text, timestamp) if whole else Record(text, None, timestamp))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return records


def _record(line: bytes, timestamp: int) -> Record:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(document, dict) or not document.keys() <= _MEMBERS:
        raise ValueError(
            "not an object with key, value, timestamp and partition only; if the line is the "
            "value, leave out --records"
        )
    partition = document.get("partition", 0)
    if type(partition) is not int or not 0 <= partition < 2**31:
        raise ValueError("partition is not a whole number from 0")
    return Record(
        _bytes(document.get("value")),
        _bytes(document.get("key")),
        _timestamp(document.get("timestamp", timestamp)),
        partition,
    )


def _bytes(member: Any) -> bytes | None:
    """A text itself, other values as JSON, null as none."""
    if member is None:
        return None
    text = member if isinstance(member, str) else json.dumps(member, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _timestamp(member: Any) -> int:
    """ms since 1970, from a number or a text."""
    if type(member) is int and abs(member) < 2**53:
        return member
    if isinstance(member, str):
        return parse_instant(member) // 1000
    raise ValueError("timestamp is neither ms since 1970 nor a time like 2013-01-01T10:00:00Z")
