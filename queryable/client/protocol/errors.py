"""The errors of the client.

    QueryableError
    ├── BadUse              an invalid argument or setting; nothing was sent
    ├── BadRequest          4xx: the API rejects the path, key, parameter or body
    ├── Unauthenticated     401: no token, or one that is not valid (any more)
    ├── Forbidden           403: the token's scopes do not allow this
    ├── NotFound            404: unknown view or path (for a missing key, see Answer.found)
    ├── ValueUnreadable     406: the value of the key is not in the view's format
    ├── OutsideHistory      410: `as_of` is before the history that the view keeps
    ├── Unavailable         503: not available now; a later retry can succeed
    │   ├── TooManyRequests 429: a quota or limit is used up; see `retry_after`
    │   ├── NoAnswer        no instance could be reached, or none answered in time
    │   └── Unconfirmed     a record was sent and not confirmed; it may have been written
    ├── UnexpectedValue     a key or value does not have the type of `client.view(…, value=…)`
    └── ServerError         500, or a response that is not one of this API

`code` is stable: compare it, not the text. docs/reference/problems.md lists the codes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any


class QueryableError(Exception):
    """`code`; `status` (0: no response); `detail`, a text for people; `more`: the other members of
    the problem document."""

    status = 0

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail
        self.more: dict[str, Any] = more


class BadUse(QueryableError, ValueError):
    """An invalid argument or setting. Nothing was sent."""

    def __init__(self, detail: str) -> None:
        super().__init__("bad-use", detail)


class BadRequest(QueryableError):
    """The API rejects the path, key, parameter or body (4xx)."""

    status = 400


class Unauthenticated(QueryableError):
    """The request has no token, or one that is not valid (401)."""

    status = 401


class Forbidden(QueryableError):
    """The sender may not do this (403). `scope`: the scope that a token would need; empty if none
    would help."""

    status = 403
    scope = ""


class NotFound(QueryableError):
    """Unknown view or path (404)."""

    status = 404


class ValueUnreadable(QueryableError):
    """The newest record of the key is not in the view's format (406). No retry helps. `more` has
    the `partition`, `offset` and `reason`, and names the record's `dead_letter`."""

    status = 406


class OutsideHistory(QueryableError):
    """`as_of` is before the history that the view keeps (410)."""

    status = 410


class Unavailable(QueryableError):
    """Not available now (503). `retry_after` is in seconds. `is_final`: a retry cannot help, the
    deployment needs a repair."""

    status = 503
    retry_after = 1.0
    is_final = False


class TooManyRequests(Unavailable):
    """The quota of the view, or what one client may send, is used up (429). Not retried."""

    status = 429


class NoAnswer(Unavailable):
    """No instance could be reached, or none answered in time."""

    status = 0

    def __init__(self, detail: str, *, may_have_arrived: bool = True) -> None:
        super().__init__("no-answer", detail)
        self.may_have_arrived = may_have_arrived


class Unconfirmed(Unavailable):
    """A record was sent and not confirmed. It may have been written: read the key before you send
    it again."""


class UnexpectedValue(QueryableError, ValueError):
    """A key or value of the view does not have the type that the caller gave. It was read: no retry
    helps."""

    status = 200

    def __init__(self, detail: str) -> None:
        super().__init__("unexpected-value", detail)


class ServerError(QueryableError):
    """A server error (500), or a response that is not one of this API."""

    status = 500


_BY_STATUS = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    410: OutsideHistory,
    429: TooManyRequests,
    503: Unavailable,
}
_BY_CODE = {"value-unreadable": ValueUnreadable}
_MAX_EXCERPT = 100  # characters
_READ_FOR_EXCERPT = 4000
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[!/a-z][^<>]*>", re.IGNORECASE | re.DOTALL)
_SCOPE = re.compile(r'scope="([^"]*)"')
_STANDARD_MEMBERS = frozenset(("type", "title", "status", "code", "detail"))


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> QueryableError:
    """The error for a response with a problem document (RFC 9457)."""
    try:
        document = json.loads(body)
        code, detail = document["code"], document["detail"]
    except (ValueError, TypeError, KeyError):
        return not_of_this_api(status, headers, body)
    more = {name: value for name, value in document.items() if name not in _STANDARD_MEMBERS}
    error = error_with_status(status, code, detail, **more)
    if isinstance(error, Unavailable):
        error.is_final = headers.get("retry-elsewhere") == "no"
        after = headers.get("retry-after", "")
        error.retry_after = float(after) if after.isdecimal() else 1.0
    elif isinstance(error, Forbidden):
        match = _SCOPE.search(headers.get("www-authenticate", ""))
        error.scope = match[1] if match else ""
    return error


def not_of_this_api(status: int, headers: Mapping[str, str], body: bytes) -> QueryableError:
    """The error for a response of another server, or of a proxy that reaches no instance."""
    if 300 <= status < 400 and "location" in headers:
        content = f"which leads to {_in_one_line(headers['location'])}"
    elif text := _excerpt(body):
        content = f'"{text}"'
    else:
        content = "without a body"
    kind = Unavailable if status in (502, 503, 504) else ServerError
    error = kind("not-understood", f"Not an answer of this API: status {status}, {content}.")
    error.status = status
    return error


def _excerpt(body: bytes) -> str:
    """The beginning of a text or of an HTML page."""
    text = body[:_READ_FOR_EXCERPT].decode("utf-8", "replace")
    return _in_one_line(html.unescape(_TAGS.sub(" ", text)))


def _in_one_line(text: str) -> str:
    """The beginning of the text, without line breaks and control characters."""
    words = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "\ufffd" for c in words[:_MAX_EXCERPT])
    return shown if len(words) <= _MAX_EXCERPT else f"{shown}…"


def error_with_status(status: int, code: str, detail: str, **more: Any) -> QueryableError:
    """The error for a status and a code of the API."""
    kind = (
        _BY_CODE.get(code)
        or _BY_STATUS.get(status)
        or (BadRequest if 400 <= status < 500 else ServerError)
    )
    error = kind(code, detail, **more)
    error.status = status
    return error
