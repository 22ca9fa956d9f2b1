"""Keys that are named by fields of documents, as Connect, Debezium and registries write them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.formats.json import JsonCodec
from model.keys.codec import KeyFields
from model.keys.order import stored, values_in
from model.keys.texts import text_of, values_of
from tests.support.examples import examples

ID = KeyFields(JsonCodec(), ("id",))
LINE = KeyFields(JsonCodec(), ("order", "line"))

# what Kafka 3.9's JsonConverter writes of a struct with the int64 id, with schemas.enable
CONNECT = (
    b'{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}],'
    b'"optional":false,"name":"shop.public.customers.Key"},"payload":{"id":4711}}'
)

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
    ["", "null", '"', '"a"', "a,b", "a/../b", ".", "..", "\0", "a\0", "a\0\0b", "true", "007", "-0"]
)
NUMBERS = st.integers() | st.sampled_from([0, 1, -1, 255, 256, -255, -256, 2**63, -(2**64)])
VALUES = st.none() | TEXTS | NUMBERS.map(str)


@pytest.mark.parametrize(
    "record",
    [b'{"id":4711}', b'{ "id" : 4711 }', b'{"id":4711,"other":{}}', CONNECT, b'{"id":"4711"}'],
)
def test_all_ways_to_write_a_key_are_one_key(record: bytes) -> None:
    assert ID.to_store(record) == ID.to_store(ID.from_text(b"4711"))
    assert ID.to_json(record) == b'"4711"'


@pytest.mark.parametrize("number", ["12345678901234567.89", "1.50", "1e400", "-0.0", "1E2"])
def test_a_number_with_a_fraction_is_as_it_is_written(number: str) -> None:
    """A double would make one key of two."""
    record = b'{"id":%b}' % number.encode()
    assert json.loads(ID.to_json(record)) == number
    assert ID.to_store(record) == ID.to_store(ID.from_text(number.encode()))
    for body in (record, number.encode()):
        text, _ = ID.json_to_text(json.loads(body), body)
        assert text == number.encode()


def test_several_fields_are_in_the_order_of_the_view() -> None:
    record = b'{"line":2,"order":10}'
    assert LINE.to_json(record) == b'"10,2"'
    assert LINE.to_store(record) == LINE.to_store(LINE.from_text(b"10,2"))
    assert LINE.to_store(record) != LINE.to_store(LINE.from_text(b"2,10"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4711, "4711"), (-1, "-1"), (2**70, str(2**70)), (1.5, "1.5"), (True, "true"),
        (None, "null"), ("null", '"null"'), ("", '""'), ("a,b", "a,b"), ("a b/c", "a b/c"),
        ("..", '".."'), ("a/./b", r'"a\/.\/b"'), ('"', r'"\""'), ("a\0", r'"a\u0000"'),
        ("Zürich", "Zürich"), ("007", "007"),
    ],
)  # fmt: skip
def test_the_text_of_a_value(value: object, text: str) -> None:
    record = json.dumps({"id": value}).encode()
    assert json.loads(ID.to_json(record)) == text
    assert ID.to_store(record) == ID.to_store(ID.from_text(text.encode()))


def test_a_text_with_the_separator_is_in_quotes() -> None:
    record = b'{"order":"a,b","line":null}'
    assert json.loads(LINE.to_json(record)) == '"a,b",null'
    assert LINE.to_store(record) == LINE.to_store(LINE.from_text(b'"a,b",null'))


def test_fields_of_nested_objects() -> None:
    codec = KeyFields(JsonCodec(), ("after.id", "a.b"))
    assert codec.to_json(b'{"after":{"id":1},"a.b":2}') == b'"1,2"'


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"{}", "without the field id"), (b"4711", "without the field id"),
        (b'{"id":{}}', "id is not a single value"), (b'{"id":[1]}', "id is not a single value"),
        (b"{", "not JSON"), (rb'{"id":"\ud83d"}', "surrogate"), (b"", "not JSON"),
        (b'{"schema":{},"payload":4711}', "without the field id"),
        (b"\xff4711", "not UTF-8"),  # as keys that clients give are kept
    ],
)  # fmt: skip
def test_a_record_without_the_fields_has_no_such_key(record: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ID.check(record)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"10", "a value for each field: order, line"), (b"1,2,3", "3 values for 2 fields"),
        (b"10,", "an empty value"), (b",2", "an empty value"), (b'"a,2', "not a JSON string"),
        (b'"a"b,2', "text after the JSON string"), (b"\xff,2", "not UTF-8"),
        (rb'"\ud83d",2', "surrogate"),
    ],
)  # fmt: skip
def test_a_text_that_names_no_key(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LINE.from_text(text)


@pytest.mark.parametrize("value", [{"line": 2, "order": 10}, "10,2"])
def test_keys_in_bodies(value: object) -> None:
    text, is_raw = LINE.json_to_text(value, json.dumps(value).encode())
    assert (LINE.to_json(LINE.from_text(text)), is_raw) == (b'"10,2"', False)
    assert ID.json_to_text(4711, b"4711") == (b"4711", False)
    for refused in ([10, 2], None, {"order": 10}):
        with pytest.raises(ValueError, match=r"."):
            LINE.json_to_text(refused, json.dumps(refused).encode())


@given(st.lists(VALUES, min_size=1, max_size=3).map(tuple))
@settings(max_examples=examples(500))
def test_a_listed_key_is_found_by_its_text(values: tuple[str | None, ...]) -> None:
    text = text_of(values)
    assert values_of(text, len(values)) == values
    assert values_in(stored(values)) == values
    codec = KeyFields(JsonCodec(), tuple("abc"[: len(values)]))
    key = codec.from_text(text.encode())
    assert codec.from_store(codec.to_store(key)) == key
    assert json.loads(codec.to_json(key)) == text
    # nginx resolves these parts of a path, and refuses %00
    assert not {".", ".."} & {*text.split("/")}
    assert "%00" not in quote(text)


def _order(value: str | None) -> tuple[int, int, bytes]:
    if value is None:
        return 0, 0, b""
    if value.removeprefix("-").isdecimal() and value == str(int(value)):
        return 1, int(value), b""
    return 2, 0, value.encode()


@given(st.lists(st.tuples(VALUES, VALUES), max_size=12))
@settings(max_examples=examples(500))
def test_stored_keys_are_in_the_order_of_their_values(keys: list[tuple[str | None, ...]]) -> None:
    assert sorted(keys, key=stored) == sorted(keys, key=lambda key: [*map(_order, key)])


@given(VALUES, st.lists(st.tuples(VALUES, VALUES), max_size=12))
@settings(max_examples=examples(500))
def test_bounds_of_leading_fields(value: str | None, keys: list[tuple[str | None, ...]]) -> None:
    text = text_of((value, "x")).removesuffix(",x").encode()
    low, high = (LINE.to_store(LINE.bound(text, is_last)) for is_last in (False, True))
    prefix = LINE.prefix(text)
    for key in (*keys, (value, "x"), (value, None)):
        at = stored(key)
        assert at.startswith(prefix) == (key[0] == value)
        assert (low <= at) == (_order(key[0]) >= _order(value))
        assert (at <= high) == (_order(key[0]) <= _order(value))
