"""Query strings: what a caller gives, as the API takes it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from model.times import EPOCH, parse_duration
from queryable.core.errors import BadUse
from queryable.core.formats import Raw
from queryable.core.views import View

Time = int | str | datetime
"""Epoch ms, ISO 8601 with a zone, or a datetime with one."""

Span = str | timedelta
"""`"500ms"`, `"5s"`, `"5m"`, `"12h"`, `"7d"`, or a timedelta."""

Stale = Literal["allow", "never"]
Order = Literal["asc", "desc"]


def time_text(moment: Time) -> str:
    """BadUse."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise BadUse(f"{moment!r} has no zone: give it one, such as tzinfo=UTC.")
        return str((moment - EPOCH) // timedelta(milliseconds=1))
    return str(moment)


def span_text(span: Span) -> str:
    """BadUse."""
    if isinstance(span, timedelta):
        return f"{span // timedelta(milliseconds=1)}ms"
    try:
        parse_duration(span)
    except ValueError as e:
        raise BadUse(f"{e}.") from None
    return span


def key_bound(view: View, key: Any) -> str:
    """A bound of a range of keys, percent-encoded; BadUse."""
    if not isinstance(key, Raw):
        return view.key.parameter(key)
    if view.key.name not in ("string", "bytes"):
        raise BadUse(f"{key!r} cannot be a bound.")
    return quote(key.data, safe="")


class Parameters:
    """Name and text, percent-encoded; what is None is left out."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, name: str, text: str | int | None) -> Parameters:
        if text is not None:
            self._parts.append(f"{name}={quote(str(text), safe=':,')}")
        return self

    def add_encoded(self, name: str, text: str | None) -> Parameters:
        if text is not None:
            self._parts.append(f"{name}={text}")
        return self

    def add_time(self, name: str, moment: Time | None) -> Parameters:
        return self.add(name, None if moment is None else time_text(moment))

    def add_span(self, name: str, span: Span | None) -> Parameters:
        return self.add(name, None if span is None else span_text(span))

    def add_key(self, name: str, view: View, key: Any) -> Parameters:
        return self.add_encoded(name, None if key is None else key_bound(view, key))

    def after(self, path: str) -> str:
        return f"{path}?{'&'.join(self._parts)}" if self._parts else path
