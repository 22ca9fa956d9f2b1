"""The interfaces that ingest uses: records, and stores, which `backend.storage` implements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from backend.telemetry.engine import EngineState
from model.records import LastRecord, StoreMetadata


class Record(Protocol):
    """A consumed record: the methods of confluent-kafka's Message that ingest uses."""

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def offset(self) -> int: ...

    def timestamp(self) -> tuple[int, int]: ...

    def leader_epoch(self) -> int | None: ...

    def headers(self) -> Sequence[tuple[str, bytes | str | None]] | None: ...


class Changes(Protocol):
    """Changes of one store partition, in the order in which they were added."""

    @property
    def put(self) -> Callable[[bytes, bytes], None]: ...

    def delete(self, key: bytes) -> None: ...


class Batch(Changes, Protocol):
    """Changes that are written together."""

    def delete_range(self, begin: bytes, end: bytes) -> None: ...


class RecordBatch(Protocol):
    """Records for a custom store."""

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None: ...


class Store(Protocol):
    """One open store partition. Entries and position are consistent after any crash."""

    @property
    def is_bulk_loading(self) -> bool: ...

    written_bytes: int  # of batches, since it was opened

    position: int | None
    stream_time: int | None
    metadata: StoreMetadata | None
    last_record: LastRecord | None  # None: none was applied, or an older version applied them

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]: ...

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def at_one_moment(
        self, ranges: Sequence[tuple[bytes, bytes]], backwards: bool = False
    ) -> tuple[Callable[[bytes], bytes | None], list[Iterator[tuple[bytes, bytes]]]]:
        """`get`, and `scan` for each range, of the store as it is at one moment."""

    def new_batch(self) -> Batch: ...

    def write(
        self,
        batch: Batch,
        position: int,
        metadata: StoreMetadata | None = None,
        stream_time: int | None = None,
        last_record: LastRecord | None = None,
    ) -> None: ...

    def begin_bulk_load(self, until: int) -> None:
        """Optimise for writes up to this position: few reads are expected."""

    def finish_load(self) -> bool:
        """End a bulk load early if anything has been read since it began. Do the remaining work
        some time after the end of a bulk load, or after the store was copied. Returns whether this
        call has done the remaining work."""

    def initialise(self, position: int, metadata: StoreMetadata) -> None: ...

    def touch(self, alive_at: int, complete_at: int | None) -> None: ...

    def checkpoint(self) -> Path | None: ...

    def drop_checkpoint(self, files: Path) -> None: ...

    def size(self) -> int: ...

    def entries(self) -> int: ...

    def engine(self) -> EngineState | None:
        """The work that RocksDB has left; None if the store is closed, or not a RocksDB."""

    def close(self) -> None: ...


class StoreDirectory(Protocol):
    """Opens and deletes store partitions."""

    def open(self, view: str, partition: int, memory: bool = False) -> tuple[Store, str | None]: ...

    def exists(self, view: str, partition: int) -> bool: ...

    def set_aside(self, view: str, partition: int) -> Path: ...

    def delete(self, view: str, partition: int) -> None: ...

    def on_disk(self) -> dict[str, list[int]]: ...
