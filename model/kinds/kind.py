"""The interface of a kind of store: layout, listings, lookups and expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from model.kinds.layout import EntryKey, Layout
from model.records import ENTRY_HEAD_SIZE
from model.rows.row_view import Pair, Render, RowView

Item = tuple[bytes, bytes | None]
"""A stored key and the JSON of its entry; None if the entry is not in the query's result."""

NO_HORIZON = -(1 << 63)


class StoredView(RowView, Protocol):
    """A view, as kinds of store see it. The fields are those of `model.views.View`."""

    @property
    def layout(self) -> Layout: ...

    @property
    def retention(self) -> int | None:
        """The time (ms) for which entries are kept; None: forever."""

    @property
    def window_key(self) -> str: ...

    def window_end(self, start: int) -> int | None:
        """The end (ms) of the window with this start (ms); None: windows are points in time."""


class Reader(Protocol):
    """The source of a read: a store partition, or the entries of one key in several of them."""

    stream_time: int | None

    def scan(self, low: bytes, high: bytes, backwards: bool = False) -> Iterator[Pair]:
        """Pairs with low <= stored key < high, in order."""


class PointReader(Reader, Protocol):
    """A store partition."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]: ...


class Deleter(Protocol):
    """The part of a batch that expiry needs."""

    def delete(self, key: bytes) -> None: ...


@dataclass(frozen=True)
class TimeSpan:
    """A time range and an order. Times are in ms, and bounds are inclusive; None: no bound."""

    first: int | None = None
    last: int | None = None
    descending: bool = False


class Kind:
    """A kind of store. The defaults are those of a store with one entry per key."""

    name: ClassVar[str]
    resource: ClassVar[str | None] = "keys"  # GET /views/{view}/{resource}
    history: ClassVar[str | None] = None  # GET {path}/{key}/{history}
    fields: ClassVar[frozenset[str]] = frozenset()  # those of views.toml that only some kinds have
    has_points: ClassVar[bool] = True  # a key has one value
    has_versions: ClassVar[bool] = False  # `as_of`; tombstones are entries
    has_changes: ClassVar[bool] = False  # GET {path}/{key}/changes
    is_custom: ClassVar[bool] = False  # a custom class
    derived: ClassVar[str] = ""  # the `Derivation.shape` that Spark writes to it; empty: none
    one_entry_per_key: ClassVar[bool] = False  # the stored key is the key alone
    entries_depend: ClassVar[bool] = (
        False  # the entries of a key are meaningless without each other
    )
    tail: ClassVar[int] = 0  # bytes of time (and sequence) after the key in a stored key
    expires_at_retention: ClassVar[bool] = False  # else one ms later, as in Kafka Streams
    on_all_instances: ClassVar[bool] = False  # each one has all partitions and reads its own first

    # Placement

    def standbys(self, configured: int, instances: int) -> int:
        """The number of standbys that a partition should have. `configured`:
        QUERYABLE_STANDBY_REPLICAS. `instances`: the number of instances."""
        return instances - 1 if self.on_all_instances else configured

    # Layout

    def layout(self, view: StoredView) -> Layout:
        """The mapping of record keys to stored keys."""
        raise NotImplementedError

    def row_key(self, view: StoredView, key: bytes, with_times: bool = True) -> EntryKey:
        """The decoded key of a row. If not `with_times`, rows of versioned stores have no times."""
        return view.layout.entry_key(key)

    def end_of(self, view: StoredView, key: EntryKey) -> int | None:
        """The end (ms) of a window or session; None if there is none."""
        return None

    def after_row(self, key: bytes) -> bytes:
        """The smallest stored key after a row of a listing."""
        return key + b"\0"

    # Listings

    def render(self, view: StoredView) -> Render:
        """A function that renders the JSON items of a listing. It runs in an inner loop, so it does
        one format operation per item."""
        raise NotImplementedError

    def filter(
        self, view: StoredView, first: int | None, last: int | None, horizon: int
    ) -> Callable[[Pair], bool] | None:
        """A predicate for the entries of a listing; None: all. It compares times in stored form."""
        if view.retention is None:
            return None
        return lambda pair: int.from_bytes(pair[1][:8], "big", signed=True) >= horizon

    # One key

    def history_items(
        self, view: StoredView, store: Reader, key: bytes, span: TimeSpan, past: bytes | None
    ) -> Iterator[Item]:
        """The entries of a key in the span's order, after the stored key `past`."""
        raise NotImplementedError

    # Expiry

    def time_of(self, stored_key: bytes, timestamp: int) -> int:
        """The time (ms) of an entry for expiry. `timestamp`: the time of its record (ms)."""
        return timestamp

    def horizon(self, view: StoredView, stream_time: int | None) -> int:
        """The smallest time (ms) that has not expired."""
        if view.retention is None or stream_time is None:
            return NO_HORIZON
        # times in record keys may be any 64-bit numbers, so the horizon must fit in 64 bits, too
        return max(NO_HORIZON, stream_time - view.retention + self.expires_at_retention)

    def delete_expired(
        self,
        view: StoredView,
        store: PointReader,
        batch: Deleter,
        stored_key: bytes,
        until: int,
        mispartitioned: bool,
    ) -> None:
        """Delete an entry whose time was before `until` (ms) when it was written.

        `mispartitioned`: the key may also have entries in other partitions.
        """
        batch.delete(stored_key)


def scan_behind(
    store: Reader, low: bytes, high: bytes, span: TimeSpan, past: bytes | None
) -> Iterator[Pair]:
    """The pairs of a range in the span's order, after the stored key `past`."""
    if past is not None:
        low, high = (low, past) if span.descending else (max(low, past + b"\0"), high)
    return store.scan(low, high, backwards=span.descending)


def later(time: int | None, bound: int) -> int:
    """The later of a time and an optional bound."""
    return bound if time is None else max(time, bound)


VALUE = slice(ENTRY_HEAD_SIZE, None)
"""The position of the value in stored bytes."""

DOCUMENT = b'{"key":%b,"value":%b}'
"""The JSON of a key and its value: % (key, value), both JSON."""
