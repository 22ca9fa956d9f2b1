"""What instances say to one another comes back as it went in; anything else is refused."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.core.scan import ALLOW, NEVER, Part, Query
from backend.core.scan_wire import (
    ROWS,
    Ask,
    decode_ask,
    decode_part,
    encode_ask,
    encode_part,
    pack,
    unpack,
)

texts = st.text(max_size=5)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
queries = st.builds(
    Query, st.binary(max_size=9), st.binary(max_size=9), st.booleans(), numbers, numbers,
    st.sampled_from((None, ALLOW, NEVER)),
)  # fmt: skip
asks = st.builds(
    Ask,
    texts,
    texts,
    st.integers(0, 99),
    texts,
    queries,
    st.integers(0, 999),
    st.none() | texts,
    st.booleans(),
)
rows = st.lists(
    st.tuples(st.binary(max_size=9), st.binary(min_size=16, max_size=16), st.binary(max_size=9))
)
parts = st.builds(
    Part,
    rows,
    st.none() | st.binary(max_size=9),
    st.integers(0, 2**40),
    st.dictionaries(st.integers(0, 99), texts, max_size=3),
    st.none() | st.integers(0, 2**40),
    st.none() | st.floats(0, 1e9),
    st.booleans(),
    st.booleans(),
)


@given(asks, st.lists(st.integers(0, 99)), st.none() | st.binary(max_size=9))
def test_questions(ask: Ask, partitions: list[int], after: bytes | None) -> None:
    assert decode_ask(encode_ask(ask, partitions, after)) == (ask, partitions, after)


def test_an_instance_from_before_stale_never_understands_all_other_questions() -> None:
    known = {"low", "high", "backwards", "first", "last", "stale_allowed"}
    told = {
        stale: orjson.loads(encode_ask(Ask("v", "h", 1, ROWS, Query(stale=stale)), [0], None))
        for stale in (None, ALLOW, NEVER)
    }
    assert told[None]["query"].keys() == told[ALLOW]["query"].keys() == known
    assert told[NEVER]["query"].keys() > known, "what it does not know it refuses"
    assert [told[stale]["query"]["stale_allowed"] for stale in told] == [False, True, False]


@given(parts)
def test_answers(part: Part) -> None:
    assert decode_part(encode_part(part)) == part


@given(st.lists(st.binary(max_size=9)))
def test_lists(strings: list[bytes]) -> None:
    assert unpack(pack(strings)) == strings


@given(parts, st.data())
def test_an_answer_that_was_cut_off(part: Part, data: st.DataObject) -> None:
    body = encode_part(part)
    with pytest.raises(ValueError):  # noqa: PT011
        decode_part(body[: data.draw(st.integers(0, len(body) - 1))])
    with pytest.raises(ValueError):  # noqa: PT011
        decode_part(body + b"x")


@given(st.binary(max_size=40))
def test_garbage(body: bytes) -> None:
    for decode in (decode_ask, decode_part):
        with pytest.raises(ValueError):  # noqa: PT011
            decode(body)
    with suppress(ValueError):
        assert pack(unpack(body)) == body
