"""Mixes of all kinds of requests, pipelined: each answer must be that of its request.

Most answers contain the key of their request; for the others, the order of the statuses tells.
"""

from __future__ import annotations

import base64
import json
import random
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

Check = Callable[[int, dict[str, str], bytes], bool]


@dataclass(frozen=True)
class Token:
    """A bearer token (empty: none), and the status that reads with it get instead of 200."""

    text: str = ""
    refused: int | None = None


NO_TOKEN = Token()


@dataclass
class Request:
    """The bytes of a request, the check of its answer, and whether the answer has a body.

    `closes`: a server may refuse it before its body has arrived, and close the connection then.
    """

    data: bytes
    check: Check
    has_body: bool = True
    closes: bool = False


@dataclass
class Mix:
    """Makes requests for the keys `k0` … of a view with values `{"id": n}`."""

    view: str
    keys: int
    tokens: Sequence[Token] = (NO_TOKEN,)
    _etags: dict[str, str] = field(default_factory=dict)

    def request(self, random_: random.Random) -> Request:
        number, token = random_.randrange(self.keys), random_.choice(self.tokens)
        make = random_.choice(
            (self._point, self._point, self._point, self._encoded, self._head, self._missing,
             self._conditional, self._search, self._batch, self._chunked_batch, self._page,
             self._bad_escape, self._wrong_method)
        )  # fmt: skip
        made: Request = make(number, token, random_)
        if token.refused is None:
            return made
        refused = token.refused
        # the refusal comes before anything else is looked at
        closes = made.data.startswith(b"POST")
        return Request(made.data, lambda status, *_: status == refused, made.has_body, closes)

    def _point(self, number: int, token: Token, random_: random.Random) -> Request:
        accept = random_.choice((None, "*/*", "application/json"))
        data = _written("GET", f"/views/{self.view}/keys/k{number}", token, Accept=accept)
        return Request(data, _is_value(number))

    def _encoded(self, number: int, token: Token, _: random.Random) -> Request:
        text = base64.urlsafe_b64encode(b"k%d" % number).decode().rstrip("=")
        data = _written("GET", f"/views/{self.view}/keys/{text}?encoding=base64url", token)
        return Request(data, _is_value(number))

    def _head(self, number: int, token: Token, _: random.Random) -> Request:
        length = str(len(_value(number)))
        return Request(
            _written("HEAD", f"/views/{self.view}/keys/k{number}", token),
            lambda status, headers, body: (
                (status, headers.get("content-length"), body) == (200, length, b"")
            ),
            has_body=False,
        )

    def _missing(self, number: int, token: Token, _: random.Random) -> Request:
        data = _written("GET", f"/views/{self.view}/keys/missing{number}", token)
        return Request(data, _is_problem(404, "key-not-found"))

    def _conditional(self, number: int, token: Token, _: random.Random) -> Request:
        path = f"/views/{self.view}/keys/k{number}"
        known = self._etags.get(path)

        def check(status: int, headers: dict[str, str], body: bytes) -> bool:
            self._etags[path] = headers["etag"]
            if known is not None and headers["etag"] == known:
                return (status, body) == (304, b"")
            return _is_value(number)(status, headers, body)

        return Request(_written("GET", path, token, **{"If-None-Match": known}), check)

    def _search(self, number: int, token: Token, _: random.Random) -> Request:
        body = json.dumps({"query": f"k{number}"}).encode()
        data = _written("POST", f"/views/{self.view}/search", token, body)
        return Request(data, _is_value(number))

    def _batch(self, number: int, token: Token, random_: random.Random) -> Request:
        numbers = [number, *(random_.randrange(self.keys) for _ in range(random_.randint(0, 4)))]
        body = json.dumps({"keys": [f"k{n}" for n in numbers]}).encode()
        data = _written("POST", f"/views/{self.view}/batch", token, body)
        return Request(data, _are_items(numbers))

    def _chunked_batch(self, number: int, token: Token, _: random.Random) -> Request:
        body = json.dumps({"keys": [f"k{number}"]}).encode()
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in (body[:5], body[5:]))
        more = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
        head = _written("POST", f"/views/{self.view}/batch", token, **more)
        return Request(head + chunks + b"0\r\n\r\n", _are_items([number]))

    def _page(self, number: int, token: Token, _: random.Random) -> Request:
        path = f"/views/{self.view}/keys?from=k{number}&to=k{number}"
        return Request(_written("GET", path, token), _are_items([number]))

    def _bad_escape(self, number: int, token: Token, _: random.Random) -> Request:
        path = f"/views/{self.view}/keys/k{number}?at=x"
        return Request(_written("GET", path, token), _is_problem(400, "unknown-parameter"))

    def _wrong_method(self, number: int, token: Token, _: random.Random) -> Request:
        data = _written("DELETE", f"/views/{self.view}/keys/k{number}", token)
        return Request(data, _is_problem(405, "method-not-allowed"))


