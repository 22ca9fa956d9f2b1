"""One store partition: a RocksDB with its entries, position and metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from rocksdict import (
    Checkpoint,
    DbClosedError,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from backend.storage.ownership import Mark
from model.problems import StoreClosedError, StoreError
from model.records import (
    METADATA_KEY,
    POSITION_KEY,
    STREAM_TIME_KEY,
    StoreMetadata,
    decode_number,
    encode_number,
)

CHECKPOINT = ".checkpoint-"  # between a partition's number and a time
_FLUSHED_AHEAD = 8_000  # records


class RocksDBStore:
    """An open store partition. Reads from any thread; writes from one."""

    def __init__(
        self,
        path: Path,
        options: Options,
        mark: Mark,
        bulk_load_options: Options | None = None,
        memory: bool = False,
    ) -> None:
        """Open or create; raises what rocksdict raises (see `DataDirectory.open`).

        `mark`: of the folder, which must exist and be marked.
        `bulk_load_options`: for `begin_bulk_load`, which does nothing without them.
        `memory`: the options have an in-memory environment; `close` discards the data.
        """
        self.path = path
        self._mark = mark
        self._options, self._bulk_load_options = options, bulk_load_options
        self._until: int | None = None  # during a bulk load: the position at which it ends
        self._was_read = False  # since the bulk load began
        self._flushing = False
        self._closed = False
        self._memory = memory
        self._db = open_db(path, options)
        if memory:
            # nothing to recover, and this environment cannot sync a log
            unlogged = WriteOptions()
            unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
            self._db.set_write_options(unlogged)
        self._read: Callable[[Any], Any] = self._db.get
        stored = self._read(POSITION_KEY)
        self.position: int | None = None if stored is None else decode_number(stored)
        stored = self._read(STREAM_TIME_KEY)
        self.stream_time: int | None = None if stored is None else decode_number(stored)
        stored = self._read(METADATA_KEY)
        self.metadata: StoreMetadata | None = (
            None if stored is None else StoreMetadata.decode(stored)
        )

    def get(self, key: bytes) -> bytes | None:
        """The stored bytes under a stored key (`records`), or None; StoreError, StoreClosedError.

        A point read takes about 2 µs, so it may run in the event loop.
        """
        try:
            return self._read(key)  # type: ignore[no-any-return]
        except Exception as e:
            raise self._read_error(e) from e

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """`get` for each key; if one read fails, all do."""
        try:
            return self._read(keys)  # type: ignore[no-any-return]
        except Exception as e:
            raise self._read_error(e) from e

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, stored bytes) with low <= key < high, as of the call; StoreError.

        `once`: do not add blocks to the block cache, where they would displace others.
        About 0.5 µs per entry; in the event loop, long scans must pause.
        """
        if self._closed:
            raise StoreClosedError(str(self.path))
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(high)
        bounds.fill_cache(not once)  # type: ignore[call-arg]
        start = high if backwards else low
        self._was_read = True
        try:
            found = self._db.items(backwards=backwards, from_key=start, read_opt=bounds)
        except Exception as e:
            raise self._read_error(e) from e
        # the binding does not support a lower bound
        entries = cast(Iterator[tuple[bytes, bytes]], found)
        return self._guarded(
            takewhile(lambda entry: entry[0] >= low, entries) if backwards else entries,
            bounds,
            start,
            backwards,
        )

    def _guarded(
        self,
        found: Iterator[tuple[bytes, bytes]],
        bounds: ReadOptions,
        start: bytes,
        backwards: bool,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries and keep `bounds` alive as long as the iterator: RocksDB has a pointer into
        its memory, and the scan would end anywhere once that memory is reused."""
        last = None
        try:
            for entry in found:
                last = entry
                yield entry
            self._check_end(start if last is None else last[0], bounds, backwards)
        except Exception as e:
            raise self._read_error(e) from e

    def _check_end(self, last: bytes, bounds: ReadOptions, backwards: bool) -> None:
        """Raise the error that ended a scan after `last`, if there was one.

        The binding's iterator stops silently at an unreadable block, as at the end (rocksdict
        0.3.29). Only the cursor reports the error.
        """
        cursor = self._db.iter(bounds)
        if backwards:
            cursor.seek_for_prev(last)
            if cursor.valid() and cursor.key() == last:
                cursor.prev()
        else:
            cursor.seek(last)
            if cursor.valid() and cursor.key() == last:
                cursor.next()
        cursor.status()

    def _read_error(self, error: Exception) -> StoreError | StoreClosedError:
        """RuntimeError: the database is being closed; it may be open again by now."""
        if self._closed or isinstance(error, (DbClosedError, RuntimeError)):
            return StoreClosedError(str(self.path))
        return _store_error(f"reading {self.path}", error)

    def begin_bulk_load(self, until: int) -> None:
        """Optimise for writes up to this position. Until the bulk load ends, a read takes about
        30 ms. Reads while it begins or ends raise StoreClosedError. StoreError.
        """
        if self._bulk_load_options is not None:
            self._reopen(self._bulk_load_options)
            self._read = self._read_while_bulk_loading
            self._until, self._was_read, self._flushing = until, False, False

    def end_bulk_load(self) -> None:
        """End a bulk load early if anything has been read since it began; StoreError."""
        if self._until is not None and self._was_read:
            self._reopen(self._options)
            self._until = None

    def _continue_bulk_load(self, until: int, position: int) -> None:
        if position >= until:
            self._reopen(self._options)
            self._until = None
        elif position >= until - _FLUSHED_AHEAD and not self._flushing:
            # flush in the background, so that little is left to flush before reopening
            self._flushing = True
            with suppress(Exception):  # such as a full disk: reopening reports it
                self._db.flush(wait=False)

    def _reopen(self, options: Options) -> None:
        """Close and open the database: the only way to change the kind of memtable. Opening fails
        while a scan is open."""
        self._closed = True
        try:
            self._db.close()
            self._db = open_db(self.path, options)
        except Exception as e:
            raise _store_error(f"opening {self.path} again", e) from e
        self._read = self._db.get
        self._closed = False

    def _read_while_bulk_loading(self, key: Any) -> Any:
        self._was_read = True
        return self._db.get(key)

    def new_batch(self) -> WriteBatch:
        """A batch with `put(key, value)` and `delete(key)`, for `write`."""
        return WriteBatch(raw_mode=True)

    def write(
        self,
        batch: WriteBatch,
        position: int,
        metadata: StoreMetadata | None = None,
        stream_time: int | None = None,
    ) -> None:
        """Atomically write a batch, the position after it and, if given, metadata and stream time
        (ms)."""
        batch.put(POSITION_KEY, encode_number(position))
        if stream_time is not None:
            batch.put(STREAM_TIME_KEY, encode_number(stream_time))
        if metadata is not None:
            batch.put(METADATA_KEY, metadata.encode())
        try:
            self._db.write(batch)
        except Exception as e:
            raise _store_error(f"writing {self.path}", e) from e
        if self._until is not None:
            self._continue_bulk_load(self._until, position)
        self.position = position
        if stream_time is not None:
            self.stream_time = stream_time
        if metadata is not None:
            self.metadata = metadata

    def initialise(self, position: int, metadata: StoreMetadata) -> None:
        """Write the first position and metadata of an empty store."""
        self.write(self.new_batch(), position, metadata)

    def touch(self, alive_at: int) -> None:
        """Store the time at which it was last open (wall clock, ms)."""
        if self.metadata is not None and self.position is not None:
            self.write(self.new_batch(), self.position, replace(self.metadata, alive_at=alive_at))

    def checkpoint(self) -> Path | None:
        """A folder with the files of a checkpoint, valid until `drop_checkpoint`; None for an
        in-memory store. StoreError."""
        if self._memory:
            return None
        # RocksDB creates this folder itself; its parent has our mark, so that it can be deleted
        # after a crash
        outer = self.path.with_name(f"{self.path.name}{CHECKPOINT}{time.monotonic_ns()}")
        try:
            self._mark.make(outer)
            Checkpoint(self._db).create_checkpoint(str(outer / "files"))
        except Exception as e:
            self._mark.delete(outer)
            raise _store_error(f"copying {self.path}", e) from e
        return outer / "files"

    def drop_checkpoint(self, files: Path) -> None:
        """Delete the files of a checkpoint."""
        self._mark.delete(files.parent)

    def size(self) -> int:
        """Bytes on disk and in memtables, as RocksDB estimates them; 0 once closed."""
        return self._estimate("total-sst-files-size") + self._estimate("cur-size-all-mem-tables")

    def entries(self) -> int:
        """Entries as RocksDB estimates them; 0 once closed."""
        return self._estimate("estimate-num-keys")

    def _estimate(self, name: str) -> int:
        try:
            return self._db.property_int_value(f"rocksdb.{name}") or 0
        except Exception:
            if self._closed:
                return 0
            raise

    def close(self) -> None:
        """Idempotent. Later and concurrent reads raise StoreClosedError."""
        if not self._closed:
            self._closed = True
            if not self._memory:
                self._db.close()
                return
            with suppress(Exception):  # without a log, it cannot sync one
                self._db.close()
            self._mark.delete(self.path)


def open_db(path: Path, options: Options) -> Rdict:
    # Name the column family of an existing database. Otherwise its options come from its files,
    # which have neither the shared block cache nor the filters (rocksdict 0.3.29).
    return Rdict(str(path), options, {"default": options})


def _store_error(what: str, error: Exception) -> StoreError:
    """rocksdict raises plain exceptions with RocksDB's status text."""
    return StoreError(f"{what}: {error}", damaged="Corruption" in str(error))
