"""Tests of stored keys: they sort by key, then by time, and are decoded to the record key."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.formats.bytes import BytesCodec
from model.formats.codec import Codec
from model.formats.registry import KEY_CODECS
from model.kinds.key_value import KeyValueLayout
from model.kinds.layout import ALL, EntryKey, Layout, after
from model.kinds.session import SessionLayout
from model.kinds.versioned import VersionedLayout
from model.kinds.window import WindowLayout

TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**42)
# many bytes 00 and FF, which matter for escaping
BYTES = st.lists(st.sampled_from([0, 1, 97, 254, 255]), max_size=6).map(bytes)
KEYS = {
    "bytes": (BYTES, lambda raw: raw),
    "string": (st.text("\x00ab\x7f", max_size=5).map(str.encode), lambda raw: raw),
    "int64": (
        st.integers(-(2**63), 2**63 - 1).map(lambda n: n.to_bytes(8, "big", signed=True)),
        lambda raw: int.from_bytes(raw, "big", signed=True),
    ),
    "float64": (
        st.floats(allow_nan=False).filter(bool).map(lambda x: struct.pack(">d", x)),
        lambda raw: struct.unpack(">d", raw)[0],
    ),
}
FORMATS = pytest.mark.parametrize("name", KEYS)


def window(key: bytes, start: int, sequence: int = 0) -> bytes:
    return key + struct.pack(">qi", start, sequence)


def session(key: bytes, start: int, end: int) -> bytes:
    return key + struct.pack(">qq", end, start)


@FORMATS
@given(data=st.data())
def test_windows_sort_by_key_then_start_then_sequence(name: str, data: st.DataObject) -> None:
    keys, meaning = KEYS[name]
    layout = WindowLayout(KEY_CODECS[name])
    entries = st.tuples(keys, TIMES, st.integers(0, 2**31 - 1))
    first, second = data.draw(entries), data.draw(entries)
    stored = [layout.stored_key(window(*entry)) for entry in (first, second)]
    assert layout.bare_key(window(*first)) == first[0]
    assert layout.entry_key(stored[0]) == EntryKey(first[0], start=first[1], sequence=first[2])
    ordered = (meaning(first[0]), *first[1:]) < (meaning(second[0]), *second[1:])
    assert (stored[0] < stored[1]) == ordered


@FORMATS
@given(data=st.data())
def test_sessions_and_versions_are_decoded_and_sort_by_key(name: str, data: st.DataObject) -> None:
    keys, meaning = KEYS[name]
    one, other = data.draw(keys), data.draw(keys)
    start, end = data.draw(TIMES), data.draw(TIMES)
    sessions = SessionLayout(KEY_CODECS[name])
    stored = sessions.stored_key(session(one, start, end))
    assert sessions.entry_key(stored) == EntryKey(one, start=start, end=end)
    assert sessions.bare_key(session(one, start, end)) == one
    less = stored < sessions.stored_key(session(other, start, end))
    assert less == (meaning(one) < meaning(other))
    versions = VersionedLayout(KEY_CODECS[name])
    stored = versions.stored_key(one, start)
    assert versions.entry_key(stored) == EntryKey(one, start=start)
    less = stored < versions.stored_key(other, end)
    assert less == ((meaning(one), start) < (meaning(other), end))


def stored_in_each_layout(codec: Codec, key: bytes, time: int) -> list[tuple[Layout, bytes]]:
    """Each layout, and the stored key that it makes of the key and the time."""
    of_layout: list[tuple[Layout, bytes]] = [
        (KeyValueLayout(codec), key),
        (WindowLayout(codec), window(key, time)),
        (SessionLayout(codec), session(key, time, time)),
        (VersionedLayout(codec), key),
    ]
    return [(layout, layout.stored_key(record_key, time)) for layout, record_key in of_layout]


def within(stored: bytes, bounds: tuple[bytes, bytes]) -> bool:
    return bounds[0] <= stored < bounds[1]


@FORMATS
@given(data=st.data())
def test_a_key_range_contains_exactly_the_keys_within_its_bounds(
    name: str, data: st.DataObject
) -> None:
    keys, meaning = KEYS[name]
    key, first, last = (data.draw(keys) for _ in range(3))
    codec: Codec = KEY_CODECS[name]
    time = data.draw(TIMES)
    inside = meaning(first) <= meaning(key) <= meaning(last)
    for layout, stored in stored_in_each_layout(codec, key, time):
        assert within(stored, ALL)
        assert within(stored, layout.key_range(first, last)) == inside
        assert within(stored, layout.key_range(first, None)) == (meaning(first) <= meaning(key))
        assert within(stored, layout.key_range(None, last)) == (meaning(key) <= meaning(last))
        if codec.size is None:
            assert within(stored, layout.prefix_range(first)) == key.startswith(first)


class FourBytes(BytesCodec):
    size = 4


@given(key=st.binary(min_size=4, max_size=4), length=st.integers(0, 4), other=BYTES, time=TIMES)
@example(key=b"\0abc", length=1, other=b"", time=0)
@example(key=b"aabc", length=0, other=b"aabc\x80", time=0)
def test_a_prefix_of_keys_of_one_size(key: bytes, length: int, other: bytes, time: int) -> None:
    codec = FourBytes()
    for layout, stored in stored_in_each_layout(codec, key, time):
        for prefix in (key[:length], other):
            assert within(stored, layout.prefix_range(prefix)) == key.startswith(prefix)


@given(key=BYTES, other=BYTES, start=TIMES, first=TIMES, last=TIMES)
def test_time_ranges_of_a_key(key: bytes, other: bytes, start: int, first: int, last: int) -> None:
    codec = KEY_CODECS["bytes"]
    windows, sessions, versions = WindowLayout(codec), SessionLayout(codec), VersionedLayout(codec)
    inside = key == other and first <= start <= last
    stored = windows.stored_key(window(other, start, 7))
    assert within(stored, windows.time_range(key, first, last)) == inside
    assert within(stored, windows.time_range(key, None, None)) == (key == other)
    stored = versions.stored_key(other, start)
    assert within(stored, versions.time_range(key, first, last)) == inside
    stored = sessions.stored_key(session(other, first, start))
    assert within(stored, sessions.time_range(key, last, None)) == (key == other and start >= last)


def test_window_keys_without_a_sequence() -> None:
    layout = WindowLayout(KEY_CODECS["string"], sequenced=False)
    raw = b"a" + struct.pack(">q", 60_000)
    assert layout.bare_key(raw) == b"a"
    assert layout.entry_key(layout.stored_key(raw)) == EntryKey(b"a", start=60_000, sequence=0)


@pytest.mark.parametrize(
    ("layout", "length"), [(WindowLayout, 11), (SessionLayout, 15)], ids=["window", "session"]
)
def test_a_record_key_that_is_too_short_is_refused(layout: type, length: int) -> None:
    with pytest.raises(ValueError, match=f"has only {length} bytes"):
        layout(KEY_CODECS["string"]).stored_key(b"x" * length)


@given(prefix=BYTES.map(lambda tail: b"\x01" + tail), tail=BYTES)
def test_after_is_greater_than_all_strings_with_the_prefix(prefix: bytes, tail: bytes) -> None:
    assert prefix + tail < after(prefix)
    assert not after(prefix).startswith(prefix)
