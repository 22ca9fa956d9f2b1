"""Tests of cursors: only the cursor of the same query is accepted, with a key of its range."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.wire.cursor import Question, decode_cursor, encode_cursor
from model.kinds.layout import ALL
from model.problems import BadRequest
from model.records import ENTRY

questions = st.lists(
    st.none() | st.booleans() | st.text(max_size=8) | st.integers(-(2**63), 2**63 - 1), max_size=5
).map(tuple)
stored_keys = st.binary(max_size=60).map(lambda key: ENTRY + key)


def is_refused(question: Question, text: str) -> bool:
    try:
        decode_cursor(question, text, ALL)
    except BadRequest as problem:
        return problem.code == "cursor-invalid"
    return False


@given(questions, stored_keys)
def test_a_cursor_is_decoded_to_its_key(question: Question, key: bytes) -> None:
    cursor = encode_cursor(question, key)
    assert decode_cursor(question, cursor, ALL) == key
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(questions, questions, stored_keys)
def test_a_cursor_of_another_query_is_refused(
    question: Question, other: Question, key: bytes
) -> None:
    # True and 1 are equal, but not the same parameter
    if repr(question) != repr(other):
        assert is_refused(other, encode_cursor(question, key))


@given(questions, stored_keys, st.data())
def test_a_cursor_with_a_changed_byte_is_refused(
    question: Question, key: bytes, data: st.DataObject
) -> None:
    cursor = encode_cursor(question, key)
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert is_refused(question, base64.urlsafe_b64encode(raw).decode().rstrip("="))


@given(questions, st.binary(max_size=4), st.binary(max_size=4), st.binary(max_size=4))
def test_a_cursor_with_a_key_of_another_range_is_refused(
    question: Question, low: bytes, high: bytes, key: bytes
) -> None:
    cursor = encode_cursor(question, key)
    if low <= key < high:
        assert decode_cursor(question, cursor, (low, high)) == key
    else:
        with pytest.raises(BadRequest) as refused:
            decode_cursor(question, cursor, (low, high))
        assert refused.value.code == "cursor-invalid"


@given(st.text(max_size=30))
def test_garbage_is_refused(text: str) -> None:
    assert is_refused(("a",), text)


@pytest.mark.parametrize("change", ["{}=", "{}A", "A{}", " {}", "{}\n"])
def test_another_text_with_the_same_bytes_is_refused(change: str) -> None:
    assert is_refused(("a",), change.format(encode_cursor(("a",), ENTRY + b"key")))
