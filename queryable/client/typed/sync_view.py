"""A view with types, for `Client`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from queryable.client.protocol.answers import Appended, Count
from queryable.client.protocol.calls import count, scan, time_ranges
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Order, Route, Span, Stale, Time
from queryable.client.protocol.rows import ALL_KEYS
from queryable.client.protocol.transport import Call
from queryable.client.rows import Rows
from queryable.client.typed.calls import TypedCalls
from queryable.client.typed.rows import (
    K,
    TypedChange,
    TypedEntry,
    TypedSession,
    TypedVersion,
    TypedWindow,
    V,
)


class TypedView(Generic[K, V]):
    """A view whose keys and values have types: `client.view(name, key=…, value=…)`. Nothing is sent
    before the first call. A key or value that does not have the type raises UnexpectedValue."""

    def __init__(
        self,
        run: Callable[[Call[Any]], Any],
        context: ClientContext,
        name: str,
        key: Any,
        value: Any,
    ) -> None:
        self.name = name
        self._run = run
        self._calls: TypedCalls[K, V] = TypedCalls(context, name, key, value)

    def get(
        self,
        key: K,
        *,
        as_of: Time | None = None,
        stale: Stale | None = None,
        max_lag: int | None = None,
        max_staleness: Span | None = None,
        route: Route | None = None,
        timeout: float | None = None,
    ) -> V | None:
        """The value of a key; None if it has none. The options are those of `Client.get`."""
        found: V | None = self._run(
            self._calls.get(
                key, as_of=as_of, stale=stale, max_lag=max_lag, max_staleness=max_staleness,
                route=route, timeout=timeout,
            )
        )  # fmt: skip
        return found

    def get_many(
        self, keys: Iterable[K], *, stale: Stale | None = None, timeout: float | None = None
    ) -> dict[K, V]:
        """The values of those keys that have one."""
        call = self._calls.get_many(keys, stale=stale, timeout=timeout)
        found: dict[K, V] = self._run(call)
        return found

    def scan(
        self,
        *,
        from_: K | None = None,
        to: K | None = None,
        prefix: str | bytes | None = None,
        order: Order = "asc",
        limit: int | None = None,
        stream: bool = False,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> Rows[TypedEntry[K, V]]:
        """The entries from one key to another, both included, in the order of the keys."""
        return Rows(
            self._run,
            self._calls.rows(
                scan.scan, TypedEntry, from_=self._bound(from_), to=self._bound(to), prefix=prefix,
                order=order, limit=limit, stream=stream, stale=stale, timeout=timeout,
            ),
        )  # fmt: skip

    def windows(
        self,
        key: K | None = None,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        order: Order = "asc",
        limit: int | None = None,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> Rows[TypedWindow[K, V]]:
        """The windows of a key, or of all keys, that start within these times."""
        found: Rows[TypedWindow[K, V]] = self._times(
            time_ranges.windows, TypedWindow, key, from_, to, order, limit, stale, timeout
        )
        return found

    def sessions(
        self,
        key: K | None = None,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        order: Order = "asc",
        limit: int | None = None,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> Rows[TypedSession[K, V]]:
        """The sessions of a key, or of all keys, that overlap these times."""
        found: Rows[TypedSession[K, V]] = self._times(
            time_ranges.sessions, TypedSession, key, from_, to, order, limit, stale, timeout
        )
        return found

    def versions(
        self,
        key: K,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        order: Order = "asc",
        limit: int | None = None,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> Rows[TypedVersion[K, V]]:
        """The versions of a key that were valid at some time within these."""
        found: Rows[TypedVersion[K, V]] = self._times(
            time_ranges.versions, TypedVersion, key, from_, to, order, limit, stale, timeout
        )
        return found

    def changes(
        self,
        key: K,
        *,
        after: tuple[int, int] | TypedChange[K, V] | None = None,
        patience: float = 60.0,
    ) -> Rows[TypedChange[K, V]]:
        """The current value of a key, then each change. The rows have no end."""
        return Rows(self._run, self._calls.changes(key, after, patience))

    def count(self, *, exact: bool = False, timeout: float | None = None) -> Count:
        """The number of entries."""
        call = count.count(self._calls.context, self.name, exact=exact, timeout=timeout)
        found: Count = self._run(call)
        return found

    def append(self, key: K, value: V, *, timeout: float | None = None) -> Appended:
        """Appends a record to the topic of the view, as `Client.append`."""
        written: Appended = self._run(self._calls.append(key, value, timeout))
        return written

    def delete(self, key: K, *, timeout: float | None = None) -> Appended:
        """Deletes a key: appends a tombstone to the topic of the view."""
        written: Appended = self._run(self._calls.delete(key, timeout))
        return written

    def _bound(self, key: K | None) -> Any:
        return None if key is None else self._calls.key(key)

    def _times(
        self,
        call: Any,
        row: Any,
        key: K | None,
        from_: Time | None,
        to: Time | None,
        order: Order,
        limit: int | None,
        stale: Stale | None,
        timeout: float | None,
    ) -> Any:
        given = ALL_KEYS if key is None else self._calls.key(key)
        options = {"from_": from_, "to": to, "order": order, "limit": limit}
        start = self._calls.rows(call, row, given, **options, stale=stale, timeout=timeout)
        return Rows(self._run, start)
