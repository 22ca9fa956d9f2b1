"""The trace of a request, over all instances that work for it.

nginx, or the client, gives each request a `traceparent` (W3C Trace Context, level 1). Every request
to another instance that it causes carries the same trace id, and log lines have it. So one id finds
the lines of nginx and of all instances.

    traceparent: 00-<32 hex: trace id>-<16 hex: id of the sender's part>-<2 hex: flags>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from random import getrandbits
from typing import NamedTuple

Header = tuple[bytes, bytes]

TRACEPARENT = b"traceparent"

_PATTERN = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class Trace(NamedTuple):
    """`trace_id`: of the whole request. `span_id`: of the part of this instance. `parent_id`: of
    the part of the sender; "" if it has named none."""

    trace_id: str
    span_id: str
    parent_id: str
    flags: str

    @property
    def header(self) -> bytes:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}".encode()


TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""The trace of the current request; None if there is none. The router sets it. Tasks and threads
inherit it."""


def trace_of(headers: Iterable[Header]) -> Trace:
    """The trace of a request with these headers: the trace in `traceparent`, or a new trace if this
    header is missing or invalid."""
    span_id = f"{getrandbits(64) or 1:016x}"
    value = next((value for name, value in headers if name == TRACEPARENT), b"")
    match = _PATTERN.fullmatch(value)
    if match is not None:
        trace_id, parent_id, flags = (group.decode() for group in match.groups())
        if trace_id != _NO_TRACE and parent_id != _NO_SPAN:
            return Trace(trace_id, span_id, parent_id, flags)
    return Trace(f"{getrandbits(128) or 1:032x}", span_id, "", "01")


def traced() -> list[Header]:
    """The header for a request to another instance; none if no request causes it."""
    trace = TRACE.get()
    return [] if trace is None else [(TRACEPARENT, trace.header)]
