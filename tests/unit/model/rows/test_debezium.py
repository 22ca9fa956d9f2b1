"""Rows of Debezium's events, as its Java classes and Connect's JsonConverter write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.formats.registry import VALUE_CODECS
from model.rows import connect
from model.rows.json_members import members
from model.rows.reader import DEBEZIUM, RowRule
from tests.vectors.debezium_cases import NUMERIC, Case, cases, outcome

JSON = VALUE_CODECS["json"]
READ = RowRule(DEBEZIUM).reader(JSON)
CASES = [case for case in cases() if case.value is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}, {case.form}")
def test_the_row_of_an_event(case: Case) -> None:
    assert case.value is not None
    if isinstance(case.expected, str):
        with pytest.raises(ValueError, match=case.expected):
            READ(case.value)
        return
    found = READ(case.value)
    if case.form == "numeric" and isinstance(case.expected, dict) and "big" in case.expected:
        # the digits are those of the record
        assert isinstance(found, bytes)
        assert NUMERIC[case.expected["name"]] in found
        return
    assert outcome(found) == case.expected


def test_bytes_of_a_row_are_those_of_the_record() -> None:
    row = b'{"n" : 1e400, "x":"x\\ud83d", "d":1.10, "long":12345678901234567890123}'
    event = b'{"before":null,"after": %b ,"op":"u"}' % row
    assert READ(event) == row


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b'{"op":"x","after":{}}', 'op "x"'),
        (b'{"op":"u","after":null}', "without the row"),
        (b'{"op":"c","after":[1]}', "without the row"),
        (b'"text"', "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b'{"op":"c","after":"no document"}', "not JSON"),
    ],
)
def test_what_is_no_event_is_refused(event: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        READ(event)


@pytest.mark.parametrize(
    "row",
    [
        b'{"op":"d","id":1}',  # a column with this name
        b'{"status":"BEGIN","id":1}',
        b'{"ts_ms":1,"id":1}',
        b'{"id":1,"note":"say \\"__debezium_unavailable_value\\""}',
        b'{"id":1,"__deleted":"false"}',
        b'{"id":1,"schema":{},"payload":{}}',
        b"{}",
    ],
)
def test_rows_that_look_like_something_else(row: bytes) -> None:
    assert READ(row) == row


_BYTES = ",".join(map(str, b"__debezium_unavailable_value"))


@pytest.mark.parametrize(
    "array",
    [
        f"[{_BYTES}]", f"[{_BYTES.replace(',', ', ')}]", f"[{_BYTES.replace(',', '.0,')}.0]",
        '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]', '["__debezium_unavailable_value"]',
    ],
)  # fmt: skip
def test_arrays_that_the_database_did_not_send(array: str) -> None:
    """As in UnchangedToastedPlaceholder of Debezium's connector for PostgreSQL."""
    for event in ('{"op":"u","after":{"id":1,"arr":%s}}', '{"id":1,"arr":%s}'):
        with pytest.raises(ValueError, match="arr: the value is unavailable"):
            READ((event % array).encode())
    assert READ(b'{"id":118,"arr":[95,95,100]}') == b'{"id":118,"arr":[95,95,100]}'


def test_the_last_of_two_members_with_one_name_counts() -> None:
    assert READ(b'{"op":"c","after":{"n":1},"after":{"n":2}}') == b'{"n":2}'
    assert READ(b'{"op":"c","op":"d","after":null}') is None


@pytest.mark.parametrize(
    ("value", "is_null"),
    [
        (b"null", True),
        (b" null\n", True),
        (b'{"schema":{"type":"struct"},"payload":null}', True),
        (b'{"schema":null , "payload" : null }', True),
        (b'{"payload":null}', False),
        (b'{"schema":{},"payload":null,"n":null}', False),
        (b'{"schema":{},"payload":{"n":null}}', False),
        (b'{"n":null}', False),
        (b'"null"', False),
        (b"[null]", False),
    ],
)
def test_nulls_of_connect(value: bytes, is_null: bool) -> None:
    assert connect.is_null(value) == is_null
    assert RowRule(null_deletes=True).reader(JSON)(value) == (None if is_null else value)


def test_what_is_no_json_is_no_null() -> None:
    for value in (b"", b"nul", b"{null", b'{"payload" null', b'{"schema":1,"payload":null'):
        assert not connect.is_null(value)


_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), _DOCUMENTS), st.booleans(), st.sampled_from([None, 1]))
def test_members_are_those_that_a_parser_finds(
    document: dict[str, object], ascii_: bool, indent: int | None
) -> None:
    text = json.dumps(document, ensure_ascii=ascii_, indent=indent)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return  # half of a surrogate pair is no UTF-8
    found = {name: json.loads(value) for name, value in members(encoded).items()}
    assert found == document
