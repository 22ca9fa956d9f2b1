"""Infers `null_deletes` and `unwrap` of a view, whose values are JSON. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from model.rows import connect, debezium
from model.rows.json_members import members
from model.rows.reader import DEBEZIUM

_DELETED = "deleted rows are answered as if they were there"


class RowInference(NamedTuple):
    """A field of the view, its value as TOML, what was seen, and what is wrong without it."""

    field: str
    toml: str
    reason: str
    effect: str = _DELETED


def infer_rows(documents: Sequence[bytes]) -> RowInference | None:
    """`documents`: the values as JSON. None if all are rows."""
    total = len(documents)
    for test, what, effect in _SIGNS:
        if count := _count(test, documents):
            reason = f"{count} of {total} values have {what}"
            return RowInference("unwrap", f'"{DEBEZIUM}"', reason, effect)
    if nulls := _count(connect.is_null, documents):
        reason = f"{nulls} of {total} values are null, as Kafka Connect writes a deletion"
        return RowInference("null_deletes", "true", reason)
    return None


def _count(test: Callable[[bytes], bool], documents: Sequence[bytes]) -> int:
    return sum(map(test, documents))


def _is_envelope(document: bytes) -> bool:
    return debezium.is_envelope(members(connect.payload(document)).keys())


def _has_deleted(document: bytes) -> bool:
    return debezium.DELETED in members(connect.payload(document))


_SIGNS = (
    (_is_envelope, "op, as events of Debezium", _DELETED),
    (_has_deleted, "__deleted, as Debezium's ExtractNewRecordState", _DELETED),
    (
        debezium.has_row_schema,
        "the schema of a row, as Debezium's ExtractNewRecordState with Kafka Connect's schemas",
        "answers have the schema next to the row",
    ),
    (
        debezium.has_placeholder,
        "a placeholder of Debezium: the database did not send the value",
        "placeholders are answered as if they were values",
    ),
)
"""A test of a document, what it has then, and what is wrong without `unwrap`. The first counts."""
