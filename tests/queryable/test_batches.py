"""The batches that the client sends are none that an instance refuses for their size."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from backend.queries.key_bodies import MAX_KEYS, parse_batch
from model.limits import MOST_BATCH_BYTES
from queryable.core.calls import batches_of

small = st.sampled_from([b"7", b'"k"', b"[1,2,3]"])
large = st.sampled_from([b'"%b"' % (b"x" * 300_000), b"[%b]" % b",".join([b"[]"] * 5000)])


@given(st.lists(small | large, max_size=30), st.integers(0, 2100))
def test_every_key_is_asked_for_once_in_batches_that_fit(keys: list[bytes], more: int) -> None:
    keys += [b'"k"'] * more
    asked: list[object] = []
    for start, end, body in batches_of(keys):
        assert start == len(asked)
        assert len(body) <= MOST_BATCH_BYTES
        found = parse_batch(body)
        assert 0 < len(found) == end - start <= MAX_KEYS
        asked += [key for key, _ in found]
    assert asked == [orjson.loads(key) for key in keys]
