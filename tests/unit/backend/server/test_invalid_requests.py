"""Tests of requests that are invalid, too large or endless."""

from __future__ import annotations

import asyncio
import json

import pytest

from backend.http.asgi import Receive, Scope, Send
from tests.support.running_server import (
    TIMEOUT,
    App,
    answer,
    client,
    exchange,
    run,
    running_server,
    until,
)

NEXT_REQUEST = b"GET /fast/1 HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n" % (b"k" * 33000), 414, "uri-too-long"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: %b\r\n\r\n" % (b"x" * 9000), 431, "headers-too-large"),
        (b"GET / HTTP/1.1\r\n%b\r\n" % (b"X: x\r\n" * 101), 431, "headers-too-large"),
        (b"GET / HTTP/9.1\r\n\r\n", 400, "bad-request"),
        (b"what is this\r\n\r\n", 400, "bad-request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad-request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad-request"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        # a fragment, which another server would leave out
        (b"GET /fast/1#x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET /fast/1?a=b#x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET http://a/fast/1#x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
            400,
            "bad-request",
        ),
        # a folded line, which another server could take for a header of its own
        (b"POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n Content-Length: 9\r\n\r\n", 400, "bad-request"),
        (b"GET /fast/1 HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb: c\r\n\r\n", 400, "bad-request"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nx", 400, "bad-request"),
        (
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n" + CHUNKED,
            400,
            "bad-request",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            400,
            "bad-request",
        ),
    ],
)
def test_invalid_requests_get_a_problem_document(data: bytes, status: int, code: str) -> None:
    app = App()

    async def main() -> None:
        async with running_server(app) as (_, port):
            response = await exchange(port, data + NEXT_REQUEST)
            head, _, document = response.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert b"connection: close" in head
            assert b"application/problem+json" in head
            assert json.loads(document)["code"] == code

    run(main())
    assert app.calls == 0


POST = b"POST / HTTP/1.1\r\nHost: h\r\n" + CHUNKED
ENDLESS = {
    "request line": (b"GET /", b"k", 414),
    "header": (b"GET / HTTP/1.1\r\nX: ", b"x", 431),
    "headers": (b"GET / HTTP/1.1\r\n", b"X: %b\r\n" % (b"x" * 1000), 431),
    "chunk size": (POST, b"0", 400),
    "chunk extension": (POST + b"1;", b"x", 400),
    "trailer": (POST + b"1\r\nx\r\n0\r\nX: ", b"x", 400),
    "trailers": (POST + b"1\r\nx\r\n0\r\n", b"X: x\r\n", 400),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_an_endless_part_of_a_request_is_refused(part: str) -> None:
    """The parser buffers an incomplete part, and scans it again with each call."""
    start, repeated, status = ENDLESS[part]
    repeated *= 10_000 // len(repeated)
    sent = 0

    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass

    async def main() -> None:
        nonlocal sent
        async with running_server(App(read_all)) as (_, port), client(port) as (reader, writer):
            writer.write(start)
            response_task = asyncio.create_task(reader.read(65536))
            while not response_task.done() and sent < 1_000_000:
                writer.write(repeated)
                sent += len(repeated)
                await asyncio.sleep(0.001)
            response = await asyncio.wait_for(response_task, TIMEOUT)
            assert response.startswith(b"HTTP/1.1 %d " % status)

    run(main())
    assert sent < 500_000


def test_a_body_that_becomes_invalid_is_refused() -> None:
    last_messages = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        while message["type"] == "http.request":
            message = await receive()
        last_messages.append(message["type"])
        await answer(send, b"too late")

    async def main() -> None:
        async with running_server(App(handler)) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
            )
            await asyncio.sleep(0.05)
            writer.write(b"no chunk\r\n")
            response = await asyncio.wait_for(reader.read(), TIMEOUT)
            assert response.startswith(b"HTTP/1.1 400 ")
            assert response.count(b"HTTP/1.1") == 1
            await until(lambda: last_messages, "the application to return")
            writer.close()

    run(main())
    assert last_messages == ["http.disconnect"]
