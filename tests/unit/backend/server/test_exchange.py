"""Tests of exchanges: the request that the application gets, the response that the client gets."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import Any

import pytest

from backend.http.asgi import CLIENT_EXTENSION, RECEIVED_EXTENSION, Message, Receive, Scope, Send
from backend.security.connection_key import EXTENSION as KEY_EXTENSION
from tests.support.running_server import (
    App,
    answer,
    client,
    exchange,
    respond_ok,
    run,
    running_server,
)

GET = b"GET / HTTP/1.1\r\nHost: h\r\n"
CLOSE = b"Connection: close\r\n"


def responses_to(handler: Any, data: bytes) -> bytes:
    """The responses to `data`, whose last request closes the connection."""
    responses = b""

    async def main() -> None:
        nonlocal responses
        async with running_server(App(handler)) as (_, port):
            responses = await exchange(port, data)

    run(main())
    return responses


def parts(response: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of one response."""
    lines, _, body = response.partition(b"\r\n\r\n")
    status, *headers = lines.split(b"\r\n")
    return int(status.split()[1]), dict(line.lower().split(b": ", 1) for line in headers), body


async def echo_scope(scope: Scope, receive: Receive, send: Send) -> None:
    extensions = scope.pop("extensions")
    assert [*extensions] == [CLIENT_EXTENSION, RECEIVED_EXTENSION, KEY_EXTENSION]
    assert 0 <= perf_counter() - extensions[RECEIVED_EXTENSION] < 60
    await answer(send, json.dumps(scope, default=lambda value: value.decode("latin-1")).encode())


async def echo_body(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body, more = body + message["body"], message["more_body"]
    await answer(send, body)


def responding(*messages: Message) -> Any:
    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return handler


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def test_the_scope_of_a_request() -> None:
    data = b"GET /a%2Fb%20c?x=%31&y HTTP/1.1\r\nHost: h\r\nAccept: a, b\r\nX_Y: no\r\n" + CLOSE
    _, _, document = parts(responses_to(echo_scope, data + b"\r\n"))
    scope = json.loads(document)
    assert scope.pop("client")[0] == scope.pop("server")[0] == "127.0.0.1"
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a/b c",
        "raw_path": "/a%2Fb%20c",
        "query_string": "x=%31&y",
        "root_path": "",
        "headers": [["host", "h"], ["accept", "a, b"], ["connection", "close"]],
    }


@pytest.mark.parametrize(
    "request_body",
    [
        b"Content-Length: 11\r\n\r\nhello world",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    ],
    ids=["length", "chunked"],
)
def test_the_body_of_a_request(request_body: bytes) -> None:
    data = b"POST / HTTP/1.1\r\nHost: h\r\n" + CLOSE + request_body
    status, _, found = parts(responses_to(echo_body, data))
    assert (status, found) == (200, b"hello world")


def test_a_body_that_arrives_in_parts_and_then_another_request() -> None:
    async def main() -> None:
        async with running_server(App(echo_body)) as (_, port), client(port) as (reader, writer):
            for number in range(3):
                text = b"%d" % number * 1000
                writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
                for at in range(0, 1000, 300):
                    await asyncio.sleep(0.002)  # the parts mostly arrive separately
                    writer.write(text[at : at + 300])
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert await reader.readexactly(1000) == text

    run(main())


def test_a_slow_application_pauses_an_upload() -> None:
    size = 8_000_000
    max_buffered = 0

    async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal max_buffered
        await asyncio.sleep(0.2)
        [connection] = server.connections
        exchange_ = connection._exchange
        assert exchange_ is not None
        received, more = 0, True
        while more:
            max_buffered = max(max_buffered, exchange_._buffered)
            message = await receive()
            received, more = received + len(message["body"]), message["more_body"]
        await answer(send, b"%d" % received)

    async def main() -> None:
        nonlocal server
        async with running_server(App(slowly)) as (server, port):
            head = b"POST / HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n" % (CLOSE, size)
            response = await exchange(port, head + b"x" * size)
            assert parts(response)[2] == b"%d" % size

    server: Any = None
    run(main())
    assert 0 < max_buffered < 1_000_000


def test_a_response_without_length_is_chunked() -> None:
    handler = responding(start(), body(b"", more=True), body(b"ab", more=True), body(b"c"))
    status, headers, found = parts(responses_to(handler, GET + CLOSE + b"\r\n"))
    assert status == 200
    assert headers[b"transfer-encoding"] == b"chunked"
    assert found == b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


def test_a_response_to_http_1_0_is_not_chunked() -> None:
    response = responses_to(
        responding(start(), body(b"ab", more=True), body(b"c")), b"GET / HTTP/1.0\r\n\r\n"
    )
    _, headers, found = parts(response)
    assert found == b"abc"
    assert b"transfer-encoding" not in headers
    assert headers[b"connection"] == b"close"


