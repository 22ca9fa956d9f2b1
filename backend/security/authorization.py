"""The `Authorization` of the current request, for the requests to other instances that it causes.

The router sets it. Tasks, `run_coroutine_threadsafe` and Flask's threads inherit it, so every hop
carries the token of the client, and the other instance checks it again.
"""

from __future__ import annotations

from contextvars import ContextVar

from backend.wire.answer import Header

AUTHORIZATION: ContextVar[bytes | None] = ContextVar("authorization", default=None)
"""The value of the header; None if the request has none."""


def passed_on() -> list[Header]:
    """The header for a request to another instance; empty if the current request has none."""
    value = AUTHORIZATION.get()
    return [] if value is None else [(b"authorization", value)]
