"""Tests that a request recognised without a parser is the request that the parser reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gunicorn_h1c import H1CProtocol
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.http.access import bearer_token
from backend.wire import plain_requests
from backend.wire.plain_requests import (
    MAX_BYTES,
    MAX_TOKEN_BYTES,
    PlainPost,
    is_token,
    plain_get,
    plain_reads,
)
from model.problems import Unauthenticated
from tests.support.examples import examples

HOST = b"Host: 127.0.0.1:8080\r\n"
CLIENT_REQUEST = (
    b"GET /views/orders/a%20b HTTP/1.1\r\n"
    b"Host: 127.0.0.1:8080\r\n"
    b"User-Agent: curl/8\r\n"
    b"accept: */*\r\n"
    b"Accept-Encoding: gzip, deflate\r\n"
    b"Connection: keep-alive\r\n"
    b"Queryable-Final-Status: 530\r\n"
    b"\r\n"
)
WITH_TOKEN = CLIENT_REQUEST.replace(
    b"accept:", b"authorization: Bearer  eyJ.e-_~+/0.x==\r\naccept:"
)
READS = b"POST /internal/reads HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\n/orders/a"
SIGNED_READS = READS.replace(b"Content", b"Queryable-Signature: 17:0a:ff:00\r\nContent")
KEYED_READS = READS.replace(b"Content", b"Queryable-Signature: " + b"0f" * 16 + b"\r\nContent")
NO_READS = READS.replace(b" 9\r\n\r\n/orders/a", b" 0\r\n\r\n")
ALL_READS = READS, SIGNED_READS, KEYED_READS, NO_READS

PLAIN_HEADERS = (
    b"User-Agent: x",
    b"cookie: a=b; c",
    b"Accept: application/json",
    b"ACCEPT: */*",
    b"Connection: keep-alive",
    b"Sec-Fetch-Mode: cors",
    b"X-Request-Id:  ",
    b"Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.x-_",
    b"AUTHORIZATION: bEARER   a+/~.==",
)
OTHER_HEADERS = (
    b"Accept: application/avro",
    b"Accept: */*, application/avro",
    b"If-None-Match: *",
    b"If-Match: x",
    b"Range: bytes=0-1",
    b"Content-Length: 1",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Connection: keep-alive, Upgrade",
    b"Upgrade: websocket",
    b"Expect: 100-continue",
    b"Host: another",
    b"Queryable-Forwarded: 1",
    b"X-Forwarded-Proto: https",
    b"Authorization: Basic eDp5",
    b"Authorization: Bearer",
    b"Authorization: Bearer ",
    b"Authorization: Bearer a b",
    b"Authorization: Bearer a,b",
    b"Authorization: Bearer a ",
    b"Authorization: Bearer\ta",
    b"Authorization: Bearer =",
    b"Authorization: a",
    b"Authorization: Bearer a\r\nAuthorization: Bearer a",
    b"Proxy-Authorization: Bearer a",
    b"User-Agent : x",
    b" User-Agent: x",
    b"User-Agent: x\x00",
    b"User-Agent",
)


class Parsed:
    """A request as gunicorn's parser reads it."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        parser = H1CProtocol(on_body=self._on_body, limit_request_line=32768)
        parser.feed(data)
        self.is_complete_request = parser.is_complete and not parser.remaining()
        self.method, self.path, self.version = parser.method, parser.path, parser.http_version
        self.headers = [(name.lower(), value) for name, value in parser.headers]
        self.names = [name for name, _ in self.headers]

    def _on_body(self, chunk: bytes) -> None:
        self.body += chunk


def forget_heads() -> None:
    plain_requests._unsigned_heads.clear()
    plain_requests._keyed_heads.clear()


def check_against_parser(data: bytes) -> None:
    """If the request is recognised, the parser must read the same; also after others."""
    for seen in ALL_READS:
        assert plain_reads(seen) is not None
    get, reads = plain_get(data), plain_reads(data)
    forget_heads()
    assert plain_reads(data) == reads
    if get is not None:
        path, token = get
        parsed = Parsed(data)
        assert parsed.is_complete_request
        assert (parsed.method, parsed.path, parsed.version) == (b"GET", path, (1, 1))
        assert parsed.names.count(b"host") == 1
        assert not parsed.body
        if token is None:
            assert b"authorization" not in parsed.names
        else:
            assert token == bearer_token(parsed.headers)
    if reads is not None:
        parsed = Parsed(data)
        assert parsed.is_complete_request
        assert (parsed.method, parsed.path) == (b"POST", b"/internal/reads")
        assert parsed.body == reads.body
        signatures = [v for n, v in parsed.headers if n.lower() == b"queryable-signature"]
        assert signatures == ([] if reads.signature is None else [reads.signature])


