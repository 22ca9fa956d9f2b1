"""Infers `null_deletes` and `unwrap` of a view, whose values are JSON. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from model.rows import connect, debezium
from model.rows.json_members import members
from model.rows.reader import DEBEZIUM


class RowInference(NamedTuple):
    """A field of the view, its value as TOML, and what was seen."""

    field: str
    toml: str
    reason: str


def infer_rows(documents: Sequence[bytes]) -> RowInference | None:
    """`documents`: the values as JSON. None if all are rows."""
    total = len(documents)
    for count, what in (
        (_count(_is_envelope, documents), "have op, as events of Debezium"),
        (_count(_has_deleted, documents), "have __deleted, as Debezium's ExtractNewRecordState"),
    ):
        if count:
            return RowInference("unwrap", f'"{DEBEZIUM}"', f"{count} of {total} values {what}")
    if nulls := _count(connect.is_null, documents):
        reason = f"{nulls} of {total} values are null, as Kafka Connect writes a deletion"
        return RowInference("null_deletes", "true", reason)
    return None


def _count(test: Callable[[bytes], bool], documents: Sequence[bytes]) -> int:
    return sum(map(test, documents))


def _is_envelope(document: bytes) -> bool:
    return debezium.is_envelope(members(connect.payload(document)))


def _has_deleted(document: bytes) -> bool:
    return debezium.DELETED in members(connect.payload(document))
