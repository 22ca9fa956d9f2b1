"""The errors that a client can get, as RFC 9457 problem details.

    Problem
    ├── BadRequest          400  malformed path, key or parameter
    ├── Unauthenticated     401  no valid token; always with WWW-Authenticate
    ├── Forbidden           403  the sender may not do this
    ├── NotFound            404  unknown key, view or route
    ├── MethodNotAllowed    405
    ├── NotAcceptable       406  no representation matches the Accept header
    ├── Conflict            409  the state of the deployment does not allow it now
    ├── Gone                410  the data has expired
    ├── KeyTooLong          414
    ├── UnsupportedMediaType 415 a body of this type is not read here
    ├── TooManyRequests     429  above a quota; always with Retry-After
    ├── QueryFailed         500  only in the KIQR dialect, whose clients expect it
    └── Unavailable         503  temporarily unavailable; always with Retry-After
        ├── RetryLater               no other instance can answer immediately
        └── NonRetryable             a retry does not help, here or on another instance

Codes are stable: clients may compare them. The detail is for people. It says what is wrong, where,
and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

PROBLEM_JSON = b"application/problem+json"
RETRY_ELSEWHERE_NO = (b"retry-elsewhere", b"no")


class Problem(Exception):
    """An error response. `retry_after` (s) is set if a retry may succeed."""

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
        """Content-Type, and Retry-After if a retry may succeed."""
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


class Unauthenticated(Problem):
    """The request needs a valid token. Sends `WWW-Authenticate` (RFC 6750, 3)."""

    status = 401
    title = "Unauthenticated"

    def __init__(self, detail: str, error: str = "") -> None:
        """`error`: the code of RFC 6750, 3.1; empty if the request has no token."""
        super().__init__("unauthenticated", detail)
        self._error = error

    def headers(self) -> list[tuple[bytes, bytes]]:
        error = {"error": self._error} if self._error else {}
        return [*super().headers(), _challenge(error)]


class Forbidden(Problem):
    """The sender may not do this. `scope`: the scope that a token would need. `subject`: the
    subject of the token, if it has one. It is not sent."""

    status = 403
    title = "Forbidden"

    def __init__(self, code: str, detail: str, scope: str = "") -> None:
        super().__init__(code, detail)
        self._scope = scope
        self.subject: str | None = None

    def headers(self) -> list[tuple[bytes, bytes]]:
        if not self._scope:
            return super().headers()
        challenge = _challenge({"error": "insufficient_scope", "scope": self._scope})
        return [*super().headers(), challenge]


def _challenge(more: Mapping[str, str]) -> tuple[bytes, bytes]:
    """The header that says how to authenticate (RFC 6750, 3)."""
    parameters = {"realm": "queryable-topics", **more}
    text = ", ".join(f'{name}="{value}"' for name, value in parameters.items())
    return b"www-authenticate", f"Bearer {text}".encode()


class Conflict(Problem):
    """The state of the deployment does not allow it now."""

    status = 409
    title = "Conflict"


class Gone(Problem):
    status = 410
    title = "Gone"


class KeyTooLong(Problem):
    status = 414
    title = "Key too long"


class UnsupportedMediaType(Problem):
    status = 415
    title = "Unsupported media type"


class TooManyRequests(Problem):
    """`retry_after`: the seconds after which the next request is within the quota."""

    status = 429
    title = "Too many requests"

    def __init__(self, code: str, detail: str, retry_after: int) -> None:
        super().__init__(code, detail)
        self.retry_after = retry_after


class QueryFailed(Problem):
    """The query cannot be answered. Only the KIQR dialect uses it."""

    title = "Query failed"


class Unavailable(Problem):
    status = 503
    title = "Not available now"
    retry_after = 1


class RetryLater(Unavailable):
    """A later retry may help, but no other instance can answer immediately: this instance has asked
    all instances that could answer. A proxy passes this error on without a retry: its budget for
    retries is for failures of instances, and clients could use up the budget."""


class NonRetryable(Unavailable):
    """A retry does not help, here or on another instance. Sends `Retry-Elsewhere: no`."""

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers(), RETRY_ELSEWHERE_NO]


class StoreError(Exception):
    """A read or a write of a store partition failed. The message names its folder and the cause.

    `damaged`: whether the stored data is corrupt, so that a retry does not help.
    """

    def __init__(self, message: str, damaged: bool) -> None:
        super().__init__(message)
        self.damaged = damaged


class StoreClosedError(Exception):
    """The store partition was closed before or during the read. Another instance may own it."""


class ConfigurationError(Exception):
    """An error that must be fixed before a process can start. The message says how."""


class TemporaryError(ConfigurationError):
    """An error that may occur although all settings are right: a later start of the process may
    succeed."""