def test_requests_of_clients_and_the_proxy_are_recognised() -> None:
    assert plain_get(CLIENT_REQUEST) == (b"/views/orders/a%20b", None)
    assert plain_get(WITH_TOKEN) == (b"/views/orders/a%20b", b"eyJ.e-_~+/0.x==")
    assert plain_get(b"GET /views/a/b HTTP/1.1\r\nhost: b\r\n\r\n") == (b"/views/a/b", None)
    assert plain_reads(READS) == PlainPost(None, b"/orders/a")
    assert plain_reads(SIGNED_READS) == PlainPost(b"17:0a:ff:00", b"/orders/a")
    of_instance = SIGNED_READS.replace(b"Queryable-S", b"queryable-forwarded: b1\r\nqueryable-s")
    assert plain_reads(of_instance) == PlainPost(b"17:0a:ff:00", b"/orders/a")
    assert plain_reads(KEYED_READS) == PlainPost(b"0f" * 16, b"/orders/a")
    for data in (CLIENT_REQUEST, WITH_TOKEN, *ALL_READS):
        check_against_parser(data)


LENGTHS = st.sampled_from([b"9", b"09", b"0000009", b"00000009", b"8", b"+9", b"9 ", b" 9", b"x"])
ENDS = st.sampled_from([b"\r\n\r\n", b"\r\nA: 9\r\n\r\n", b"\n\n"])


@given(st.sampled_from(ALL_READS), LENGTHS, ENDS)
def test_a_head_that_was_seen_before_is_read_in_the_same_way(
    request_bytes: bytes, length: bytes, end: bytes
) -> None:
    check_against_parser(request_bytes.replace(b": 9\r\n\r\n", b": " + length + end))


# instead of a signature with the key of a connection: all but the last have its length
SIGNATURES = [
    b"0F" * 16,
    b"g:" * 16,
    b"a" * 10 + b"\r\nX-Forwarded-For: 10",
    b"a" * 4 + b"\r\nTransfer-Encoding: chunked",
    b"9\r\nQueryable-Signature: 0123456789",
    b"a" * 31 + b" ",
    b"a" * 28 + b"\r\n\r\n",
    b"\xc3\xa4" * 16,
    b" 9\r\n\r\n/orders/a",
]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_lines_in_place_of_a_signature_are_read_as_such(signature: bytes) -> None:
    """Regression: only its length was looked at, if the head before it was known."""
    check_against_parser(KEYED_READS.replace(b"0f" * 16, signature))
    head, _, _ = KEYED_READS.partition(b"0f")
    check_against_parser(head + signature)
    start, _, _ = READS.partition(b"9\r\n")
    check_against_parser(start + signature + b"\r\nContent-Length: 9\r\n\r\n/orders/a")


@given(st.binary(min_size=32, max_size=32))
def test_any_bytes_in_place_of_a_signature_are_read_as_such(signature: bytes) -> None:
    check_against_parser(KEYED_READS.replace(b"0f" * 16, signature))


@pytest.mark.parametrize(
    ("request_bytes", "known"),
    [(READS, plain_requests._unsigned_heads), (KEYED_READS, plain_requests._keyed_heads)],
)
def test_heads_that_were_seen_before_are_bounded(request_bytes: bytes, known: set[bytes]) -> None:
    for number in range(2 * plain_requests._MAX_KNOWN_HEADS):
        data = request_bytes.replace(b"Host: ", b"Host: %d-" % number)
        assert plain_reads(data) is not None
        assert 0 < len(known) <= plain_requests._MAX_KNOWN_HEADS
    long = request_bytes.replace(b"Host: ", b"Host: " + b"x" * 1000)
    assert plain_reads(long) is not None
    assert max(map(len, known)) < 1000


@pytest.mark.parametrize("header", PLAIN_HEADERS)
def test_headers_that_do_not_change_the_response(header: bytes) -> None:
    data = b"GET /a HTTP/1.1\r\n" + HOST + header + b"\r\n\r\n"
    found = plain_get(data)
    assert found is not None
    assert found[0] == b"/a"
    assert (found[1] is not None) == (b"bearer" in header.lower())
    check_against_parser(data)


