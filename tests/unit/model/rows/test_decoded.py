"""Rows of decoded changes: the same as those of the JSON, for records of Debezium's converters."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import orjson
import pytest

from model.formats.registry import VALUE_CODECS
from model.rows.decoded import decoded_reader
from model.rows.reader import DEBEZIUM, RowRule
from model.rows.row import NO_ROW
from tests.vectors.debezium_avro import changes, schemas

RULE = RowRule(DEBEZIUM)
READ = decoded_reader(RULE)
READ_JSON = RULE.reader(VALUE_CODECS["json"])
TOPICS = ("customers", "customers_flat", "orders", "orders_flat")


def decoded(framed: bytes | None) -> Any:
    if framed is None:
        return None
    schema = fastavro.parse_schema(schemas()[int.from_bytes(framed[1:5], "big")])
    return fastavro.schemaless_reader(io.BytesIO(framed[5:]), schema, None)


def outcome(read: Any, value: Any) -> object:
    try:
        row = read(value)
    except ValueError as error:
        return str(error)
    return orjson.loads(row) if isinstance(row, bytes) else row


@pytest.mark.parametrize("topic", TOPICS)
def test_rows_are_those_of_the_json(topic: str) -> None:
    outcomes = []
    for change in changes(topic):
        if change.json_value is None:
            assert READ(None) is None
            continue
        expected = outcome(READ_JSON, change.json_value)
        found = outcome(READ, decoded(change.value))
        if isinstance(expected, dict):
            assert isinstance(found, dict)
            assert found.keys() == expected.keys()
            for name in found.keys() - {"credit", "gift", "picture"}:
                assert found[name] == expected[name]
        else:
            assert found == expected
        outcomes.append("row" if isinstance(found, dict) else found)
    kinds = {str(kind)[:12] for kind in outcomes}
    assert {"row", "None"} <= kinds
    refused = {"notes: the v", "picture: the"} if "customers" in topic else {'op "t": the '}
    assert kinds - {"row", "None"} == (set() if topic == "orders_flat" else refused)


def test_what_is_no_event_is_refused() -> None:
    for event, reason in (
        ({"op": "x", "after": {}}, 'op "x"'),
        ({"op": "u", "after": None}, "without the row"),
        ({"op": "c", "after": {"ids": list(b"__debezium_unavailable_value")}}, "ids: the value is"),
        ({"op": "c", "after": {"a": {"b": ["__debezium_unavailable_value"]}}}, "a: the value is"),
    ):
        with pytest.raises(ValueError, match=reason):
            READ(event)
    assert READ({"op": "m", "after": None}) is NO_ROW
    assert READ({"__deleted": True}) is None


def test_nulls() -> None:
    assert decoded_reader(RowRule(null_deletes=True))(None) is None
    with pytest.raises(ValueError, match="null"):
        decoded_reader(None)(None)
    assert decoded_reader(None)({"op": "d", "after": None}) == {"op": "d", "after": None}
