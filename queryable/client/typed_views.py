"""Views with types: `client.view("orders", key=int, value=Order)`, for both clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from queryable.client.methods import AsyncRunner, SyncRunner, view_method, view_rows_method
from queryable.client.protocol.answers import (
    Appended,
    Change,
    Count,
    Entry,
    K,
    Session,
    Source,
    Unreadable,
    V,
    Version,
    Window,
)
from queryable.client.protocol.calls import append, batch, changes, count, point, scan, time_ranges
from queryable.client.protocol.errors import BadUse, UnexpectedValue, ValueUnreadable
from queryable.client.protocol.pagination import Pager
from queryable.client.protocol.parameters import Order, Route, Span, Stale, Time
from queryable.client.protocol.rows import ALL_KEYS
from queryable.client.protocol.transport import Call
from queryable.client.typed_conversion import Mismatch, reader_of, to_document

T = TypeVar("T")


class TimeOptions(TypedDict, total=False):
    """The options of the calls whose rows have times, as those of `Client.windows`."""

    from_: Time | None
    to: Time | None
    order: Order
    limit: int | None
    stale: Stale | None
    timeout: float | None


class TypedMethods(Generic[K, V]):
    """The methods of both handles. Each one runs the client's call of the same name with documents
    instead of typed keys and values, and converts the keys and values of the result."""

    def __init__(
        self, client: SyncRunner | AsyncRunner, name: str, key: type[K], value: type[V]
    ) -> None:
        """`key`, `value`: the types. Raises BadUse if `reader_of` does not support them."""
        self.name = name
        self._client = client
        self._context = client._context
        self._read_key: Callable[[Any], K] = reader_of(key)
        self._read_value: Callable[[Any], V] = reader_of(value)

    @view_method
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
    ) -> Call[V | None]:
        """The value of a key; None if it has none. The options are those of `Client.get`."""
        answer = yield from point.get(
            self._context, self.name, to_document(key), as_of=as_of, stale=stale, max_lag=max_lag,
            max_staleness=max_staleness, route=route, timeout=timeout,
        )  # fmt: skip
        return self._value(answer) if answer.found else None

    @view_method
    def get_many(
        self, keys: Iterable[K], *, stale: Stale | None = None, timeout: float | None = None
    ) -> Call[dict[K, V]]:
        """The values of those keys that have one."""
        key_list = list(keys)
        try:
            dict.fromkeys(key_list)
        except TypeError as error:
            raise BadUse(
                f"get_many returns a dict, which cannot have these keys: {error}. Use a type of "
                "keys that is hashable, such as a frozen dataclass."
            ) from None
        answers = yield from batch.get_many(
            self._context, self.name, map(to_document, key_list), stale=stale, timeout=timeout
        )
        pairs = zip(key_list, answers, strict=True)
        return {key: self._value(answer) for key, answer in pairs if answer.found}

    @view_rows_method
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
    ) -> Call[Pager[Entry[K, V]]]:
        """The entries from one key to another, both included, in the order of the keys."""
        pager = yield from scan.scan(
            self._context, self.name, from_=to_document(from_), to=to_document(to), prefix=prefix,
            order=order, limit=limit, stream=stream, stale=stale, timeout=timeout,
        )  # fmt: skip
        return _TypedPager(pager, self._row)

    @view_rows_method
    def windows(
        self, key: K | None = None, **options: Unpack[TimeOptions]
    ) -> Call[Pager[Window[K, V]]]:
        """The windows of a key, or of all keys, that start within these times."""
        return self._times(time_ranges.windows, key, options)

    @view_rows_method
    def sessions(
        self, key: K | None = None, **options: Unpack[TimeOptions]
    ) -> Call[Pager[Session[K, V]]]:
        """The sessions of a key, or of all keys, that overlap these times."""
        return self._times(time_ranges.sessions, key, options)

    @view_rows_method
    def versions(self, key: K, **options: Unpack[TimeOptions]) -> Call[Pager[Version[K, V]]]:
        """The versions of a key that were valid at some time within these."""
        return self._times(time_ranges.versions, key, options)

    @view_rows_method
    def changes(
        self,
        key: K,
        *,
        after: tuple[int, int] | Change[K, V | None] | None = None,
        patience: float = 60.0,
    ) -> Call[Pager[Change[K, V | None]]]:
        """The current value of a key, then each change. The rows have no end."""
        last_seen = _document_of(after) if isinstance(after, Change) else None
        pager = yield from changes.changes(
            self._context, self.name, to_document(key), after=last_seen or after, patience=patience
        )
        return _TypedPager(pager, self._row, last_seen)

    @view_method
    def count(self, *, exact: bool = False, timeout: float | None = None) -> Call[Count]:
        """The number of entries."""
        return count.count(self._context, self.name, exact=exact, timeout=timeout)

    @view_method
    def append(self, key: K, value: V, *, timeout: float | None = None) -> Call[Appended]:
        """Appends a record to the topic of the view, as `Client.append`."""
        documents = to_document(key), to_document(value)
        return append.append(self._context, self.name, *documents, timeout=timeout)

    @view_method
    def delete(self, key: K, *, timeout: float | None = None) -> Call[Appended]:
        """Deletes a key: appends a tombstone to the topic of the view."""
        return append.append(self._context, self.name, to_document(key), timeout=timeout)

    def _times(
        self, call: Callable[..., Call[Pager[Any]]], key: K | None, options: TimeOptions
    ) -> Call[Pager[Any]]:
        document = ALL_KEYS if key is None else to_document(key)
        pager = yield from call(self._context, self.name, document, **options)
        return _TypedPager(pager, self._row)

    def _row(self, row: Any) -> Any:
        key = self._read(self._read_key, row.key, f"key {row.key!r}")
        is_deleted = isinstance(row, Change) and row.is_deleted
        return row._replace(key=key, value=None if is_deleted else self._value(row))

    def _value(self, row: Any) -> V:
        if isinstance(row.value, Unreadable):
            message = f"The value of key {row.key!r} of view {self.name} cannot be read"
            report = row.value.to_json()
            raise ValueUnreadable("value-unreadable", f"{message}: {row.value.reason}.", **report)
        return self._read(self._read_value, row.value, f"value of key {row.key!r}")

    def _read(self, read: Callable[[Any], T], document: Any, subject: str) -> T:
        try:
            return read(document)
        except Mismatch as mismatch:
            raise UnexpectedValue(f"View {self.name}, {subject}: {mismatch}.") from None


class TypedView(TypedMethods[K, V], SyncRunner):
    """A view whose keys and values have types: `client.view(name, key=…, value=…)`. Nothing is sent
    before the first call. A key or value that does not have the type raises UnexpectedValue."""

    _client: SyncRunner

    def _run(self, call: Call[T]) -> T:
        return self._client._run(call)


class AsyncTypedView(TypedMethods[K, V], AsyncRunner):
    """Like TypedView, for AsyncClient."""

    _client: AsyncRunner

    async def _run(self, call: Call[T]) -> T:
        return await self._client._run(call)


class _TypedPager:
    """A Pager whose rows are converted. The first row is left out if it is `last_seen`. The untyped
    call cannot compare them, because a conversion may lose fields."""

    def __init__(
        self, pager: Pager[Any], convert: Callable[[Any], Any], last_seen: Change | None = None
    ) -> None:
        self.source: Source | None = None
        self._pager = pager
        self._convert = convert
        self._last_seen = last_seen

    def next(self) -> Call[list[Any] | None]:
        while (page := (yield from self._pager.next())) is not None:
            self.source = self._pager.source
            rows = [self._convert(row) for row in page]
            last_seen, self._last_seen = self._last_seen, None
            if last_seen is None or not rows or _document_of(rows[0]) != last_seen:
                return rows
            if rows[1:]:
                return rows[1:]
        return None

    def close(self) -> Call[None]:
        return self._pager.close()


def _document_of(change: Change) -> Change:
    """The change as it was before its conversion, without the fields that the conversion has
    lost."""
    return change._replace(key=to_document(change.key), value=to_document(change.value))
