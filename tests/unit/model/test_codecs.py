"""A key or a value in Kafka, in RocksDB, in a URL and in JSON."""

import json
import math
import struct
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.formats.base64url import from_base64url
from model.formats.registry import KEY_CODECS, VALUE_CODECS
from tests.support.examples import examples

# each kind of UTF-8, and what URLs and JSON escape
TEXT = st.text('ab/%+ "\\\n\0\x7fé\u07ff\u0800\uffff\U00010000\U0010ffff', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=64, allow_nan=False)
# as Java and most others write them, as Swift and SQL Server do, and mixed
UUIDS = (
    st.uuids().map(str).flatmap(lambda u: st.sampled_from([u, u.upper(), u[:18] + u[18:].upper()]))
)

RAW = {
    "string": TEXT.map(str.encode),
    "bytes": st.binary(),
    "int32": INT32.map(lambda n: n.to_bytes(4, "big", signed=True)),
    "int64": INT64.map(lambda n: n.to_bytes(8, "big", signed=True)),
    "float64": st.binary(min_size=8, max_size=8),
    "uuid": UUIDS.map(str.encode),
    "json": JSON.map(lambda value: json.dumps(value).encode()),
}


def test_every_format_is_tested() -> None:
    assert set(RAW) == set(KEY_CODECS)
    assert set(VALUE_CODECS) == {*RAW, "none"}


@pytest.mark.parametrize("name", RAW)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_store_bytes_give_the_record_bytes_again(name: str, data: st.DataObject) -> None:
    codec, raw = KEY_CODECS[name], data.draw(RAW[name])
    codec.check(raw)
    assert codec.from_store(codec.to_store(raw)) == raw
    json.loads(codec.to_json(raw))


@given(st.lists(INT32, min_size=2))
@example([-(2**31), -1, 0, 1, 2**31 - 1])
def test_int32_in_order(numbers: list[int]) -> None:
    assert_in_order("int32", ">i", numbers)


@given(st.lists(INT64, min_size=2))
@example([-(2**63), -(2**32), -1, 0, 1, 2**32, 2**63 - 1])
def test_int64_in_order(numbers: list[int]) -> None:
    assert_in_order("int64", ">q", numbers)


@given(st.lists(FLOATS.filter(bool), min_size=2))
@example([-math.inf, -1e308, -1.5, -5e-324, 5e-324, 1.5, 1e308, math.inf])
def test_float64_in_order(numbers: list[float]) -> None:
    assert_in_order("float64", ">d", numbers)


def assert_in_order(name: str, layout: str, numbers: list[int] | list[float]) -> None:
    to_store = KEY_CODECS[name].to_store
    stored = sorted(to_store(struct.pack(layout, n)) for n in numbers)
    assert stored == [to_store(struct.pack(layout, n)) for n in sorted(numbers)]


def test_the_two_zeros_are_two_keys_and_nans_lie_at_the_ends() -> None:
    codec = KEY_CODECS["float64"]
    numbers = [-math.nan, -math.inf, -5e-324, -0.0, 0.0, 5e-324, math.inf, math.nan]
    stored = [codec.to_store(struct.pack(">d", n)) for n in numbers]
    assert stored == sorted(set(stored))
    assert codec.from_text(b"-0.0") != codec.from_text(b"0.0")


@given(TEXT, TEXT)
def test_text_in_order_of_its_code_points(a: str, b: str) -> None:
    to_store = KEY_CODECS["string"].to_store
    assert (to_store(a.encode()) < to_store(b.encode())) == (a < b)


@pytest.mark.parametrize(
    ("name", "text", "raw"),
    [
        ("string", "é/%".encode(), "é/%".encode()),
        ("string", b"", b""),
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("int32", b"-1", b"\xff\xff\xff\xff"),
        ("int32", b"2147483647", b"\x7f\xff\xff\xff"),
        ("int32", b"007", b"\x00\x00\x00\x07"),
        ("int64", b"-9223372036854775808", b"\x80" + b"\0" * 7),
        ("float64", b"1.5", struct.pack(">d", 1.5)),
        ("float64", b"-2e3", struct.pack(">d", -2000.0)),
        ("float64", b"NaN", bytes.fromhex("7ff8000000000000")),  # Java's Double.NaN
        ("float64", b"-Infinity", struct.pack(">d", -math.inf)),
        (
            "uuid",
            b"6FA459EA-EE8A-3CA4-894E-DB77E160355E",
            b"6FA459EA-EE8A-3CA4-894E-DB77E160355E",
        ),
        ("json", b'{"b": 1,"a":2}', b'{"b": 1,"a":2}'),
    ],
)
def test_from_text(name: str, text: bytes, raw: bytes) -> None:
    assert KEY_CODECS[name].from_text(text) == raw