def test_the_server_does_the_framing() -> None:
    handler = responding(start(200, (b"Transfer-Encoding", b"gzip, chunked")), body(b"abc"))
    response = responses_to(handler, GET + CLOSE + b"\r\n")
    assert response.lower().count(b"transfer-encoding") == 1
    assert response.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [(b"HEAD", 200, b"3"), (b"GET", 304, b"3"), (b"GET", 204, None)],
)
def test_responses_without_a_body(method: bytes, status: int, length: bytes | None) -> None:
    """No byte follows the head, because it would be mistaken for the next response."""
    handler = responding(start(status, (b"content-length", b"3")), body(b"abc"))
    request = method + b" / HTTP/1.1\r\nHost: h\r\n"
    first, second, end = responses_to(handler, request + b"\r\n" + request + CLOSE + b"\r\n").split(
        b"\r\n\r\n"
    )
    assert end == b""
    for response in (first, second):
        found, headers, _ = parts(response)
        assert found == status
        assert headers.get(b"content-length") == length
        assert b"transfer-encoding" not in headers


async def raise_an_error(scope: Scope, receive: Receive, send: Send) -> None:
    raise LookupError("on purpose")


async def do_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    pass


@pytest.mark.parametrize(
    "handler",
    [
        raise_an_error,
        do_nothing,
        responding(start()),
        responding(body(b"x")),
        responding(start(200, (b"x", b"a\r\nSet-Cookie: b"))),
        responding(start(200, (b"x", b"a\nb"))),
        responding(start(200, (b"x", b"a\rb"))),
        responding(start(200, (b"x\n", b"a"))),
        responding(start(200, (b"content-length", b"many"))),
        responding(start(200, (b"content-length", b"2")), body(b"abc")),
    ],
)
def test_an_application_that_fails_before_its_response_gives_500(
    handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    response = responses_to(handler, b"GET /path HTTP/1.1\r\nHost: h\r\n\r\n")
    status, headers, document = parts(response)
    assert status == 500
    assert headers[b"connection"] == b"close"
    assert json.loads(document)["code"] == "internal-error"
    assert response.count(b"HTTP/1.1") == 1
    assert b"Set-Cookie" not in response
    assert "GET b'/path'" in caplog.text


@pytest.mark.parametrize(
    "messages",
    [
        [start(200, (b"content-length", b"9")), body(b"abc")],
        [start(200, (b"content-length", b"4")), body(b"abc", more=True), body(b"de")],
        [start(200, (b"content-length", b"9")), body(b"abc", more=True), start()],
        [start(200, (b"content-length", b"9")), body(b"abc", more=True)],
    ],
    ids=["too short", "too long", "started twice", "incomplete"],
)
def test_an_invalid_response_closes_the_connection(messages: list[Message]) -> None:
    """The client sees that the response is incomplete, and gets no other one."""
    request = GET + b"\r\n"
    _, _, found = parts(responses_to(responding(*messages), request + request))
    assert found == b"abc"


def test_an_incomplete_chunked_response_has_no_last_chunk() -> None:
    handler = responding(start(), body(b"abc", more=True))
    assert responses_to(handler, GET + b"\r\n").endswith(b"\r\n\r\n3\r\nabc\r\n")


EXPECTS = b"POST / HTTP/1.%d\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n" + CLOSE
EXPECTS += b"\r\n"


def test_a_client_that_expects_it_gets_100_continue() -> None:
    async def main() -> None:
        async with running_server(App(echo_body)) as (_, port), client(port) as (reader, writer):
            writer.write(EXPECTS % 1)
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"ab")
            status, _, found = parts(await reader.read())
            assert (status, found) == (200, b"ab")

    run(main())


@pytest.mark.parametrize(
    ("handler", "data"),
    [(respond_ok, EXPECTS % 1), (echo_body, EXPECTS % 1 + b"ab"), (echo_body, EXPECTS % 0 + b"ab")],
    ids=["body not read", "body sent at once", "HTTP/1.0"],
)
def test_other_clients_do_not_get_100_continue(handler: Any, data: bytes) -> None:
    response = responses_to(handler, data)
    assert response.startswith(b"HTTP/1.1 200 OK")
    assert b"100 Continue" not in response


def test_a_body_that_does_not_arrive_gives_408_unless_the_application_responds() -> None:
    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "http.disconnect"

    async def main() -> None:
        async with running_server(App(read_all, request_timeout=0.1)) as (_, port):
            response = await exchange(port, EXPECTS % 0)
            assert parts(response)[0] == 408

    run(main())


def test_a_response_before_the_end_of_the_request_closes_the_connection() -> None:
    request = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
    response = responses_to(respond_ok, request + GET + b"\r\n")
    assert parts(response)[1][b"connection"] == b"close"
    assert response.count(b"HTTP/1.1 200") == 1


def test_a_chunk_for_each_byte_does_not_cost_a_message_for_each() -> None:
    messages: list[int] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            message = await receive()
            messages.append(len(message["body"]))
            more = message["more_body"]
        await answer(send, b"%d" % sum(messages))

    chunks = b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n"
    assert parts(responses_to(handler, head + chunks))[2] == b"20000"
    assert len(messages) < 200
