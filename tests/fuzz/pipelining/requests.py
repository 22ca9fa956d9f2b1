"""Requests, and what their answers must be."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ANY_SCOPE = "any scope"
"""What a route needs that a token with any scope opens."""


class Answer(NamedTuple):
    """A response; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


Check = Callable[[Answer], bool]
"""Whether an answer is the one of a request. A ValueError, LookupError or TypeError is a no."""


@dataclass(frozen=True)
class Token:
    """A bearer token.

    `text`: empty if none is sent. `scopes`: None if authentication is off; none if the token is not
    valid.
    """

    text: str = ""
    scopes: frozenset[str] | None = None
    subject: str | None = None

    def refusal(self, needs: str) -> int | None:
        """The status of a request that needs this scope (empty: nothing); None if it may."""
        if self.scopes is None or not needs:
            return None
        if not self.scopes:
            return 401
        accepted = {needs, f"{needs.partition(':')[0]}:*"}
        return None if needs == ANY_SCOPE or accepted & self.scopes else 403


NO_TOKEN = Token()


class Draw(NamedTuple):
    """What a request is made for: the number of a key, and the token that will be sent."""

    number: int
    token: Token
    random: random.Random


@dataclass(frozen=True)
class Request:
    """A request, and the check of its answer.

    `needs`: the scope. `closes`: a server may refuse it before its body has arrived, and close the
    connection then. `takes_token`: whether `Authorization` is sent.
    """

    method: str
    path: str
    check: Check
    needs: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    is_chunked: bool = False
    closes: bool = False
    takes_token: bool = True

    @property
    def has_body(self) -> bool:
        """Whether its answer has a body."""
        return self.method != "HEAD"

    @property
    def data(self) -> bytes:
        """As it is sent."""
        headers, body = dict(self.headers), self.body or b""
        if self.is_chunked:
            headers["Transfer-Encoding"] = "chunked"
            body = _chunked(body)
        elif self.body is not None:
            headers["Content-Length"] = str(len(body))
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = [f"{self.method} {self.path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]
        return "\r\n".join(head).encode() + body


class Kind(NamedTuple):
    """A kind of request, and how often it is drawn, in comparison with the others. `is_refused`:
    whether each answer is an error."""

    weight: int
    make: Callable[[Draw], Request]
    is_refused: bool = False


def json_body(document: Any) -> dict[str, Any]:
    """The arguments of a Request with this body."""
    body = json.dumps(document).encode()
    return {"headers": {"Content-Type": "application/json"}, "body": body}


def is_document(expected: Any) -> Check:
    return lambda answer: answer.status == 200 and answer.document == expected


def is_problem(status: int, code: str, detail: str = "") -> Check:
    """`detail`: what its detail contains, if the answer has a body."""

    def check(answer: Answer) -> bool:
        document = answer.document
        return (answer.status, document["status"], document["code"]) == (status, status, code) and (
            detail in document["detail"]
        )

    return check


def is_refusal(status: int, token: Token, needs: str) -> Check:
    """Of a token; `needs`: the scope that it would have to have."""
    if status == 403:
        said = "insufficient_scope", f'scope="{needs}"' if needs != ANY_SCOPE else ""
    else:
        said = ("invalid_token", "") if token.text else ("", "Bearer")

    def check(answer: Answer) -> bool:
        challenge = answer.headers["www-authenticate"]
        return (
            answer.status == status
            and all(each in challenge for each in said)
            and (("error" in challenge) is bool(said[0]))
        )

    return check


def _chunked(body: bytes) -> bytes:
    pieces = [piece for piece in (body[:5], body[5:]) if piece]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
