"""Parses how rows are read from values, in ``[views.NAME.derive]`` and its joins: ``value_schema``,
``null_deletes`` and ``unwrap``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.derive.derivation import Derivation
from model.derive.reading import TableError
from model.formats.schemas import CONFLUENT
from model.rows.reader import DEBEZIUM, RowRule

ROW_KEYS = ("value_schema", "null_deletes", "unwrap")


def parse_rows(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> RowRule | None:
    """The rule for reading rows; None if every value is a row. Raises TableError."""
    null_deletes, unwrap = table.get("null_deletes", False), table.get("unwrap")
    if type(null_deletes) is not bool:
        raise TableError((*path, "null_deletes"), f"{null_deletes!r} is not true or false")
    if unwrap is not None and unwrap != DEBEZIUM:
        raise TableError((*path, "unwrap"), f'unknown value {unwrap!r}; allowed: "{DEBEZIUM}"')
    if unwrap is not None and null_deletes:
        raise TableError((*path, "null_deletes"), "unwrap has deletes of its own: omit it")
    schema = table.get("value_schema")
    if schema is not None and schema != CONFLUENT:
        raise TableError(
            (*path, "value_schema"), f'unknown value {schema!r}; allowed: "{CONFLUENT}"'
        )
    rule = RowRule(unwrap, null_deletes, schema is not None)
    return None if rule == RowRule() else rule


def check_rows(table: Mapping[str, Any], derivation: Derivation) -> None:
    """Raise TableError unless these keys fit the other keys of ``[views.NAME.derive]``."""
    key = next((key for key in reversed(ROW_KEYS) if table.get(key)), None)
    if key is None:
        return
    has_latest = any(aggregate.function == "latest" for aggregate in derivation.aggregates)
    is_map_of_stream = derivation.is_map and not derivation.is_table
    if key != "value_schema" and (has_latest or is_map_of_stream):
        what = "with latest" if has_latest else "in a map of a stream"
        raise TableError(
            (key,),
            f"not {what}, which would keep rows that were deleted. Declare a view of the topic "
            f'itself, with {key}, or read the topic as a table: kind = "table", without an '
            'aggregate and with key = "record_key"; or join.NAME',
        )
