"""Reads the row of a record's value: by `null_deletes` and `unwrap` of views.toml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from model.formats.codec import Codec
from model.formats.frames import unframed
from model.formats.json import JsonCodec
from model.rows import connect, debezium
from model.rows.row import Row

DEBEZIUM = "debezium"
"""The value of `unwrap`."""

RowReader = Callable[[bytes], Row]
"""A function from record bytes to what they mean. Raises ValueError with the reason if they are not
valid, or SchemaNotYet."""


@dataclass(frozen=True, slots=True)
class RowRule:
    """The fields of views.toml for the values of records. `unwrap`: DEBEZIUM or None. `is_framed`:
    whether JSON has Confluent's frame; only for derived views, which read no other format."""

    unwrap: str | None = None
    null_deletes: bool = False
    is_framed: bool = False

    @property
    def has_deletions(self) -> bool:
        """Whether a value may be a deletion."""
        return self.unwrap is not None or self.null_deletes

    def reader(self, codec: Codec) -> RowReader:
        """A reader of rows. `codec`: the codec of the record bytes."""
        return _NullDeleting(codec) if self.unwrap is None else _Unwrapping(codec)

    def json_reader(self) -> RowReader:
        """A reader for a derived view: it returns the row as JSON, without a frame."""
        read = self.reader(JsonCodec()) if self.has_deletions else bytes
        return (lambda raw: read(unframed(raw))) if self.is_framed else read


class _NullDeleting:
    """Reads the value as the row. A null is a deletion, also if Kafka Connect wrote it with a
    schema."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def __call__(self, raw: bytes) -> Row:
        if not self._codec.is_json:
            try:
                self._codec.check(raw)
            except ValueError:
                return raw  # the view's format refuses it with the reason
        return None if connect.is_null(self._codec.to_json(raw)) else raw


class _Unwrapping:
    """The row of a change, as JSON."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def __call__(self, raw: bytes) -> Row:
        self._codec.check(raw)
        return debezium.read_change(self._codec.to_json(raw))
