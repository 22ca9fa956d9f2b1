"""Records as a view has them: `null_deletes` and `unwrap` of views.toml.

Views without these settings get the records themselves. In other views, a deletion becomes
a record without a value. Records that say nothing about a row are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.ingest.protocols import Record
from model.formats.schemas import SchemaNotYet
from model.rows.codec import RefusedValue
from model.rows.reader import RowReader
from model.rows.row import NO_ROW
from model.views import View


@dataclass(frozen=True)
class Rows:
    """`records`: the records of a run that are rows or deletions. `missing_schema`: why the run
    stops at the record with the index `stopped_at`."""

    records: Sequence[Record]
    indexes: Sequence[int] | None = None  # of `records`; None: all records of the run
    missing_schema: SchemaNotYet | None = None
    stopped_at: int = 0

    def index_of(self, row: int) -> int:
        """The index of the record `records[row]` in the run."""
        return row if self.indexes is None else self.indexes[row]


class _RowRecord:
    """A record with the value that it has in the view."""

    __slots__ = ("_record", "_value", "headers", "key", "leader_epoch", "offset", "timestamp")

    def __init__(self, record: Record, value: bytes | None) -> None:
        self._record = record
        self._value = value
        self.key, self.offset, self.timestamp = record.key, record.offset, record.timestamp
        self.leader_epoch, self.headers = record.leader_epoch, record.headers

    def value(self) -> bytes | None:
        return self._value


def rows_of(view: View, records: Sequence[Record]) -> Rows:
    """The records as the view has them. A value that has no row is a `RefusedValue`."""
    read = view.row_reader
    return Rows(records) if read is None else _read(read, records)


def _read(read: RowReader, records: Sequence[Record]) -> Rows:
    rows: list[Record] = []
    indexes: list[int] = []
    for index, record in enumerate(records):
        raw = record.value()
        try:
            row = None if raw is None else read(raw)
        except ValueError as reason:
            row = RefusedValue.with_reason(raw or b"", str(reason))
        except SchemaNotYet as missing:
            return Rows(rows, indexes, missing, index)
        if row is NO_ROW:
            continue
        rows.append(record if row is raw else _RowRecord(record, row))
        indexes.append(index)
    return Rows(rows, indexes)
