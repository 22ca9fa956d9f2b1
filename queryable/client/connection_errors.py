"""Why a request got no answer, in words, from an error of urllib3 or aiohttp."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator

NOT_IN_TIME = "no answer in time"
_CLOSED = "the connection was closed before the answer was complete"
_NO_HTTP = "the answer is not HTTP"
_BY_NAME = {
    "ClientPayloadError": _CLOSED,
    "IncompleteRead": _CLOSED,
    "ProtocolError": _CLOSED,
    "ServerDisconnectedError": _CLOSED,
    "ClientResponseError": _NO_HTTP,
}
"""Errors of the two libraries; neither is imported here, because a client uses only one of them."""


def connection_problem(error: BaseException) -> str:
    """One sentence without a full stop, without the libraries' own words."""
    causes = list(_causes(error))
    for each in causes:
        if isinstance(each, socket.gaierror):
            return "the name of the host cannot be resolved"
        if isinstance(each, TimeoutError) or "Timeout" in type(each).__name__:
            return NOT_IN_TIME
        if isinstance(each, http.client.BadStatusLine) and not isinstance(
            each, http.client.RemoteDisconnected
        ):
            return _NO_HTTP
        if isinstance(each, OSError) and each.errno:
            return os.strerror(each.errno).lower()
    for each in causes:
        for kind in type(each).__mro__:
            if kind.__name__ in _BY_NAME:
                return _BY_NAME[kind.__name__]
    return type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it contains or that led to it, each once; the inner ones first,
    because they say more."""
    seen: set[int] = set()
    pending: list[object] = [error]
    found: list[BaseException] = []
    while pending:
        each = pending.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        found.append(each)
        inner = (each.__cause__, each.__context__, getattr(each, "os_error", None))
        pending += [*each.args, *inner, getattr(each, "reason", None)]
    yield from reversed(found)
