"""Cursors: what comes back is what went in, and nothing else comes back at all."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.wire.cursor import Question, decode_cursor, encode_cursor
from model.problems import BadRequest

questions = st.lists(
    st.none() | st.booleans() | st.text(max_size=8) | st.integers(-(2**63), 2**63 - 1), max_size=5
).map(tuple)


def refused(question: Question, text: str) -> bool:
    try:
        decode_cursor(question, text)
    except BadRequest as problem:
        return problem.code == "cursor-invalid"
    return False


@given(questions, st.binary(max_size=60))
def test_there_and_back(question: Question, key: bytes) -> None:
    cursor = encode_cursor(question, key)
    assert decode_cursor(question, cursor) == key
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(questions, questions, st.binary(max_size=60))
def test_of_another_question(question: Question, other: Question, key: bytes) -> None:
    # True and 1 are equal, and are not the same
    if repr(question) != repr(other):
        assert refused(other, encode_cursor(question, key))


@given(questions, st.binary(max_size=60), st.data())
def test_a_changed_byte(question: Question, key: bytes, data: st.DataObject) -> None:
    cursor = encode_cursor(question, key)
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert refused(question, base64.urlsafe_b64encode(raw).decode().rstrip("="))


@given(st.text(max_size=30))
def test_garbage(text: str) -> None:
    assert refused(("a",), text)


@pytest.mark.parametrize("change", ["{}=", "{}A", "A{}", " {}", "{}\n"])
def test_one_text_a_cursor(change: str) -> None:
    assert refused(("a",), change.format(encode_cursor(("a",), b"key")))
