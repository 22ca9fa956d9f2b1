"""Unreadable entries: the values of records that were not in the view's format when applied.

Whether a value can be read is decided each time it is read, from its bytes. So it becomes readable
with a later version that knows more of the format, or when its schema is known again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from model.dead_letters import SUFFIX
from model.formats.schemas import SchemaNotYet
from model.problems import NotAcceptable
from model.records import (
    ENTRY_HEAD_SIZE,
    decode_entry,
    entry_head,
    is_tombstone,
    is_unreadable,
    unplace,
)
from model.rows.row_view import Pair, Render, RowView

_MAX_REASON = 500  # characters: the error of a custom format may contain the whole value
_VALUE = b'"value":'


class Unreadable(NamedTuple):
    """A value that cannot be read: the position of its record, the reason, and the record bytes."""

    partition: int
    offset: int
    reason: str
    value: bytes

    @classmethod
    def with_reason(cls, partition: int, offset: int, reason: str, value: bytes) -> Unreadable:
        """Cut the reason to a maximum length. Half of a surrogate pair in it is escaped."""
        escaped = reason[:_MAX_REASON].encode(errors="backslashreplace").decode()
        return cls(partition, offset, escaped, value)

    def document(self) -> dict[str, Any]:
        """{"partition", "offset", "reason"}."""
        return {"partition": self.partition, "offset": self.offset, "reason": self.reason}


def settle(view: RowView, placed: bytes) -> bytes | Unreadable:
    """A placed entry (`records.place`) in the form of a readable one, if its value can be read now;
    otherwise an Unreadable. Raises SchemaNotYet."""
    partition, stored = unplace(placed)
    value = stored[ENTRY_HEAD_SIZE:]
    try:
        row = _row_of(view, value)
    except ValueError as e:
        return Unreadable.with_reason(partition, decode_entry(stored).offset, str(e), value)
    return stored[:ENTRY_HEAD_SIZE] + row


def bytes_of(view: RowView, placed: bytes) -> bytes:
    """A placed entry for a client that accepts bytes: with its record bytes, unless it can be read
    now. Raises SchemaNotYet if the bytes depend on a schema that is not available yet."""
    if view.row_reader is None:
        return unplace(placed)[1]
    settled = settle(view, placed)
    return unplace(placed)[1] if isinstance(settled, Unreadable) else settled


def settle_now(view: RowView, placed: bytes) -> bytes | Unreadable:
    """Like `settle`, for a query of many entries, which cannot wait for each schema: the entry
    stays unreadable while its schema is not known."""
    try:
        return settle(view, placed)
    except SchemaNotYet as missing:
        partition, stored = unplace(placed)
        offset, value = decode_entry(stored).offset, stored[ENTRY_HEAD_SIZE:]
        return Unreadable.with_reason(partition, offset, missing.state, value)


def _row_of(view: RowView, value: bytes) -> bytes:
    """The view's value, from the value of a record. Raises ValueError or SchemaNotYet."""
    row = value if view.row_reader is None else view.row_reader(value)
    if not isinstance(row, bytes):
        raise ValueError("it deletes the key, or has no row: rebuild the partition")
    view.value_codec.check_stored(row)
    return row


def item_of(view: RowView, render: Render, entry: Pair) -> bytes:
    """The item of an entry that is not a tombstone. If its value cannot be read, the item has
    `unreadable` instead of `value`."""
    key, stored = entry
    if is_unreadable(stored):
        settled = settle_now(view, stored)
        if isinstance(settled, Unreadable):
            return _report(view, key, stored, settled)
        stored = settled
    [item] = render(((key, stored),))
    return item


def item_without_key(view: RowView, render: Render, key: bytes, entry: Pair) -> bytes | None:
    """An item of a listing without its key: a history has the key only once. None: a tombstone."""
    if is_tombstone(entry[1]):
        return None
    item = item_of(view, render, entry)
    return b"{" + item[len(b'{"key":%b,' % view.key_codec.to_json(key)) :]


def value_member(view: RowView, stored: bytes) -> bytes:
    """The last member of an item without its name and key: `"value":…`, or `"unreadable":…`."""
    if is_unreadable(stored):
        settled = settle_now(view, stored)
        if isinstance(settled, Unreadable):
            return b'"unreadable":%b' % orjson.dumps(settled.document())
        stored = settled
    return b'"value":%b' % view.value_codec.to_json(stored[ENTRY_HEAD_SIZE:])


def split(view: RowView, pairs: list[Pair]) -> tuple[list[Pair], int]:
    """The pairs whose values can be read, and the number of other pairs. `pairs`: no tombstones."""
    readable: list[Pair] = []
    for key, stored in pairs:
        settled = settle_now(view, stored) if is_unreadable(stored) else stored
        if isinstance(settled, bytes):
            readable.append((key, settled))
    return readable, len(pairs) - len(readable)


def _report(view: RowView, key: bytes, placed: bytes, unreadable: Unreadable) -> bytes:
    """The item of an entry that cannot be read. It is rendered with the report as its value, which
    is the last member."""
    report = orjson.dumps(unreadable.document())
    head = entry_head(decode_entry(placed).timestamp, unreadable.offset)
    [item] = view.kind.render(view.as_json)(((key, head + report),))
    return b'%b"unreadable":%b}' % (item[: -len(_VALUE) - len(report) - 1], report)


class ValueUnreadable(NotAcceptable):
    """The newest record of the key has a value that is not in the view's format. No instance can
    answer differently, and a retry does not help. So the status is 406, which is never retried."""

    title = "Value unreadable"

    def __init__(self, view: RowView, unreadable: Unreadable) -> None:
        letter = f"{view.topic}:{unreadable.partition}:{unreadable.offset}"
        super().__init__(
            "value-unreadable",
            f"The newest record of this key in view {view.name} is at offset "
            f"{unreadable.offset} of partition {unreadable.partition} of topic {view.topic}, and "
            f"its value is not in the format {view.value}: {unreadable.reason}. To get its bytes, "
            f"accept application/octet-stream.",
            **unreadable.document(),
            dead_letter={"topic": view.topic + SUFFIX, "key": letter},
        )
        self.unreadable = unreadable
        self.state: Any = None  # `queries.point.State`, if one store partition has answered


class UnreadableEntry(Exception):
    """The entry of a key has a value that cannot be read. `unreadable`: its partition is not valid.
    `entry`: the entry in the form of a readable one."""

    def __init__(self, unreadable: Unreadable, entry: bytes) -> None:
        super().__init__(unreadable.reason)
        self.unreadable, self.entry = unreadable, entry
