"""Rows with times: the windows, sessions and versions of a key, or of all keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from queryable.client.protocol.answers import Session, Version, Window
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.pagination import (
    PAGE_SIZE,
    CursorPager,
    Pager,
    StreamPager,
    can_resume,
    check_page_size,
    remaining_range,
)
from queryable.client.protocol.parameters import (
    Fields,
    Order,
    Parameters,
    Span,
    Stale,
    Time,
    freshness,
)
from queryable.client.protocol.rows import (
    ALL_KEYS,
    session_from_json,
    session_position,
    version_from_json,
    version_position,
    window_from_json,
    window_position,
)
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View


def windows(
    context: ClientContext,
    view: str,
    key: Any = ALL_KEYS,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    key_from: Any = None,
    key_to: Any = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE_SIZE,
    stream: bool = False,
    partition: int | None = None,
    where: str | None = None,
    select: Fields = (),
    order_by: str | None = None,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Window]]:
    """The windows that start from `from_` to `to`, of a key or of all keys from `key_from` to
    `key_to`; ordered by key, start, sequence. All bounds are included. For all keys, `partition` is
    the only partition to read, `where` a condition, `select` the fields of the values, and
    `order_by` the field in whose order the rows come, if an index has this order."""
    view_info = yield from context.view_to_read(view, context.deadline(timeout))
    query = _Query(context, view_info, _WINDOWS, (from_, to), order, limit, page, timeout)
    pager: Pager[Window] = query.pager(
        key, (key_from, key_to), stream, stale, max_lag, max_staleness,
        partition, where, select, order_by,
    )  # fmt: skip
    return pager


def sessions(
    context: ClientContext,
    view: str,
    key: Any = ALL_KEYS,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    key_from: Any = None,
    key_to: Any = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE_SIZE,
    stream: bool = False,
    partition: int | None = None,
    where: str | None = None,
    select: Fields = (),
    order_by: str | None = None,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Session]]:
    """The sessions that overlap the time from `from_` to `to`, of a key or of all keys from
    `key_from` to `key_to`; ordered by key, end, start. All bounds are included. For all keys,
    `partition` is the only partition to read, `where` a condition, `select` the fields of the
    values, and `order_by` the field in whose order the rows come, if an index has this order."""
    view_info = yield from context.view_to_read(view, context.deadline(timeout))
    query = _Query(context, view_info, _SESSIONS, (from_, to), order, limit, page, timeout)
    pager: Pager[Session] = query.pager(
        key, (key_from, key_to), stream, stale, max_lag, max_staleness,
        partition, where, select, order_by,
    )  # fmt: skip
    return pager


def versions(
    context: ClientContext,
    view: str,
    key: Any,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE_SIZE,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Version]]:
    """The versions of a key that were valid at some time from `from_` to `to`, both included."""
    view_info = yield from context.view_to_read(view, context.deadline(timeout))
    query = _Query(context, view_info, _VERSIONS, (from_, to), order, limit, page, timeout)
    pager: Pager[Version] = query.pager(key, (None, None), False, stale, max_lag, max_staleness)
    return pager


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of row: its name in paths, its decoder, and the sort key of one key's rows."""

    path: str
    decode: Callable[..., Any]
    position: Callable[[Any], tuple[int, int]]


_WINDOWS = _Kind("windows", window_from_json, window_position)
_SESSIONS = _Kind("sessions", session_from_json, session_position)
_VERSIONS = _Kind("versions", version_from_json, version_position)


@dataclass(frozen=True, slots=True)
class _Query:
    """A query of one key or of all keys."""

    context: ClientContext
    view: View
    kind: _Kind
    times: tuple[Time | None, Time | None]
    order: Order
    limit: int | None
    page: int
    timeout: float | None

    def pager(
        self,
        key: Any,
        keys: tuple[Any, Any],
        stream: bool,
        stale: Stale | None,
        max_lag: int | None,
        max_staleness: Span | None,
        partition: int | None = None,
        where: str | None = None,
        select: Fields = (),
        order_by: str | None = None,
    ) -> Any:
        """The rows of one key or of all keys. Raises BadUse."""
        check_page_size(self.page, self.limit)
        if key is ALL_KEYS:
            if max_lag is not None or max_staleness is not None:
                raise BadUse("max_lag and max_staleness require a key.")
            return self._all_keys_pager(keys, stream, stale, partition, where, select, order_by)
        if partition is not None:
            raise BadUse("partition cannot be combined with a key.")
        if where is not None or select or order_by is not None:
            raise BadUse("where, select and order_by cannot be combined with a key.")
        if keys != (None, None):
            raise BadUse("key_from and key_to cannot be combined with a key.")
        return self._key_pager(key, stale, max_lag, max_staleness)

    def _key_pager(
        self, key: Any, stale: Stale | None, max_lag: int | None, max_staleness: Span | None
    ) -> Any:
        context, view = self.context, self.view
        view.key.path_segment(key)  # raises an error for an invalid key now

        def path(view: View) -> str:
            segment, _ = view.key.path_segment(key)
            return f"/views/{view.name}/keys/{segment}/{self.kind.path}"

        def query(view: View) -> Parameters:
            # the session may have a greater offset by the next page
            parameters = freshness(context.min_offset(view), stale, max_lag, max_staleness)
            _, is_base64 = view.key.path_segment(key)
            if is_base64:
                parameters.add("encoding", "base64url")
            return self._add_times(parameters).add("order", self.order)

        return CursorPager(
            context,
            path,
            query,
            view,
            partial(self.kind.decode, key=key),
            limit=self.limit,
            page=self.page,
            timeout=self.timeout,
            instances=lambda deadline: context.replicas(view, key, deadline),
            on_page=context.note_read,
        )

    def _all_keys_pager(
        self,
        keys: tuple[Any, Any],
        stream: bool,
        stale: Stale | None,
        partition: int | None,
        where: str | None,
        select: Fields,
        order_by: str | None,
    ) -> Any:
        view = self.view

        def query(view: View, received: Any = None) -> Parameters:
            first, last = remaining_range(self.order, *keys, received)
            return (
                self._add_times(Parameters())
                .add_key("key_from", view, first)
                .add_key("key_to", view, last)
                .add("order", self.order)
                .add("partition", partition)
                .add_filter(where, select)
                .add("order_by", order_by)
                .add("stale", stale)
            )

        def path(view: View) -> str:
            return f"/views/{view.name}/{self.kind.path}"

        if stream and order_by is None and can_resume(view):
            return StreamPager(
                self.context,
                path(view),
                view,
                query,
                self.kind.decode,
                self._was_received,
                limit=self.limit,
                timeout=self.timeout,
            )
        return CursorPager(
            self.context,
            path,
            query,
            view,
            self.kind.decode,
            limit=self.limit,
            page=self.page,
            timeout=self.timeout,
        )

    def _add_times(self, parameters: Parameters) -> Parameters:
        from_, to = self.times
        return parameters.add_time("from", from_).add_time("to", to)

    def _was_received(self, row: Any, last: Any) -> bool:
        if row.key != last.key:
            return False
        position, last_position = self.kind.position(row), self.kind.position(last)
        return position <= last_position if self.order == "asc" else position >= last_position
