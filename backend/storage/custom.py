"""Stores of one's own: a class named in views.toml as `store = "package.module:Class"`.

What it keeps is its own affair, and in memory: it is fed anew from the start of the log whenever
its partition is opened. One object a store partition; its methods are called one at a time.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from model.problems import ConfigurationError, StoreClosedError, StoreError
from model.records import StoreMetadata


class CustomStore(Protocol):
    """What the class has to offer; it is made without arguments."""

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        """Take a record, in offset order: record bytes, no value for a delete, time in ms."""

    def query(self, key: bytes) -> Any:
        """The answer for a key, as something that JSON can say; None where there is none (404)."""

    def size(self) -> int:
        """Bytes in memory, more or less."""

    def close(self) -> None:
        """Nothing is asked of it any more."""


def load_store(path: str) -> type[CustomStore]:
    """The class that `package.module:Class` names; ConfigurationError says what is wrong."""
    module_name, _, class_name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as e:
        raise ConfigurationError(f'store = "{path}" cannot be imported: {e}') from e
    missing = [name for name in ("apply", "query", "size", "close") if not hasattr(found, name)]
    if missing:
        raise ConfigurationError(
            f'store = "{path}" has no {", ".join(missing)}; see backend.storage.custom.CustomStore'
        )
    store: type[CustomStore] = found
    return store


Applied = tuple[bytes, bytes | None, int, int]


class CustomBatch:
    """Records for a store of one's own, in the order of the log."""

    def __init__(self) -> None:
        self.records: list[Applied] = []

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        self.records.append((key, value, timestamp, offset))


class CustomPartition:
    """An open store partition around such an object; never written to disk."""

    stream_time: int | None = None

    def __init__(self, name: str, store: CustomStore) -> None:
        self._name = name
        self._store = store
        self._lock = threading.Lock()
        self._closed = False
        self._applied = 0
        self.position: int | None = None
        self.identity: StoreMetadata | None = None

    def query(self, key: bytes) -> Any:
        """What the store says; StoreError, StoreClosedError."""
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

    def new_batch(self) -> CustomBatch:
        return CustomBatch()

    def write(
        self,
        batch: CustomBatch,
        position: int,
        identity: StoreMetadata | None = None,
        stream_time: int | None = None,
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
        if identity is not None:
            self.identity = identity

    def load(self, until: int) -> None:
        pass  # nothing is on disk

    def settle(self) -> None:
        pass

    def initialise(self, position: int, identity: StoreMetadata) -> None:
        self.write(CustomBatch(), position, identity)

    def touch(self, alive_at: int) -> None:
        """Nothing outlives the process."""

    def checkpoint(self) -> None:
        """Nor can it be copied."""

    def drop_checkpoint(self, files: Path) -> None:
        """There is none."""

    def size(self) -> int:
        with self._lock:
            return 0 if self._closed else self._store.size()

    def entries(self) -> int:
        """Records taken: what it makes of them is its own affair."""
        return self._applied

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._store.close()
