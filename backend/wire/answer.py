"""An HTTP answer before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import orjson

from model.problems import Problem

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")


@dataclass(slots=True)
class Answer:
    """Status, headers (lower-case names) and body. Content-Length is added when it is sent."""

    status: int
    headers: list[Header]
    body: bytes


def freshness_headers(lag: int | None, staleness: float | None) -> tuple[Header, Header]:
    """Lag (records) and Staleness (ms; given in s); None: unknown."""
    return (
        (b"lag", b"unknown" if lag is None else b"%d" % lag),
        (b"staleness", b"unknown" if staleness is None else b"%d" % (staleness * 1000)),
    )


def problem_answer(problem: Problem, headers: list[Header] | None = None) -> Answer:
    """A Problem as an answer; `headers` are added to its own."""
    return Answer(problem.status, problem.headers() + (headers or []), problem.body())


def code_of(answer: Answer) -> str:
    """The problem code of another instance's error answer; "owner-unreachable" without one."""
    try:
        return str(orjson.loads(answer.body)["code"])
    except (ValueError, KeyError, TypeError):
        return "owner-unreachable"


def etag_of(content: bytes, kind: str) -> Header:
    """An ETag from the content and the form of an answer, if no single record identifies it."""
    return (
        b"etag",
        b'"%b-%b"' % (blake2b(content, digest_size=12).hexdigest().encode(), kind.encode()),
    )


def unless_known(answer: Answer, request_headers: list[Header]) -> Answer:
    """The answer, or 304 if the client has it already (If-None-Match, RFC 9110, 13.1.2)."""
    given = next((value for name, value in request_headers if name == b"if-none-match"), None)
    if given is None or answer.status != 200:
        return answer
    etag = next((value for name, value in answer.headers if name == b"etag"), None)
    if etag is None:
        return answer
    known = [tag.strip().removeprefix(b"W/") for tag in given.split(b",")]
    if etag not in known and b"*" not in known:
        return answer
    headers = [header for header in answer.headers if header[0] != b"content-type"]
    return Answer(304, headers, b"")
