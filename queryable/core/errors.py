"""All that can go wrong, as one small tree.

    QueryableError
    ├── BadUse              the client was asked for what cannot be; nothing was sent
    ├── BadRequest          4xx: path, key, parameter, body
    ├── NotFound            404: no such view, or nothing at that path (a key that is not there is
    │                       no error: see Answer.found)
    ├── OutsideHistory      410: `as_of` lies before what the view keeps
    ├── Unavailable         503: not yet, not here, nobody; asking again later makes sense
    │   ├── NoAnswer        nobody could be reached, or no answer came in time
    │   └── Unconfirmed     a record was sent and not confirmed: it may be there all the same
    └── ServerError         500, or what is no answer of this API

`code` is the API's own (docs/reference.md), stable: switch on it. The text is for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class QueryableError(Exception):
    """`code`, `status` (0: no answer), and `more`: what else the problem document says."""

    status = 0

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail
        self.more: dict[str, Any] = more


class BadUse(QueryableError, ValueError):
    """Nothing was sent."""

    def __init__(self, detail: str) -> None:
        super().__init__("bad-use", detail)


class BadRequest(QueryableError):
    status = 400


class NotFound(QueryableError):
    status = 404


class OutsideHistory(QueryableError):
    status = 410


class Unavailable(QueryableError):
    """`retry_after` in seconds; `is_final`: waiting does not help, it needs a person."""

    status = 503
    retry_after = 1.0
    is_final = False


class NoAnswer(Unavailable):
    status = 0

    def __init__(self, detail: str, *, may_have_arrived: bool = True) -> None:
        super().__init__("no-answer", detail)
        self.may_have_arrived = may_have_arrived


class Unconfirmed(Unavailable):
    pass


class ServerError(QueryableError):
    status = 500


_BY_STATUS = {404: NotFound, 410: OutsideHistory, 503: Unavailable}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> QueryableError:
    """The error that a problem document (RFC 9457) tells of."""
    try:
        document = json.loads(body)
        code, detail = document["code"], document["detail"]
    except (ValueError, TypeError, KeyError):
        shown = body[:200].decode("utf-8", "replace")
        unknown = Unavailable if status in (502, 503, 504) else ServerError
        found = unknown("not-understood", f"status {status}, and no problem document: {shown!r}")
        found.status = status
        return found
    more = {name: value for name, value in document.items() if name not in _OF_ALL}
    error = problem(status, code, detail, **more)
    if isinstance(error, Unavailable):
        error.is_final = headers.get("retry-elsewhere") == "no"
        after = headers.get("retry-after", "")
        error.retry_after = float(after) if after.isdecimal() else 1.0
    return error


def problem(status: int, code: str, detail: str, **more: Any) -> QueryableError:
    """The error of such a status and code."""
    kind = _BY_STATUS.get(status) or (BadRequest if 400 <= status < 500 else ServerError)
    error = kind(code, detail, **more)
    error.status = status
    return error


_OF_ALL = frozenset(("type", "title", "status", "code", "detail"))
