"""Tests of the scan requests and responses between instances: malformed ones are refused."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.wire.scan import ALLOW, NEVER, Query, ScanResponse
from backend.wire.scan_codec import (
    COLUMNS,
    ESTIMATE,
    MAX_ROWS,
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
from model.limits import MAX_JSON_PARTS
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
def requests(draw: st.DrawFn) -> tuple[ScanRequest, list[int], bytes | None]:
    """Valid requests, with partitions and `after`. Counts, rankings and columns are of one
    partition."""
    total = draw(st.integers(1, 99))
    what = draw(st.sampled_from((*ROW_KINDS, ESTIMATE, "count", "top")))
    most = 1 if what in ("count", "top", COLUMNS) else 9
    partitions = st.lists(st.integers(0, total - 1), min_size=1, max_size=most, unique=True)
    limit = draw(st.integers(int(what in ROW_KINDS), MAX_ROWS))
    of = draw(texts), draw(texts), total, what, draw(queries), limit
    request = ScanRequest(*of, draw(arguments))
    return request, draw(partitions), draw(st.none() | stored_keys)


rows = st.lists(
    st.tuples(st.binary(max_size=9), st.binary(min_size=16, max_size=16), st.binary(max_size=9))
)
responses = st.builds(
    ScanResponse,
    rows,
    st.none() | st.binary(max_size=9),
    st.integers(0, 2**40),
    st.dictionaries(st.integers(0, 99), texts, max_size=3),
    st.none() | st.integers(0, 2**40),
    st.none() | st.floats(0, 1e9),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.lists(st.text(max_size=9), max_size=4).map(tuple),
    st.dictionaries(st.integers(0, 99), st.integers(0, 2**62), max_size=3),
    partition_counts=st.lists(st.integers(1, 99), max_size=3).map(tuple),
)


@given(requests())
def test_requests_are_decoded_as_they_were_encoded(
    arguments: tuple[ScanRequest, list[int], bytes | None],
) -> None:
    assert decode_request(encode_request(*arguments)) == arguments


def body_with(**changes: object) -> bytes:
    """A valid request with changed values. `query_…` changes a field of `query`."""
    fields = orjson.loads(encode_request(ScanRequest("v", "h", 4, ROWS, Query(), 10), [0, 3], None))
    for name, value in changes.items():
        outer, _, inner = name.partition("query_")
        if inner:
            fields["query"][inner] = value
        else:
            fields[outer] = value
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
def test_invalid_requests_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises((ValueError, BadRequest)):
        decode_request(body_with(**changes))


def test_a_large_request_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(BadRequest) as error:
        decode_request(body_with(partitions=[[]] * 1_000_000))
    assert error.value.more["limit"] == MAX_JSON_PARTS


def test_requests_without_stale_never_have_the_fields_of_older_versions() -> None:
    known = {"low", "high", "backwards", "first", "last", "stale_allowed"}
    sent = {
        stale: orjson.loads(
            encode_request(ScanRequest("v", "h", 1, ROWS, Query(stale=stale)), [0], None)
        )
        for stale in (None, ALLOW, NEVER)
    }
    assert sent[None]["query"].keys() == sent[ALLOW]["query"].keys() == known
    assert sent[NEVER]["query"].keys() > known, "older versions refuse unknown fields"
    assert [sent[stale]["query"]["stale_allowed"] for stale in sent] == [False, True, False]


@given(responses)
def test_responses_are_decoded_as_they_were_encoded(response: ScanResponse) -> None:
    assert decode_response(encode_response(response)) == response


@given(st.lists(st.binary(max_size=9)))
def test_packed_strings(strings: list[bytes]) -> None:
    assert unpack(pack(strings), len(strings)) == strings


@given(responses, st.data())
def test_a_truncated_or_longer_response_is_refused(
    response: ScanResponse, data: st.DataObject
) -> None:
    body = encode_response(response)
    with pytest.raises(ValueError):  # noqa: PT011
        decode_response(body[: data.draw(st.integers(0, len(body) - 1))])
    with pytest.raises(ValueError):  # noqa: PT011
        decode_response(body + b"x")


@given(st.binary(max_size=40))
def test_garbage_is_refused(body: bytes) -> None:
    for decode in (decode_request, decode_response):
        with pytest.raises(ValueError):  # noqa: PT011
            decode(body)
    with suppress(ValueError):
        assert pack(unpack(body, 9)) == body


def test_more_strings_than_allowed_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 2"):
        unpack(pack([b"a", b"b", b"c"]), 2)
    with pytest.raises(ValueError, match="at most 2"):
        unpack(b"\xff\xff\xff\xff", 2)


def test_a_response_must_match_the_request() -> None:
    forwards = ScanRequest("v", "h", 4, ROWS, Query(), 2)
    backwards = ScanRequest("v", "h", 4, ROWS, Query(backwards=True), 2)
    row = (b"\x01k", bytes(16), b"1")
    check_response(ScanResponse([row, row], b"\x01k"), forwards, [0], b"\x01j")
    check_response(ScanResponse([row, row], b"\x01i"), backwards, [0], b"\x01j")
    check_response(ScanResponse(missing={0: "not-here"}), forwards, [0], b"\x01j")
    for request, response in (
        (forwards, ScanResponse([row] * 3)),
        (forwards, ScanResponse(reached=b"\x01j")),
        (forwards, ScanResponse(reached=b"\x01i")),
        (backwards, ScanResponse(reached=b"\x01k")),
        (forwards, ScanResponse(missing={1: "not-here"})),
        (ScanRequest("v", "h", 4, "count"), ScanResponse([row])),
    ):
        with pytest.raises(ValueError, match="an answer"):
            check_response(response, request, [0], b"\x01j")
