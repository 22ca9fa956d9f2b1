"""Every error that a client can be told, as RFC 9457 problem details.

    Problem
    ├── BadRequest          400  malformed path, key, parameter
    ├── NotFound            404  the key is not there, or there is no such view or route
    ├── MethodNotAllowed    405
    ├── NotAcceptable       406  none of the forms that the reader accepts
    ├── Gone                410  it was there, and is not kept any more
    ├── KeyTooLong          414
    ├── QueryFailed         500  only in KIQR's dialect, whose clients expect it
    └── Unavailable         503  not yet, not here, nobody: always with Retry-After
        └── NonRetryable             … and asking again or elsewhere does not help

A code is stable: clients may switch on it. The detail is for people: what, where, what to do.
"""

from __future__ import annotations

import orjson

PROBLEM_JSON = b"application/problem+json"
RETRY_ELSEWHERE_NO = (b"retry-elsewhere", b"no")


class Problem(Exception):
    """An answer that is an error; `retry_after` (s) is what tells that asking again makes sense."""

    status = 500
    title = "Internal error"
    retry_after: int | None = None

    def __init__(self, code: str, detail: str, **more: object) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.more = more

    def body(self) -> bytes:
        """The problem document, `{"type", "title", "status", "code", "detail", …}`, as JSON."""
        return orjson.dumps(
            {
                "type": f"urn:queryable:{self.code}",
                "title": self.title,
                "status": self.status,
                "code": self.code,
                "detail": self.detail,
                **self.more,
            },
            default=str,
        )

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Content-Type, and Retry-After where asking again makes sense."""
        headers = [(b"content-type", PROBLEM_JSON)]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        return headers


class BadRequest(Problem):
    status = 400
    title = "Bad request"


class NotFound(Problem):
    status = 404
    title = "Not found"


class MethodNotAllowed(Problem):
    status = 405
    title = "Method not allowed"

    def __init__(self, method: str, allow: str) -> None:
        super().__init__("method-not-allowed", f"{method} is not allowed here; use {allow}.")
        self.allow = allow

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers(), (b"allow", self.allow.encode())]


class NotAcceptable(Problem):
    status = 406
    title = "Not acceptable"


class Forbidden(Problem):
    """Only members of the group may ask this."""

    status = 403
    title = "Forbidden"


class Gone(Problem):
    status = 410
    title = "Gone"


class KeyTooLong(Problem):
    status = 414
    title = "Key too long"


class QueryFailed(Problem):
    """The question cannot be answered, in the way in which KIQR says so."""

    title = "Query failed"


class Unavailable(Problem):
    status = 503
    title = "Not available now"
    retry_after = 1


class NonRetryable(Unavailable):
    """Neither waiting nor another instance helps: this needs a person. `Retry-Elsewhere: no`."""

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers(), RETRY_ELSEWHERE_NO]


class StoreError(Exception):
    """A store partition failed on a read or a write; the message names its folder and says how.

    `damaged`: what is stored is wrong, so that trying again will not help.
    """

    def __init__(self, message: str, damaged: bool) -> None:
        super().__init__(message)
        self.damaged = damaged


class StoreClosedError(Exception):
    """The store partition was closed under the reader: somebody else holds it now, or soon."""


class ConfigurationError(Exception):
    """Something a person must mend before a process can start; the message says what and how."""
