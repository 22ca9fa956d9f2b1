"""What decoded values mean: those of Avro and Protobuf, as Python values.

The rules are those of `model.rows.reader` for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model.formats.format import ENVELOPE
from model.rows import debezium
from model.rows.reader import RowRule
from model.rows.row import NO_ROW, NoRow

DecodedRow = Mapping[str, Any] | None | NoRow
"""The fields of the row, a deletion, or nothing."""

_TEXT = debezium.PLACEHOLDER.decode()
_TEXTS = (_TEXT, debezium.UUID_PLACEHOLDER.decode())
_NUMBERS = list(debezium.PLACEHOLDER)


def decoded_reader(rule: RowRule | None) -> Callable[[Mapping[str, Any] | None], DecodedRow]:
    """A function from a value's fields, or None for null, to its row. It raises ValueError with the
    reason if there is none."""
    if rule is not None and rule.unwrap is not None:
        return _read_change
    return _read_row if rule is None or not rule.null_deletes else _read_deletable


def _read_row(value: Mapping[str, Any] | None) -> DecodedRow:
    if value is None:
        raise ValueError("null")
    return value


def _read_deletable(value: Mapping[str, Any] | None) -> DecodedRow:
    return value


def _read_change(event: Mapping[str, Any] | None) -> DecodedRow:
    """As `debezium.read_change`. The markers of transactions are of other schemas, so they are not
    decoded."""
    if event is None:
        return None
    if not event.keys() >= ENVELOPE:
        return None if event.get(debezium.DELETED) in ("true", True) else _complete(event)
    op = str(event["op"])
    effect = debezium.effect_of(op)
    if effect != "row":
        return None if effect == "deletion" else NO_ROW
    after = event["after"]
    if not isinstance(after, Mapping):
        raise debezium.no_row_in_after(op)
    return _complete(after)


def _complete(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row. Raises ValueError if it has a placeholder."""
    if names := [name for name, value in row.items() if _has_placeholder(value)]:
        raise debezium.unavailable(names)
    return row


def _has_placeholder(value: Any) -> bool:
    """Whether a value is, or has, the placeholder of one that the database did not send."""
    if isinstance(value, str):
        return value in _TEXTS
    if isinstance(value, bytes):
        return value.startswith(debezium.PLACEHOLDER)
    if isinstance(value, Mapping):
        return any(map(_has_placeholder, value.values()))
    if isinstance(value, list):
        return value == _NUMBERS or any(map(_has_placeholder, value))
    return False