@pytest.mark.parametrize("header", OTHER_HEADERS)
def test_requests_with_other_headers_are_left_to_the_parser(header: bytes) -> None:
    for lines in (HOST + header + b"\r\n", header + b"\r\n" + HOST):
        assert plain_get(b"GET /a HTTP/1.1\r\n" + lines + b"\r\n") is None


@pytest.mark.parametrize(
    "start",
    [
        b"GET /a?x HTTP/1.1",
        b"GET /a# HTTP/1.1",
        b"GET http://x/a HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET /a HTTP/1.0",
        b"GET /\xc3\xa9 HTTP/1.1",
        b"HEAD /a HTTP/1.1",
        b"GET  /a HTTP/1.1",
        b"\r\nGET /a HTTP/1.1",
    ],
)
def test_other_request_lines_are_left_to_the_parser(start: bytes) -> None:
    assert plain_get(start + b"\r\n" + HOST + b"\r\n") is None


def test_only_one_complete_request_is_recognised() -> None:
    recognisers = (
        (plain_get, CLIENT_REQUEST),
        (plain_get, WITH_TOKEN),
        *((plain_reads, reads) for reads in ALL_READS),
    )
    for of, data in recognisers:
        recognise: Callable[[bytes], object] = of
        assert recognise(data) is not None
        assert all(recognise(data[:size]) is None for size in range(len(data)))
        assert recognise(data + data) is None
        assert recognise(data + b"x") is None


def test_long_requests_are_left_to_the_parser() -> None:
    data = b"GET /%b HTTP/1.1\r\nHost: b\r\n\r\n"
    rest = len(data % b"")
    assert plain_get(data % (b"k" * (MAX_BYTES - rest))) is not None
    assert plain_get(data % (b"k" * (MAX_BYTES - rest + 1))) is None
    with_token = b"GET /%b HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer %b\r\n\r\n"
    rest = len(with_token % (b"", b""))
    longest = b"k" * (MAX_BYTES - rest), b"t" * MAX_TOKEN_BYTES
    assert plain_get(with_token % longest) == (b"/" + longest[0], longest[1])
    assert plain_get(with_token % (longest[0] + b"k", longest[1])) is None
    assert plain_get(with_token % (longest[0], longest[1] + b"t")) is None


@given(
    st.binary(max_size=12)
    | st.text(alphabet="Ab1._~+/-= ,\t\0ä", max_size=12).map(str.encode)
    | st.sampled_from([b"t" * MAX_TOKEN_BYTES, b"t" * (MAX_TOKEN_BYTES + 1)])
)
def test_tokens_are_those_of_the_authorization_header(text: bytes) -> None:
    try:
        found = bearer_token([(b"authorization", b"Bearer " + text)])
        assert is_token(text.lstrip(b" ")) == (len(found) <= MAX_TOKEN_BYTES)
    except Unauthenticated:
        assert not is_token(text)
    if is_token(text):
        request = b"GET /a HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer %b\r\n\r\n" % text
        assert plain_get(request) == (b"/a", text)


_LINES = st.sampled_from([HOST.rstrip(), b"", b"Content-Length: 3", *PLAIN_HEADERS, *OTHER_HEADERS])
_STARTS = st.sampled_from(
    [b"GET /a HTTP/1.1", b"POST /internal/reads HTTP/1.1", b"GET /a?b HTTP/1.1"]
)


@given(start=_STARTS, lines=st.lists(_LINES, max_size=5), body=st.binary(max_size=3))
@settings(max_examples=examples(300))
def test_a_recognised_request_is_the_one_that_the_parser_reads(
    start: bytes, lines: list[bytes], body: bytes
) -> None:
    check_against_parser(b"\r\n".join([start, HOST.rstrip(), *lines, b"", body]))


@given(
    request_bytes=st.sampled_from([CLIENT_REQUEST, WITH_TOKEN, *ALL_READS]),
    at=st.integers(0, 250),
    removed=st.integers(0, 4),
    inserted=st.one_of(
        st.binary(max_size=4), st.sampled_from([b"\r\n", b"\n", b": ", b"\r\n ", b"?"])
    ),
)
@example(request_bytes=CLIENT_REQUEST, at=4, removed=0, inserted=b'/"')
@settings(max_examples=examples(1000))
def test_changed_requests_are_left_to_the_parser_or_read_in_the_same_way(
    request_bytes: bytes, at: int, removed: int, inserted: bytes
) -> None:
    check_against_parser(request_bytes[:at] + inserted + request_bytes[at + removed :])