@given(INT64)
def test_an_integer_in_a_url_is_the_integer_in_json(number: int) -> None:
    codec = KEY_CODECS["int64"]
    assert codec.to_json(codec.from_text(b"%d" % number)) == b"%d" % number


@given(FLOATS)
def test_a_float_in_a_url_is_the_float_in_json(number: float) -> None:
    codec = KEY_CODECS["float64"]
    raw = codec.from_text(repr(number).replace("inf", "Infinity").encode())
    assert raw == struct.pack(">d", number)
    said = json.loads(codec.to_json(raw))
    assert float(said) == number


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("string", b"\xff"),
        ("string", b"\xed\xa0\x80"),  # a surrogate
        ("int32", b""),
        ("int32", b"1.0"),
        ("int32", b"+1"),
        ("int32", b" 1"),
        ("int32", b"1\n"),
        ("int32", b"1_0"),
        ("int32", b"0x1"),
        ("int32", "٣".encode()),
        ("int32", b"2147483648"),
        ("int32", b"-2147483649"),
        ("int64", b"9223372036854775808"),
        ("int64", b"9" * 5000),
        ("float64", b""),
        ("float64", b"one"),
        ("float64", b"1_0"),
        ("float64", b" 1"),
        ("float64", b"\xa01"),
        ("float64", b"1\n"),
        ("float64", b"0x1p3"),
        ("uuid", b"6fa459eaee8a3ca4894edb77e160355e"),
        ("uuid", b"{6fa459ea-ee8a-3ca4-894e-db77e160355e"),
        ("uuid", b"6fa459ea-ee8a-3ca4-894e-db77e160355g"),
        ("uuid", b"6fa459ea-ee8a-3ca4-894e-db77e160355\xff"),
        ("json", b""),
        ("json", b"{"),
        ("json", b"NaN"),
        ("json", b'"\xff"'),
        ("json", b"1 2"),
    ],
)
def test_text_that_is_no_such_key(name: str, text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        KEY_CODECS[name].from_text(text)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("string", b"\xc3"),
        ("int32", b"\0" * 8),
        ("int64", b"\0" * 4),
        ("int64", b""),
        ("float64", b"\0" * 9),
        ("uuid", uuid.UUID(int=1).bytes),
        ("json", b"nope"),
        ("json", b"[" * 100_000 + b"]" * 100_000),
    ],
)
def test_record_bytes_that_are_not_of_the_format(name: str, raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        VALUE_CODECS[name].check(raw)


@pytest.mark.parametrize(
    ("name", "raw", "document"),
    [
        ("string", b'a"b\\\n', b'"a\\"b\\\\\\n"'),
        ("bytes", b"\xfb\xff", b'"-_8"'),
        ("int64", b"\x7f" + b"\xff" * 7, b"9223372036854775807"),
        ("float64", struct.pack(">d", 0.1), b"0.1"),
        ("float64", struct.pack(">d", math.nan), b'"NaN"'),
        ("float64", struct.pack(">d", -math.inf), b'"-Infinity"'),
        ("uuid", str(uuid.UUID(int=1)).encode(), b'"00000000-0000-0000-0000-000000000001"'),
        ("json", b'{"b": 1.0,"a":2}', b'{"b": 1.0,"a":2}'),
        ("none", b"anything", b"null"),
    ],
)
def test_to_json(name: str, raw: bytes, document: bytes) -> None:
    assert VALUE_CODECS[name].to_json(raw) == document


def test_values_that_nobody_wants_are_not_kept() -> None:
    assert VALUE_CODECS["none"].to_store(b"anything") == b""


@given(st.binary())
def test_base64url(raw: bytes) -> None:
    import base64

    padded = base64.urlsafe_b64encode(raw)
    assert from_base64url(padded) == raw
    assert from_base64url(padded.rstrip(b"=")) == raw


@pytest.mark.parametrize(
    "text", [b"A", b"AAAAA", b"+/==", b"AA\n", b"A A", b"AA===", b"=A", b"\xff"]
)
def test_text_that_is_not_base64url(text: bytes) -> None:
    with pytest.raises(ValueError, match="not base64url"):
        from_base64url(text)
