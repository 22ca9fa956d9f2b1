"""The keys of the index by time: exactly those of expired entries are in its ranges."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from model.kinds.expiry import (
    MAX_TIME,
    decode_index_key,
    expired_range,
    index_key,
    index_range_from,
    index_range_to,
)

times = st.integers(-(1 << 63), MAX_TIME) | st.integers(-3, 3)
keys = st.binary(max_size=9).map(lambda key: b"\x01" + key)


@given(times, times, keys)
@example(5, 5, b"\x01")
@example(4, 5, b"\x01\xff\xff")
@example(6, 5, b"\x01")
def test_ranges_have_the_keys_of_these_times(time: int, bound: int, key: bytes) -> None:
    made = index_key(time, key)
    assert decode_index_key(made) == (time, key)
    for (low, high), is_in in (
        (expired_range(bound), time < bound),
        (index_range_to(bound), time <= bound),
        (index_range_from(bound), time >= bound),
    ):
        assert (low <= made < high) == is_in
