"""What ingest needs of a store: `backend.storage` fulfils it, tests may with a dict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from model.records import StoreMetadata


class Batch(Protocol):
    """Changes of one store partition, applied in the order in which they were added."""

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...


class RecordBatch(Protocol):
    """Records for a store of the user's own."""

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None: ...


class Store(Protocol):
    """One open store partition; it keeps entries and position in step through any crash."""

    position: int | None
    stream_time: int | None
    identity: StoreMetadata | None

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]: ...

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def new_batch(self) -> Batch: ...

    def write(
        self,
        batch: Batch,
        position: int,
        identity: StoreMetadata | None = None,
        stream_time: int | None = None,
    ) -> None: ...

    def load(self, until: int) -> None:
        """Up to this position much is going to be written and hardly anything read."""

    def settle(self) -> None:
        """That was not so, if anything has been read since."""

    def initialise(self, position: int, identity: StoreMetadata) -> None: ...

    def touch(self, alive_at: int) -> None: ...

    def checkpoint(self) -> Path | None: ...

    def drop_checkpoint(self, files: Path) -> None: ...

    def size(self) -> int: ...

    def entries(self) -> int: ...

    def close(self) -> None: ...


class Folder(Protocol):
    """Where store partitions are opened and deleted."""

    def open(self, view: str, partition: int, memory: bool = False) -> tuple[Store, str | None]: ...

    def set_aside(self, view: str, partition: int) -> Path: ...

    def delete(self, view: str, partition: int) -> None: ...

    def held(self) -> dict[str, list[int]]: ...
