"""What is told apart without a parser must be what the parser makes of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gunicorn_h1c import H1CProtocol
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.wire.plain_requests import MOST_BYTES, body_of_reads, path_of_get

HOST = b"Host: 127.0.0.1:8080\r\n"
LIKE_A_CLIENT = (
    b"GET /views/orders/a%20b HTTP/1.1\r\n"
    b"Host: 127.0.0.1:8080\r\n"
    b"User-Agent: curl/8\r\n"
    b"accept: */*\r\n"
    b"Accept-Encoding: gzip, deflate\r\n"
    b"Connection: keep-alive\r\n"
    b"Queryable-Final-Status: 530\r\n"
    b"\r\n"
)
READS = b"POST /internal/reads HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\n/orders/a"

PLAIN_HEADERS = (
    b"User-Agent: x",
    b"cookie: a=b; c",
    b"Accept: application/json",
    b"ACCEPT: */*",
    b"Connection: keep-alive",
    b"Sec-Fetch-Mode: cors",
    b"X-Request-Id:  ",
)
TELLING_HEADERS = (
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
    b"User-Agent : x",
    b" User-Agent: x",
    b"User-Agent: x\x00",
    b"User-Agent",
)


class Parsed:
    """What gunicorn's parser makes of some bytes."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        parser = H1CProtocol(on_body=self._on_body, limit_request_line=32768)
        parser.feed(data)
        self.is_whole = parser.is_complete and not parser.remaining()
        self.method, self.path, self.version = parser.method, parser.path, parser.http_version
        self.names = [name.lower() for name, _ in parser.headers]

    def _on_body(self, chunk: bytes) -> None:
        self.body += chunk


def agree(data: bytes) -> None:
    path, body = path_of_get(data), body_of_reads(data)
    if path is not None:
        parsed = Parsed(data)
        assert parsed.is_whole
        assert (parsed.method, parsed.path, parsed.version) == (b"GET", path, (1, 1))
        assert parsed.names.count(b"host") == 1
        assert not parsed.body
    if body is not None:
        parsed = Parsed(data)
        assert parsed.is_whole
        assert (parsed.method, parsed.path) == (b"POST", b"/internal/reads")
        assert parsed.body == body


def test_what_clients_and_the_proxy_send_is_plain() -> None:
    assert path_of_get(LIKE_A_CLIENT) == b"/views/orders/a%20b"
    assert path_of_get(b"GET /views/orders/a HTTP/1.1\r\nhost: b\r\n\r\n") == b"/views/orders/a"
    assert body_of_reads(READS) == b"/orders/a"
    agree(LIKE_A_CLIENT)
    agree(READS)


@pytest.mark.parametrize("header", PLAIN_HEADERS)
def test_headers_that_ask_for_nothing(header: bytes) -> None:
    data = b"GET /a HTTP/1.1\r\n" + HOST + header + b"\r\n\r\n"
    assert path_of_get(data) == b"/a"
    agree(data)


@pytest.mark.parametrize("header", TELLING_HEADERS)
def test_all_else_is_the_parsers(header: bytes) -> None:
    for lines in (HOST + header + b"\r\n", header + b"\r\n" + HOST):
        assert path_of_get(b"GET /a HTTP/1.1\r\n" + lines + b"\r\n") is None


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
def test_other_request_lines_are_the_parsers(start: bytes) -> None:
    assert path_of_get(start + b"\r\n" + HOST + b"\r\n") is None


def test_one_whole_request_and_nothing_else() -> None:
    for of, data in ((path_of_get, LIKE_A_CLIENT), (body_of_reads, READS)):
        recognise: Callable[[bytes], bytes | None] = of
        assert recognise(data) is not None
        assert all(recognise(data[:size]) is None for size in range(len(data)))
        assert recognise(data + data) is None
        assert recognise(data + b"x") is None


def test_long_requests_are_the_parsers() -> None:
    data = b"GET /%b HTTP/1.1\r\nHost: b\r\n\r\n"
    rest = len(data % b"")
    assert path_of_get(data % (b"k" * (MOST_BYTES - rest))) is not None
    assert path_of_get(data % (b"k" * (MOST_BYTES - rest + 1))) is None


_LINES = st.sampled_from([HOST.rstrip(), b"", *PLAIN_HEADERS, *TELLING_HEADERS])
_STARTS = st.sampled_from(
    [b"GET /a HTTP/1.1", b"POST /internal/reads HTTP/1.1", b"GET /a?b HTTP/1.1"]
)


@given(start=_STARTS, lines=st.lists(_LINES, max_size=5), body=st.binary(max_size=3))
@settings(max_examples=300)
def test_whatever_is_recognised_is_what_the_parser_reads(
    start: bytes, lines: list[bytes], body: bytes
) -> None:
    agree(b"\r\n".join([start + b" HTTP/1.1", HOST.rstrip(), *lines, b"", body]))


@given(
    of=st.sampled_from([LIKE_A_CLIENT, READS]),
    at=st.integers(0, 250),
    cut=st.integers(0, 4),
    put=st.one_of(st.binary(max_size=4), st.sampled_from([b"\r\n", b"\n", b": ", b"\r\n ", b"?"])),
)
@example(of=LIKE_A_CLIENT, at=4, cut=0, put=b'/"')
@settings(max_examples=1000)
def test_damaged_requests_are_the_parsers_or_mean_the_same(
    of: bytes, at: int, cut: int, put: bytes
) -> None:
    agree(of[:at] + put + of[at + cut :])
