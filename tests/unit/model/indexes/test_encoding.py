"""The bytes of fields sort as their values do."""

from __future__ import annotations

from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.expressions.types import Type, parse_field_type
from model.indexes.encoding import (
    MANY,
    MAX_ELEMENTS,
    MAX_STRING,
    NULL,
    at_least,
    at_most,
    encoder,
    equal,
    fields_of_key,
    key_head,
    list_encoder,
    starts_with,
    stored_key_of,
)

VALUES: dict[str, Any] = {
    "string?": st.text(max_size=6) | st.sampled_from(["a", "a\x00", "a\x00b", "ab", "", "\ue000"]),
    "long?": st.integers(-(2**63), 2**63 - 1),
    "double?": st.floats(allow_nan=False),
    "decimal(2)?": st.decimals(-1000, 1000, places=2),
    "boolean?": st.booleans(),
    "time?": st.integers(-(10**15), 10**15),
}


def _compare(one: Any, other: Any) -> int:
    if isinstance(one, str):
        one, other = [ord(c) for c in one], [ord(c) for c in other]
    return (one > other) - (one < other)


@pytest.mark.parametrize("text", VALUES)
@given(data=st.data())
def test_the_order_of_bytes_is_that_of_values(text: str, data: st.DataObject) -> None:
    encode = encoder(parse_field_type(text))
    values = data.draw(st.lists(VALUES[text], max_size=8))
    by_value = sorted(values, key=cmp_to_key(_compare))
    encoded = [encode(value) for value in by_value]
    assert encoded == sorted(encoded)
    for one, other in pairwise(by_value):
        assert (encode(one) == encode(other)) == (_compare(one, other) == 0)
    assert all(encode(None) == NULL < field for field in encoded)


@pytest.mark.parametrize("text", [text for text in VALUES if text != "boolean?"])
@given(data=st.data())
def test_bounds_leave_out_no_value(text: str, data: st.DataObject) -> None:
    type_ = parse_field_type(text)
    encode = encoder(type_)
    value, bound = data.draw(VALUES[text]), data.draw(VALUES[text])
    low, high = at_least(type_, bound), at_most(type_, bound)
    same = equal(type_, bound)
    field = encode(value)
    if _compare(value, bound) >= 0 and low is not None:
        assert low <= field
    if _compare(value, bound) <= 0 and high is not None:
        assert field < high
    if _compare(value, bound) == 0 and same is not None:
        assert field == same


def test_infinite_bounds_are_not_known() -> None:
    type_ = parse_field_type("double?")
    assert at_least(type_, float("inf")) is None  # such a bound is not used


@pytest.mark.parametrize(
    ("text", "bound", "inside", "outside"),
    [
        ("long?", Decimal("60.5"), [61, 62], [59]),
        ("long?", Decimal("-0.5"), [0, 5], [-2]),
        ("long?", 2**70, [2**63 - 1], [0]),
        ("double?", 2**53 + 1, [float(2**53 + 2)], [0.0]),
        ("double?", Decimal("0.1"), [0.1, 0.2], [0.0]),
        ("decimal(2)?", Decimal("1.005"), [Decimal("1.01")], [Decimal("0.99")]),
        ("decimal(2)?", 7, [Decimal("7.00")], [Decimal("6.99")]),
    ],
)
def test_numbers_of_other_types(
    text: str, bound: Any, inside: list[Any], outside: list[Any]
) -> None:
    type_: Type = parse_field_type(text)
    encode, low = encoder(type_), at_least(type_, bound)
    assert low is not None
    assert all(encode(value) >= low for value in inside)
    assert all(encode(value) < low for value in outside)


def test_numbers_that_no_value_equals() -> None:
    assert equal(parse_field_type("long?"), Decimal("1.5")) is None
    assert equal(parse_field_type("double?"), 2**53 + 1) is None
    assert equal(parse_field_type("decimal(2)?"), Decimal("1.005")) is None
    assert equal(parse_field_type("long?"), Decimal("1.0")) == encoder(parse_field_type("long"))(1)


def test_long_strings_have_the_bytes_of_their_start() -> None:
    type_ = parse_field_type("string?")
    encode = encoder(type_)
    long, longer = "x" * (MAX_STRING + 1), "x" * 5000
    assert encode(long) == encode(longer) == equal(type_, longer)
    low, high = at_least(type_, longer), at_most(type_, long)
    assert low is not None
    assert high is not None
    assert low <= encode("x" * 9999) < high
    low, high = starts_with("x" * 2000)
    assert low <= encode("x" * 3000) < high


@pytest.mark.parametrize("text", ["strings?", "longs"])
@given(data=st.data())
def test_a_list_has_the_bytes_of_each_element(text: str, data: st.DataObject) -> None:
    type_ = parse_field_type(text)
    element = text.rstrip("?")[:-1] + "?"
    values = data.draw(st.lists(VALUES[element], min_size=1, max_size=6))
    encoded = list_encoder(type_)(values)
    assert sorted(encoded) == sorted({encoder(parse_field_type(element))(v) for v in values})
    for value in values:
        assert equal(type_, value) in encoded


def test_lists_without_elements_and_with_too_many() -> None:
    encode = list_encoder(parse_field_type("longs?"))
    assert encode(None) == encode([]) == (NULL,)
    assert encode([*range(MAX_ELEMENTS + 1)]) == (MANY,)
    assert len(encode([*range(MAX_ELEMENTS)] * 3)) == MAX_ELEMENTS
    strings = list_encoder(parse_field_type("strings"))
    assert len(strings(["x" * MAX_STRING, "x" * (MAX_STRING + 1)])) == 1


def test_both_zeros_are_equal() -> None:
    encode = encoder(parse_field_type("double?"))
    assert encode(-0.0) == encode(0.0)


def test_the_stored_key_is_behind_the_fields() -> None:
    fields = encoder(parse_field_type("string?"))("a\x00")
    key, size = key_head(7) + fields + b"\x00k", len(fields).to_bytes(2, "big")
    assert stored_key_of(key, size) == b"\x01\x00k"
    assert fields_of_key(key, size) == fields
