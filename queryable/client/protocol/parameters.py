"""Builds targets of requests: paths and query strings, from Python values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from model.times import EPOCH, parse_duration
from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.formats import Raw
from queryable.client.protocol.views import View

Time = int | str | datetime
"""Epoch ms, ISO 8601 with a time zone, or a datetime with one."""

Span = str | timedelta
"""`"500ms"`, `"5s"`, `"5m"`, `"12h"`, `"7d"`, or a timedelta."""

Stale = Literal["allow", "never"]
Order = Literal["asc", "desc"]
OrderBy = Literal["sum", "min", "max", "avg", "count", "entries"]
"""A number of a group, or of a key in a view of windows or sessions."""
Route = Literal["local"]
"""`local`: only the instance that gets the request answers."""


Fields = str | Sequence[str]
"""Names of fields, such as `["delay", "crew.captain"]`; as text, separated by commas."""


class Parameters:
    """A query string. A parameter whose value is None is omitted."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, name: str, text: str | int | None) -> Parameters:
        if text is not None:
            self._parts.append(f"{name}={quote(str(text), safe=':,')}")
        return self

    def add_encoded(self, name: str, text: str | None) -> Parameters:
        """`text` is percent-encoded already."""
        if text is not None:
            self._parts.append(f"{name}={text}")
        return self

    def add_time(self, name: str, moment: Time | None) -> Parameters:
        """Add a time. Raises BadUse if it is invalid."""
        return self.add(name, None if moment is None else _time_text(moment))

    def add_span(self, name: str, span: Span | None) -> Parameters:
        """Add a duration. Raises BadUse if it is invalid."""
        return self.add(name, None if span is None else _span_text(span))

    def add_key(self, name: str, view: View, key: Any) -> Parameters:
        """Adds a bound of a range of keys. Raises BadUse."""
        return self.add_encoded(name, None if key is None else _bound_text(view, key))

    def add_prefix(self, view: View, prefix: str | bytes | None) -> Parameters:
        """Add a prefix of keys. Raises BadUse unless the view's keys can have a prefix."""
        return self.add_encoded("prefix", None if prefix is None else _prefix_text(view, prefix))

    def add_filter(
        self, where: str | None, select: Fields = (), max_examined: int | None = None
    ) -> Parameters:
        """Add the condition of entries, the fields of their values, and a bound of the cost."""
        self.add("where", where).add_names("select", select)
        return self.add("max_examined", max_examined)

    def add_names(self, name: str, names: Fields | None) -> Parameters:
        """Add names of fields, separated by commas; none at all are omitted."""
        text = names if names is None or isinstance(names, str) else ",".join(names)
        return self.add(name, text or None)

    def append_to(self, path: str) -> str:
        return f"{path}?{'&'.join(self._parts)}" if self._parts else path


def freshness(
    min_offset: str | None,
    stale: Stale | None,
    max_lag: int | None,
    max_staleness: Span | None,
) -> Parameters:
    """The parameters that set how fresh an answer must be."""
    return (
        Parameters()
        .add("min_offset", min_offset)
        .add("stale", stale)
        .add("max_lag", max_lag)
        .add_span("max_staleness", max_staleness)
    )


def key_target(view: View, key: Any, suffix: str, query: Parameters) -> str:
    """The target of a request for one key. Raises BadUse."""
    segment, is_base64 = view.key.path_segment(key)
    if is_base64:
        query.add("encoding", "base64url")
    return query.append_to(f"/views/{view.name}/keys/{segment}{suffix}")


def _time_text(moment: Time) -> str:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise BadUse(f"{moment!r} has no time zone. Set one, such as tzinfo=UTC.")
        return str((moment - EPOCH) // timedelta(milliseconds=1))
    return str(moment)


def _span_text(span: Span) -> str:
    if isinstance(span, timedelta):
        return f"{span // timedelta(milliseconds=1)}ms"
    try:
        parse_duration(span)
    except ValueError as e:
        raise BadUse(f"{e}.") from None
    return span


def _bound_text(view: View, key: Any) -> str:
    if not isinstance(key, Raw):
        return view.key.parameter(key)
    if not view.key.has_prefixes:
        raise BadUse(
            f"{key!r} cannot be a bound: keys of view {view.name} are {view.key.name}, and only "
            "string and bytes keys can be given as Raw."
        )
    return quote(key.data, safe="")


def _prefix_text(view: View, prefix: str | bytes) -> str:
    if not view.key.has_prefixes:
        raise BadUse(
            f"View {view.name} has {view.key.name} keys; only string and bytes keys have a prefix."
        )
    return view.key.parameter(prefix)
