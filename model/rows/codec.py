"""The codec of rows: JSON documents that a `RowReader` has made of record values."""

from __future__ import annotations

from collections.abc import Callable

from model.formats.codec import Codec
from model.formats.json import JsonCodec


class RefusedValue(bytes):
    """Record bytes that have no row, and the reason."""

    reason: str

    @classmethod
    def with_reason(cls, raw: bytes, reason: str) -> RefusedValue:
        refused = cls(raw)
        refused.reason = reason
        return refused


class RowCodec(JsonCodec):
    """JSON documents that were checked when they were made. Numbers in them are written as in the
    format of the records."""

    def __init__(self, records: Codec) -> None:
        """`records`: the codec of the record values."""
        self.quotes_numbers = True  # Debezium can be configured to write decimals as strings
        self.quotes_infinities = records.quotes_infinities

    @property
    def probe(self) -> Callable[[bytes], object]:
        return _refuse

    def check(self, raw: bytes) -> None:
        _refuse(raw)
        super().check(raw)


def _refuse(raw: bytes) -> None:
    """Raises ValueError for a `RefusedValue`."""
    if type(raw) is RefusedValue:
        raise ValueError(raw.reason)
