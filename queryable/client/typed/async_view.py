"""A view with types, for `AsyncClient`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic

from queryable.client.protocol.answers import Appended, Count
from queryable.client.protocol.calls import count, scan, time_ranges
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Order, Route, Span, Stale, Time
from queryable.client.protocol.rows import ALL_KEYS
from queryable.client.protocol.transport import Call
from queryable.client.rows import AsyncRows
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


class AsyncTypedView(Generic[K, V]):
    """Like TypedView, for AsyncClient."""

    def __init__(
        self,
        run: Callable[[Call[Any]], Awaitable[Any]],
        context: ClientContext,
        name: str,
        key: Any,
        value: Any,
    ) -> None:
        self.name = name
        self._run = run
        self._calls: TypedCalls[K, V] = TypedCalls(context, name, key, value)

    async def get(
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
        found: V | None = await self._run(
            self._calls.get(
                key, as_of=as_of, stale=stale, max_lag=max_lag, max_staleness=max_staleness,
                route=route, timeout=timeout,
            )
        )  # fmt: skip
        return found

    async def get_many(
        self, keys: Iterable[K], *, stale: Stale | None = None, timeout: float | None = None
    ) -> dict[K, V]:
        """The values of those keys that have one."""
        call = self._calls.get_many(keys, stale=stale, timeout=timeout)
        found: dict[K, V] = await self._run(call)
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
    ) -> AsyncRows[TypedEntry[K, V]]:
        """The entries from one key to another, both included, in the order of the keys."""
        return AsyncRows(
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
    ) -> AsyncRows[TypedWindow[K, V]]:
        """The windows of a key, or of all keys, that start within these times."""
        found: AsyncRows[TypedWindow[K, V]] = self._times(
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
    ) -> AsyncRows[TypedSession[K, V]]:
        """The sessions of a key, or of all keys, that overlap these times."""
        found: AsyncRows[TypedSession[K, V]] = self._times(
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
    ) -> AsyncRows[TypedVersion[K, V]]:
        """The versions of a key that were valid at some time within these."""
        found: AsyncRows[TypedVersion[K, V]] = self._times(
            time_ranges.versions, TypedVersion, key, from_, to, order, limit, stale, timeout
        )
        return found

    def changes(
        self,
        key: K,
        *,
        after: tuple[int, int] | TypedChange[K, V] | None = None,
        patience: float = 60.0,
    ) -> AsyncRows[TypedChange[K, V]]:
        """The current value of a key, then each change. The rows have no end."""
        return AsyncRows(self._run, self._calls.changes(key, after, patience))

    async def count(self, *, exact: bool = False, timeout: float | None = None) -> Count:
        """The number of entries."""
        call = count.count(self._calls.context, self.name, exact=exact, timeout=timeout)
        found: Count = await self._run(call)
        return found

    async def append(self, key: K, value: V, *, timeout: float | None = None) -> Appended:
        """Appends a record to the topic of the view, as `Client.append`."""
        written: Appended = await self._run(self._calls.append(key, value, timeout))
        return written

    async def delete(self, key: K, *, timeout: float | None = None) -> Appended:
        """Deletes a key: appends a tombstone to the topic of the view."""
        written: Appended = await self._run(self._calls.delete(key, timeout))
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
        return AsyncRows(self._run, start)