def _written(
    method: str, path: str, token: Token, body: bytes | None = None, **headers: str | None
) -> bytes:
    if token.text:
        headers["Authorization"] = f"Bearer {token.text}"
    if body is not None:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join(
        [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]
    ).encode() + (body or b"")


def _value(number: int) -> bytes:
    return b'{"key":"k%d","value":{"id": %d}}' % (number, number)


def _is_value(number: int) -> Check:
    return lambda status, _, body: (status, body) == (200, _value(number))


def _is_problem(expected: int, code: str) -> Check:
    return lambda status, _, body: status == expected and json.loads(body)["code"] == code


def _are_items(numbers: Sequence[int]) -> Check:
    expected = [(f"k{n}", {"id": n}) for n in numbers]

    def check(status: int, headers: dict[str, str], body: bytes) -> bool:
        items: list[dict[str, Any]] = json.loads(body).get("items", [])
        return status == 200 and [(item["key"], item["value"]) for item in items] == expected

    return check


class WrongAnswer(AssertionError):
    """An answer that is not the one of its request."""


class Closed(WrongAnswer):
    """No answer, because the connection was closed."""


def run(port: int, mix: Mix, requests: int, random_: random.Random, connections: int = 2) -> int:
    """Sends `requests` in bursts over alternating connections. Returns how many were answered;
    WrongAnswer."""
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(_Connection(port))) for _ in range(connections)]
        answered = 0
        while answered < requests:
            bursts = [[mix.request(random_) for _ in range(random_.randint(1, 40))] for _ in opened]
            for connection, burst in zip(opened, bursts, strict=True):
                connection.send(b"".join(request.data for request in burst), random_)
            for connection, burst in zip(opened, bursts, strict=True):
                answered += connection.receive(burst)
        return answered


class _Connection:
    """A connection that is opened again when the server has said that it closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        self._stream = self._socket.makefile("rb")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, data: bytes, random_: random.Random) -> None:
        """In one or two pieces, so that requests are split anywhere."""
        at = random_.randint(0, len(data)) if random_.random() < 0.5 else len(data)
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` finds out why
            self._socket.sendall(data[:at])
            self._socket.sendall(data[at:])

    def receive(self, burst: Sequence[Request]) -> int:
        """Checks the answers; returns how many there are.

        A server that refuses a request before its body has arrived closes the connection after the
        answer. The requests behind it have no answer then, and a reset can erase the last answers
        before they are read (RFC 9112, 9.6).
        """
        for count, request in enumerate(burst, 1):
            try:
                status, headers, body = _read(self._stream, request.has_body)
            except Closed:
                if not any(each.closes for each in burst):
                    raise
                self.close()
                self._open()
                return count - 1
            _check(request, status, headers, body)
            if headers.get("connection") == "close":
                self.close()
                self._open()
                return count
        return len(burst)


def _check(request: Request, status: int, headers: dict[str, str], body: bytes) -> None:
    if not request.check(status, headers, body):
        raise WrongAnswer(f"{request.data!r} got {status} {headers} {body[:500]!r}")


def _read(stream: BinaryIO, has_body: bool) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (names in lower case) and body of the next response."""
    try:
        line = stream.readline()
    except ConnectionResetError:
        line = b""
    if not line:
        raise Closed("the connection was closed before all answers")
    status = int(line.split()[1])
    headers: dict[str, str] = {}
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if not has_body or status in (204, 304):
        return status, headers, b""
    if headers.get("transfer-encoding") != "chunked":
        return status, headers, stream.read(int(headers["content-length"]))
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return status, headers, body
