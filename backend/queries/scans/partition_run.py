"""The entries of one partition in the order of a query, a chunk at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TypeVar

from backend.ingest.store_partitions import StorePartition
from backend.queries.filters.plan import KEY_PLAN, plan_of
from backend.wire.scan import Query
from model.kinds.layout import Range, after
from model.problems import StoreClosedError, StoreError
from model.records import is_unreadable, place
from model.rows.row_view import Pair

CHUNK_BYTES = 1 << 18  # a chunk ends after it
_PIECE = 50  # entries that are read before their sizes are added up
# versions of a key, in one chunk or several: with more versions, it costs less to find the last one
# than to read the others
_MANY_VERSIONS = 256

_T = TypeVar("_T")


class PartitionLost(Exception):
    """The partition can no longer be read. `code`: of the problem."""

    def __init__(self, store_partition: StorePartition, code: str) -> None:
        super().__init__(code)
        self.store_partition = store_partition
        self.code = code


class PartitionRun(ABC):
    """Reads the entries of one partition that a query asks for, without expired ones.

    `plan`: for the header Plan. `reached`: the key up to which all entries have been read; None:
    none yet. `ended`: whether all have been read. `got`, `got_bytes`: what the last chunk has read:
    entries, and their size.
    """

    def __init__(
        self,
        store_partition: StorePartition,
        query: Query,
        low: bytes,
        high: bytes,
        plan: str,
        with_deletes: bool = False,
    ) -> None:
        """`low`, `high`: the bounds of stored keys. `with_deletes`: return tombstones, too."""
        self.store_partition = store_partition
        self.plan = plan
        self.reached: bytes | None = None
        self.ended = False
        self.got = 0
        self.got_bytes = 0
        self._backwards = query.backwards
        self._low, self._high = low, high  # of what is read
        view, kind = store_partition.view, store_partition.view.kind
        horizon = kind.horizon(view, store_partition.store.stream_time)
        self._keep = kind.filter(view, query.first, query.last, horizon)
        self._with_deletes = with_deletes

    @abstractmethod
    def read(self, count: int) -> list[Pair]:
        """Read up to `count` entries, and return those that the query asks for. Unreadable ones are
        placed. Raises PartitionLost."""

    def _kept(self, chunk: list[Pair]) -> list[Pair]:
        """The entries that the query asks for."""
        if self._keep is not None:
            chunk = [pair for pair in chunk if self._keep(pair)]
        if not self._with_deletes:
            # the innermost loop: `is_tombstone` inlined
            chunk = [pair for pair in chunk if pair[1][8] < 0xA0]
        # after it was read: ingest counts an unreadable entry before it writes it
        if self.store_partition.metadata.unreadable_values:
            partition = self.store_partition.partition
            chunk = [
                (key, place(stored, partition)) if is_unreadable(stored) else (key, stored)
                for key, stored in chunk
            ]
        return chunk


class ScanRun(PartitionRun):
    """Reads all entries within the bounds, or those of some keys."""

    def __init__(
        self,
        store_partition: StorePartition,
        query: Query,
        low: bytes,
        high: bytes,
        once: bool = False,
        with_deletes: bool = False,
        all_versions: bool = False,
        keys: Sequence[bytes] | None = None,
    ) -> None:
        """`keys`: the only ones to read, in the order of stored keys."""
        plan = plan_of(query.low, query.high) if keys is None else KEY_PLAN
        super().__init__(store_partition, query, low, high, plan, with_deletes)
        self._once = once
        self._keys = keys
        self._found = guarded(store_partition, self._scan)
        self._latest_only = store_partition.view.kind.has_versions and not all_versions
        self._carried: Pair | None = None
        self._versions = 0  # of the last key, in chunks without other keys

    def _scan(self) -> Iterator[Pair]:
        scan = self.store_partition.store.scan
        backwards, once = self._backwards, self._once
        if self._keys is None:
            return scan(self._low, self._high, backwards, once)
        ranges = map(self._within, reversed(self._keys) if backwards else self._keys)
        scans = (scan(low, high, backwards, once) for low, high in ranges if low < high)
        return chain.from_iterable(scans)

    def _within(self, key: bytes) -> Range:
        """What is to be read of a key."""
        low, high = self.store_partition.view.layout.key_range(key, key)
        return max(low, self._low), min(high, self._high)

    def read(self, count: int) -> list[Pair]:
        chunk = guarded(self.store_partition, lambda: self._next(count))
        if self._latest_only:
            chunk = self._latest(chunk)
        elif chunk:
            self.reached = chunk[-1][0]
        return self._kept(chunk)

    def _next(self, count: int) -> list[Pair]:
        """The next `count` entries; fewer at the end, or if they are large."""
        chunk: list[Pair] = []
        size = 0
        while not self.ended and len(chunk) < count and size < CHUNK_BYTES:
            wanted = min(count - len(chunk), _PIECE)
            piece = list(islice(self._found, wanted))
            self.ended = len(piece) < wanted
            size += sum([len(stored) for _, stored in piece])
            chunk += piece
        self.got, self.got_bytes = len(chunk), size
        return chunk

    def _latest(self, chunk: list[Pair]) -> list[Pair]:
        """The last version of each key, under the key without its time."""
        latest: dict[bytes, bytes] = {}
        if self._backwards:
            for key, stored in chunk:
                latest.setdefault(key[:-8], stored)
            if self.reached is not None:
                latest.pop(self.reached, None)  # an older version of the last key
            if chunk:
                self.reached = chunk[-1][0][:-8]
                self._versions = 0 if latest else self._versions + len(chunk)
                if self._versions >= _MANY_VERSIONS:
                    self._versions, self._high = 0, self.reached
                    self._found = guarded(self.store_partition, self._scan)
        else:
            if self._carried is not None:
                latest[self._carried[0]] = self._carried[1]
                self._carried = None
            for key, stored in chunk:
                latest[key[:-8]] = stored
            if latest and not self.ended:
                self._carried = latest.popitem()  # its last version may be in the next chunk
                self._versions = 0 if latest else self._versions + len(chunk)
                if self._versions >= _MANY_VERSIONS:
                    key, stored = guarded(
                        self.store_partition, partial(self._skip_versions, *self._carried)
                    )
                    latest[key] = stored
                    self._carried, self._versions = None, 0
            if latest:
                self.reached = next(reversed(latest))
        return list(latest.items())

    def _skip_versions(self, key: bytes, stored: bytes) -> Pair:
        """The last version of a key; `stored` is an earlier one. The scan goes on after the key."""
        self._low = after(key)
        last = next(self.store_partition.store.scan(key, self._low, backwards=True), None)
        self._found = self._scan()
        return key, stored if last is None else last[1]


def guarded(store_partition: StorePartition, read: Callable[[], _T]) -> _T:
    """What `read` returns. Raises PartitionLost if the store cannot be read."""
    try:
        return read()
    except StoreClosedError:
        raise PartitionLost(store_partition, "not-here") from None
    except StoreError as e:
        store_partition.read_failed(e)
        raise PartitionLost(store_partition, "store-damaged") from None
