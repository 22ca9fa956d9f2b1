"""HTTP responses before they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import orjson

from model.problems import Problem, RetryLater
from model.records import head_numbers

Header = tuple[bytes, bytes]

FINAL_STATUS = b"queryable-final-status"
"""A request with this header is from a proxy that asks the next holder on any 503. The proxy sees
only the status, so a request that no other holder can answer gets a status of its own."""

MARK = b"queryable-forwarded"
"""A request with this header is from another instance, and is not forwarded again."""

RECORD_TIMESTAMP = b"record-timestamp"

JSON: Header = (b"content-type", b"application/json")


@dataclass(slots=True)
class Answer:
    """A response: status, headers (with lower-case names) and body. The Content-Length is added
    when it is sent. `role`: of the store partition that a point read was answered from; ""
    elsewhere. `is_final`: no other instance can give another answer now. `record`: partition,
    offset and timestamp (ms) of the record of a point read that asks for its headers."""

    status: int
    headers: list[Header]
    body: bytes
    role: str = field(default="", compare=False)  # only counted, not sent
    is_final: bool = field(default=False, compare=False)
    record: tuple[int, int, int | None] | None = field(default=None, compare=False)


def json_answer(document: object) -> Answer:
    """The response with a document that is different each time, so that no cache keeps it."""
    return Answer(200, [JSON, (b"cache-control", b"no-store")], orjson.dumps(document))


def freshness_headers(lag: int | None, staleness: float | None) -> tuple[Header, Header]:
    """The headers Lag (records) and Staleness (ms). `staleness` is in s; None means unknown."""
    return (b"lag", lag_text(lag)), (b"staleness", staleness_text(staleness))


def timestamp_headers(entry: bytes) -> tuple[Header, ...]:
    """The header Record-Timestamp (ms) of the answer from an entry; empty if its record has none.
    The proxy makes the same header from an entry (`point_batch`)."""
    time, _ = head_numbers(entry)
    return ((RECORD_TIMESTAMP, b"%d" % time),) if time >= 0 else ()


def lag_text(lag: int | None) -> bytes:
    """A lag (records; None: unknown) as a header's value."""
    return b"unknown" if lag is None else b"%d" % lag


def staleness_text(seconds: float | None) -> bytes:
    """A staleness (None: unknown) as a header's value, in ms."""
    return b"unknown" if seconds is None else b"%d" % (seconds * 1000)


def lines_of(headers: Iterable[Header]) -> bytes:
    """A line `name: value` for each header, ended by a line feed."""
    return b"".join([b"%b: %b\n" % header for header in headers])


def problem_answer(problem: Problem, headers: list[Header] | None = None) -> Answer:
    """The response for a Problem. `headers` are added to its own."""
    answer = Answer(problem.status, problem.headers() + (headers or []), problem.body())
    answer.is_final = isinstance(problem, RetryLater)
    return answer


MALFORMED = "bad-request"
"""The problem code with which an instance refuses a request of another one that it does not
understand."""


def code_of(answer: Answer) -> str:
    """The problem code in another instance's error response, or "owner-unreachable"."""
    return code_in(answer.body) or "owner-unreachable"


def code_in(body: bytes) -> str | None:
    """The problem code in the body of another instance's error response; None without one."""
    try:
        return str(orjson.loads(body)["code"])
    except (ValueError, KeyError, TypeError):
        return None


def etag_of(content: bytes, kind: str) -> Header:
    """An ETag from a response's content and representation, if no single record identifies it."""
    return (
        b"etag",
        b'"%b-%b"' % (blake2b(content, digest_size=12).hexdigest().encode(), kind.encode()),
    )


def unless_known(answer: Answer, request_headers: list[Header]) -> Answer:
    """The response, or 304 if the client already has it (If-None-Match, RFC 9110, 13.1.2)."""
    condition = next((value for name, value in request_headers if name == b"if-none-match"), None)
    if condition is None or answer.status != 200:
        return answer
    etag = next((value for name, value in answer.headers if name == b"etag"), None)
    if etag is None:
        return answer
    known_etags = [tag.strip().removeprefix(b"W/") for tag in condition.split(b",")]
    if etag not in known_etags and b"*" not in known_etags:
        return answer
    headers = [header for header in answer.headers if header[0] != b"content-type"]
    return Answer(304, headers, b"")
