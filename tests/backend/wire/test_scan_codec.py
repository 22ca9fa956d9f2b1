"""What instances say to one another comes back as it went in; anything else is refused."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.wire.scan import ALLOW, NEVER, Query, ScanResponse
from backend.wire.scan_codec import (
    ESTIMATE,
    MOST_ROWS,
    ROW_KINDS,
    ROWS,
    ScanRequest,
    check_response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    pack,
    unpack,
)
from model.limits import MOST_JSON_PARTS
from model.problems import BadRequest

texts = st.text(max_size=5)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
stored_keys = st.binary(max_size=9).map(b"\x01".__add__)
queries = st.builds(
    Query, stored_keys, stored_keys, st.booleans(), numbers, numbers,
    st.sampled_from((None, ALLOW, NEVER)),
)  # fmt: skip

arguments = st.dictionaries(
    st.text(max_size=9),
    texts | st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1),
    max_size=3,
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[ScanRequest, list[int], bytes | None]:
    """What instances ask: counts and rankings are of one partition."""
    total = draw(st.integers(1, 99))
    what = draw(st.sampled_from((*ROW_KINDS, ESTIMATE, "count", "top")))
    most = 1 if what in ("count", "top") else 9
    partitions = st.lists(st.integers(0, total - 1), min_size=1, max_size=most, unique=True)
    limit = draw(st.integers(int(what in ROW_KINDS), MOST_ROWS))
    of = draw(texts), draw(texts), total, what, draw(queries), limit
    ask = ScanRequest(*of, draw(arguments))
    return ask, draw(partitions), draw(st.none() | stored_keys)


rows = st.lists(
    st.tuples(st.binary(max_size=9), st.binary(min_size=16, max_size=16), st.binary(max_size=9))
)
parts = st.builds(
    ScanResponse,
    rows,
    st.none() | st.binary(max_size=9),
    st.integers(0, 2**40),
    st.dictionaries(st.integers(0, 99), texts, max_size=3),
    st.none() | st.integers(0, 2**40),
    st.none() | st.floats(0, 1e9),
    st.booleans(),
    st.booleans(),
)


@given(questions())
def test_questions(question: tuple[ScanRequest, list[int], bytes | None]) -> None:
    assert decode_request(encode_request(*question)) == question


def body_with(**changes: object) -> bytes:
    """A valid question with other values; those of `query` by the name `query_…`."""
    fields = orjson.loads(encode_request(ScanRequest("v", "h", 4, ROWS, Query(), 10), [0, 3], None))
    for name, value in changes.items():
        within, _, rest = name.partition("query_")
        if rest:
            fields["query"][rest] = value
        else:
            fields[within] = value
    return orjson.dumps(fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": -6}, {"limit": 0}, {"limit": 10**9}, {"limit": 1.0}, {"limit": "6"},
        {"limit": True}, {"limit": None}, {"total": 0}, {"total": -1}, {"total": 10**9},
        {"partitions": []}, {"partitions": [0, 0]}, {"partitions": [0] * 30_000},
        {"partitions": [4]}, {"partitions": [-1]}, {"partitions": [0.0]}, {"partitions": ["0"]},
        {"partitions": [True]}, {"partitions": {"0": 0}}, {"partitions": 0}, {"what": "all"},
        {"what": "count"}, {"what": "top"}, {"what": ["rows"]}, {"what": None}, {"view": 7},
        {"view": ["v"]}, {"view_hash": None}, {"arguments": 7},
        {"arguments": {"by": "a." * 600}}, {"arguments": {"by": 0.5}}, {"arguments": {"by": []}},
        {"arguments": dict.fromkeys(map(str, range(17)))}, {"arguments": None},
        {"after": "xy"}, {"after": 7},
        {"after": "00"}, {"after": "0300"}, {"query": None}, {"query": []}, {"query_low": ""},
        {"query_low": "00"}, {"query_high": "03"}, {"query_low": "0"}, {"query_backwards": 0},
        {"query_first": 2**63}, {"query_last": 0.5}, {"query_stale_allowed": "true"},
        {"query_active_only": None}, {"query_since": 7}, {"since": 7},
    ],
    ids=str,
)  # fmt: skip
def test_what_no_instance_asks_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises((ValueError, BadRequest)):
        decode_request(body_with(**changes))


def test_a_question_is_refused_by_its_size_before_it_is_parsed() -> None:
    with pytest.raises(BadRequest) as error:
        decode_request(body_with(partitions=[[]] * 1_000_000))
    assert error.value.more["limit"] == MOST_JSON_PARTS


def test_an_instance_from_before_stale_never_understands_all_other_questions() -> None:
    known = {"low", "high", "backwards", "first", "last", "stale_allowed"}
    told = {
        stale: orjson.loads(
            encode_request(ScanRequest("v", "h", 1, ROWS, Query(stale=stale)), [0], None)
        )
        for stale in (None, ALLOW, NEVER)
    }
    assert told[None]["query"].keys() == told[ALLOW]["query"].keys() == known
    assert told[NEVER]["query"].keys() > known, "what it does not know it refuses"
    assert [told[stale]["query"]["stale_allowed"] for stale in told] == [False, True, False]


@given(parts)
def test_answers(part: ScanResponse) -> None:
    assert decode_response(encode_response(part)) == part


@given(st.lists(st.binary(max_size=9)))
def test_lists(strings: list[bytes]) -> None:
    assert unpack(pack(strings), len(strings)) == strings


@given(parts, st.data())
def test_an_answer_that_was_cut_off(part: ScanResponse, data: st.DataObject) -> None:
    body = encode_response(part)
    with pytest.raises(ValueError):  # noqa: PT011
        decode_response(body[: data.draw(st.integers(0, len(body) - 1))])
    with pytest.raises(ValueError):  # noqa: PT011
        decode_response(body + b"x")


@given(st.binary(max_size=40))
def test_garbage(body: bytes) -> None:
    for decode in (decode_request, decode_response):
        with pytest.raises(ValueError):  # noqa: PT011
            decode(body)
    with suppress(ValueError):
        assert pack(unpack(body, 9)) == body


def test_more_strings_than_were_asked_for_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 2"):
        unpack(pack([b"a", b"b", b"c"]), 2)
    with pytest.raises(ValueError, match="at most 2"):
        unpack(b"\xff\xff\xff\xff", 2)


def test_an_answer_must_be_one_to_the_question() -> None:
    forwards = ScanRequest("v", "h", 4, ROWS, Query(), 2)
    backwards = ScanRequest("v", "h", 4, ROWS, Query(backwards=True), 2)
    row = (b"\x01k", bytes(16), b"1")
    check_response(ScanResponse([row, row], b"\x01k"), forwards, [0], b"\x01j")
    check_response(ScanResponse([row, row], b"\x01i"), backwards, [0], b"\x01j")
    check_response(ScanResponse(missing={0: "not-here"}), forwards, [0], b"\x01j")
    for ask, part in (
        (forwards, ScanResponse([row] * 3)),
        (forwards, ScanResponse(reached=b"\x01j")),
        (forwards, ScanResponse(reached=b"\x01i")),
        (backwards, ScanResponse(reached=b"\x01k")),
        (forwards, ScanResponse(missing={1: "not-here"})),
        (ScanRequest("v", "h", 4, "count"), ScanResponse([row])),
    ):
        with pytest.raises(ValueError, match="an answer"):
            check_response(part, ask, [0], b"\x01j")
