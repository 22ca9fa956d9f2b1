"""Deletions and rows in the values of records, as ingest applies them."""

from __future__ import annotations

from backend.ingest.batch import BatchResult, build_batch
from model.formats.schemas import CONFLUENT
from model.records import ENTRY, decode_entry
from model.views import View
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import view
from tests.support.in_process.fakes import Rec
from tests.unit.backend.ingest.test_batch import DictBatch
from tests.vectors.debezium_cases import cases

ROW = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.public.customers",
    "fields": [{"name": "id", "type": "int"}, {"name": "big", "type": "long"}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.customers",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "shop.public.customers.Value"], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
OPTIONAL = ["null", "string"]
DEBEZIUM = view(unwrap="debezium")


def applied(
    of: View, *values: bytes | None, before: dict[bytes, bytes] | None = None
) -> tuple[dict[bytes, bytes | None], BatchResult]:
    """What is stored after records of the key k with these values, and the result."""
    batch = DictBatch(before or {})
    result = build_batch(batch, of, [Rec(n, b"k", value, n) for n, value in enumerate(values)])
    entries = {key: entry for key, entry in batch.items() if key[:1] == ENTRY}
    return {key: decode_entry(entry).value for key, entry in entries.items()}, result


def event(name: str, form: str = "value") -> bytes:
    return next(c.value for c in cases() if (c.name, c.form) == (name, form) and c.value)


def test_null_is_a_value_unless_the_view_says_otherwise() -> None:
    assert applied(view(), b"1", b"null")[0] == {ENTRY + b"k": b"null"}


def test_null_deletes() -> None:
    of = view(null_deletes=True)
    for null in (b"null", b" null ", event("tombstone: delete", "with_schema")):
        assert applied(of, b"1", null)[0] == {}
    assert applied(of, b"null", b"2")[0] == {ENTRY + b"k": b"2"}


def test_null_of_avro_deletes() -> None:
    schemas = FakeSchemas(id1=OPTIONAL)
    of = view(value="avro", value_schema=CONFLUENT, schemas=schemas, null_deletes=True)
    value, null = framed(1, OPTIONAL, "x"), framed(1, OPTIONAL, None)
    assert applied(of, value)[0] == {ENTRY + b"k": value}
    assert applied(of, value, null)[0] == {}


def test_rows_of_events_are_stored_and_deletes_delete() -> None:
    stored, result = applied(DEBEZIUM, event("create"), event("update", "numeric"))
    assert stored[ENTRY + b"k"] == (
        b'{"id":1,"name":"bea","balance":-12.05,"big":9007199254740993,"day":20420,'
        b'"notes":"a \\"quoted\\" } brace","picture":null}'
    )
    assert [record.value() for record in result.rows][1] == stored[ENTRY + b"k"]
    for delete in ("delete", "rewrite: delete", "tombstone: delete"):
        for form in ("value", "with_schema"):
            stored, result = applied(DEBEZIUM, event("create"), event(delete, form), None)
            assert (stored, result.dead_letters) == ({}, [])
            assert [record.value() for record in result.rows][1:] == [None, None]


def test_markers_change_nothing() -> None:
    stored, result = applied(DEBEZIUM, event("transaction"), event("heartbeat"), b'{"id":1}')
    assert stored == {ENTRY + b"k": b'{"id":1}'}
    assert (result.keys, result.dead_letters) == ([b"k"], [])
    assert [record.offset() for record in result.rows] == [2]


def test_what_has_no_row_is_a_dead_letter_with_its_own_bytes() -> None:
    toast = event("unavailable text")
    stored, result = applied(DEBEZIUM, event("create"), toast)
    assert len(stored) == 1
    [letter] = result.dead_letters
    assert letter.record.value() == toast
    assert letter.reason.startswith("value: notes: the value is unavailable")
    assert "REPLICA IDENTITY FULL" in letter.reason


def test_events_in_avro() -> None:
    schemas = FakeSchemas(id7=ENVELOPE)
    of = view(value="avro", value_schema=CONFLUENT, schemas=schemas, unwrap="debezium")
    row = {"id": 1, "big": 9007199254740993}
    created = framed(7, ENVELOPE, {"after": row, "op": "c"})
    deleted = framed(7, ENVELOPE, {"before": row, "after": None, "op": "d"})
    assert applied(of, created)[0] == {ENTRY + b"k": b'{"id":1,"big":9007199254740993}'}
    assert applied(of, created, deleted)[0] == {}
    assert of.value_codec.to_json(b'{"id":1}') == b'{"id":1}'


def test_events_wait_for_their_schema() -> None:
    schemas = FakeSchemas(id7=ENVELOPE)
    of = view(value="avro", value_schema=CONFLUENT, schemas=schemas, unwrap="debezium")
    message = framed(7, ENVELOPE, {"after": None, "op": "m"})
    created = framed(7, ENVELOPE, {"after": {"id": 1, "big": 2}, "op": "c"})
    stored, result = applied(of, message, created, framed(8, ENVELOPE, {"op": "d"}), created)
    assert stored == {ENTRY + b"k": b'{"id":1,"big":2}'}
    assert result.missing_schema is not None
    assert (result.missing_schema.schema_id, result.stopped_at) == (8, 2)
    assert [record.offset() for record in result.rows] == [1]


def test_a_schema_of_a_key_that_is_missing_stops_at_the_record_itself() -> None:
    of = view(key="avro", key_schema=CONFLUENT, schemas=FakeSchemas(), unwrap="debezium")
    records = [
        Rec(0, b"k", event("heartbeat")),
        Rec(1, framed(5, "string", "k"), event("create")),
    ]
    result = build_batch(DictBatch(), of, records)
    assert result.missing_schema is not None
    assert (result.stopped_at, len(result.rows)) == (1, 0)


def test_windows_and_versions_have_rows_too() -> None:
    of = view(store="versioned", unwrap="debezium")
    stored, _ = applied(of, event("create"), event("delete"))
    assert sorted(map(bool, stored.values())) == [False, True]
    of = view(retention=1000, unwrap="debezium")
    assert applied(of, event("create"), event("delete"))[0] == {}
