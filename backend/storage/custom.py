"""Custom stores: a class named in views.toml as `store = "package.module:Class"`.

There is one object per store partition. Its methods are never called concurrently. It keeps its
data in memory, and gets all records from the start of the log when its partition is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from model.classes import import_class
from model.problems import ConfigurationError, StoreClosedError, StoreError
from model.records import LastRecord, StoreMetadata


class CustomStore(Protocol):
    """The interface of the class; its constructor is called without arguments."""

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        """Apply a record; records come in offset order.

        `key` and `value` are record bytes, and the value of a tombstone is None. `timestamp`: ms.
        """

    def query(self, key: bytes) -> Any:
        """The answer for a key, which must be serialisable as JSON. None gives status 404."""

    def size(self) -> int:
        """Approximate memory use in bytes."""

    def close(self) -> None:
        """Release resources. No method is called after this one."""


def load_store(path: str) -> type[CustomStore]:
    """Import the class `package.module:Class`. Raises ConfigurationError if it cannot be used."""
    loaded = import_class(path)
    missing = [name for name in ("apply", "query", "size", "close") if not hasattr(loaded, name)]
    if missing:
        raise ConfigurationError(
            f"{path} lacks the methods {', '.join(missing)}; see backend.storage.custom.CustomStore"
        )
    store: type[CustomStore] = loaded
    return store


_Record = tuple[bytes, bytes | None, int, int]
"""The arguments of `CustomStore.apply`."""


class CustomBatch:
    """Records for a custom store, in log order."""

    def __init__(self) -> None:
        self.records: list[_Record] = []

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        self.records.append((key, value, timestamp, offset))


class CustomPartition:
    """An open store partition with a custom store. It is never written to disk."""

    stream_time: int | None = None
    is_bulk_loading = False
    written_bytes = 0

    def __init__(self, name: str, store: CustomStore) -> None:
        self._name = name
        self._store = store
        self._lock = threading.Lock()
        self._closed = False
        self._applied = 0
        self.position: int | None = None
        self.metadata: StoreMetadata | None = None
        self.last_record: LastRecord | None = None

    def query(self, key: bytes) -> Any:
        """The store's answer for a key. Raises StoreError, StoreClosedError."""
        with self._lock:
            if self._closed:
                raise StoreClosedError(self._name)
            try:
                return self._store.query(key)
            except Exception as e:
                raise StoreError(f"{self._name}: {type(e).__name__}: {e}", damaged=False) from e

    def get(self, key: bytes) -> bytes | None:
        return None

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def at_one_moment(
        self, ranges: Sequence[tuple[bytes, bytes]], backwards: bool = False
    ) -> tuple[Callable[[bytes], bytes | None], list[Iterator[tuple[bytes, bytes]]]]:
        return self.get, [iter(()) for _ in ranges]

    def new_batch(self) -> CustomBatch:
        return CustomBatch()

    def write(
        self,
        batch: CustomBatch,
        position: int,
        metadata: StoreMetadata | None = None,
        stream_time: int | None = None,
        last_record: LastRecord | None = None,
    ) -> None:
        with self._lock:
            for record in batch.records:
                try:
                    self._store.apply(*record)
                except Exception as e:
                    raise StoreError(
                        f"{self._name}, offset {record[3]}: {type(e).__name__}: {e}", damaged=False
                    ) from e
        self._applied += len(batch.records)
        self.position = position
        if metadata is not None:
            self.metadata = metadata
        if last_record is not None:
            self.last_record = last_record

    def begin_bulk_load(self, until: int) -> None:
        """Does nothing: the store is in memory."""

    def finish_load(self) -> bool:
        """Does nothing: the store is in memory."""
        return False

    def initialise(self, position: int, metadata: StoreMetadata) -> None:
        self.write(CustomBatch(), position, metadata)

    def touch(self, alive_at: int, complete_at: int | None) -> None:
        """Does nothing: no data outlives the process."""

    def checkpoint(self) -> None:
        """Returns None: a custom store has no snapshots."""

    def drop_checkpoint(self, files: Path) -> None:
        """Does nothing: there are no checkpoints."""

    def size(self) -> int:
        with self._lock:
            return 0 if self._closed else self._store.size()

    def entries(self) -> int:
        """The number of records applied."""
        return self._applied

    def engine(self) -> None:
        """Returns None: it is not a RocksDB."""

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._store.close()
