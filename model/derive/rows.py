"""Parses how rows are read from records, in ``[views.NAME.derive]`` and its joins:
``value_schema``, ``null_deletes``, ``unwrap`` and ``key_fields``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from model.derive.derivation import Derivation, ValueSchema
from model.derive.reading import TableError
from model.formats.schemas import CONFLUENT
from model.keys.entry import parse_key_fields
from model.rows.reader import DEBEZIUM, RowRule

KEY_FIELDS = "key_fields"
ROW_KEYS = ("value_schema", "null_deletes", "unwrap", KEY_FIELDS)
_DELETIONS = ("null_deletes", "unwrap")


def parse_rows(
    table: Mapping[str, Any], schema: ValueSchema | None, path: tuple[str, ...] = ()
) -> RowRule | None:
    """The rule for reading rows; None if every value is a row. ``schema``: it says whether values
    have a frame, if it is not None. Raises TableError."""
    null_deletes, unwrap = table.get("null_deletes", False), table.get("unwrap")
    if type(null_deletes) is not bool:
        raise TableError((*path, "null_deletes"), f"{null_deletes!r} is not true or false")
    if unwrap is not None and unwrap != DEBEZIUM:
        raise TableError((*path, "unwrap"), f'unknown value {unwrap!r}; allowed: "{DEBEZIUM}"')
    if unwrap is not None and null_deletes:
        raise TableError((*path, "null_deletes"), "unwrap has deletes of its own: omit it")
    frame = table.get("value_schema")
    if frame is not None and frame != CONFLUENT:
        raise TableError(
            (*path, "value_schema"), f'unknown value {frame!r}; allowed: "{CONFLUENT}"'
        )
    rule = RowRule(unwrap, null_deletes, frame is not None and schema is None)
    return None if rule == RowRule() else rule


def parse_keys(
    table: Mapping[str, Any], fields: Collection[str], path: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The fields of keys that are documents; none if keys are text. ``fields``: those of the
    values. Raises TableError."""
    if KEY_FIELDS not in table:
        return ()
    if not fields:
        raise TableError((*path, KEY_FIELDS), "only with fields, or a schema: the value is text")
    try:
        return parse_key_fields(table[KEY_FIELDS])
    except ValueError as e:
        raise TableError((*path, KEY_FIELDS), str(e)) from None


def check_rows(table: Mapping[str, Any], derivation: Derivation) -> None:
    """Raise TableError unless these keys fit the other keys of ``[views.NAME.derive]``."""
    key = next((key for key in reversed(_DELETIONS) if table.get(key)), None)
    if key is None:
        return
    has_latest = any(aggregate.function == "latest" for aggregate in derivation.aggregates)
    is_map_of_stream = derivation.is_map and not derivation.is_table
    if has_latest or is_map_of_stream:
        what = "with latest" if has_latest else "in a map of a stream"
        raise TableError(
            (key,),
            f"not {what}, which would keep rows that were deleted. Declare a view of the topic "
            f'itself, with {key}, or read the topic as a table: kind = "table", without an '
            "aggregate; or join.NAME",
        )
