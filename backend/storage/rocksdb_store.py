"""One store partition: a RocksDB with its entries, position and metadata."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from rocksdict import (
    Checkpoint,
    DbClosedError,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from backend.storage.moment import Moment
from backend.storage.options import LEVEL0_FILES, StoreOptions
from backend.storage.ownership import Mark
from backend.telemetry.engine import EngineState
from model.problems import StoreClosedError, StoreError
from model.records import (
    LAST_RECORD_KEY,
    METADATA_KEY,
    POSITION_KEY,
    STREAM_TIME_KEY,
    LastRecord,
    StoreMetadata,
    decode_number,
    encode_number,
)

CHECKPOINT = ".checkpoint-"  # between a partition's number and a time
# after other errors of reads, such as "Too many open files", the next read may succeed
_DAMAGE_AT_READS = ("Corruption", "No such file", "Input/output error")
_FEW_KEYS = 8  # up to this number, RocksDB's look-up of a list (MultiGet) is slower
_ATTEMPTS = 3  # scans begin within some µs, so there is hardly ever a write between them
_FLUSH_BEFORE_END = 8_000  # records before the end of a bulk load
_COMPACT_AFTER = 5.0  # s after the end of a bulk load, or after the store was copied
_COMPACT_AGAIN_AFTER = 30.0  # s after a failure

log = logging.getLogger(__name__)


class RocksDBStore:
    """An open store partition. Any thread may read, one thread may write."""

    def __init__(
        self,
        path: Path,
        options: Options,
        mark: Mark,
        reopening: StoreOptions | None = None,
        memory: bool = False,
        is_copy: bool = False,
    ) -> None:
        """Open or create the store. Raises the errors of rocksdict (see `DataDirectory.open`).

        `mark`: the mark of the folder. The folder must exist and have it.
        `reopening`: the options for bulk loads; without it, `begin_bulk_load` does nothing.
        `memory`: the options have an in-memory environment, and `close` discards the data.
        `is_copy`: the options are those after a bulk load, because the store was just copied.
        """
        self.path = path
        self._mark = mark
        self._reopening = reopening
        self._bulk_load_end: int | None = None  # the position at which a bulk load ends
        self._compact_at: float | None = None  # s, monotonic: after a load
        if is_copy:
            self._compact_at = time.monotonic() + _COMPACT_AFTER
        self._was_read = False  # since the bulk load began
        self._is_flushing = False
        self._closed = False
        self.written_bytes = 0
        self._memory = memory
        self._db = open_db(path, options)
        if memory:
            # there is nothing to recover, and this environment cannot sync a write-ahead log
            self._db.set_write_options(_without_log())
        self._get: Callable[[Any], Any] = self._db.get
        stored = self._get(POSITION_KEY)
        self.position: int | None = None if stored is None else decode_number(stored)
        stored = self._get(STREAM_TIME_KEY)
        self.stream_time: int | None = None if stored is None else decode_number(stored)
        stored = self._get(METADATA_KEY)
        self.metadata: StoreMetadata | None = (
            None if stored is None else StoreMetadata.decode(stored)
        )
        stored = self._get(LAST_RECORD_KEY)
        self.last_record = None if stored is None else LastRecord.decode(stored)

    def get(self, key: bytes) -> bytes | None:
        """The stored bytes of a stored key (`model.records`), or None.

        A point read takes about 2 µs, so the event loop may call it. Raises StoreError,
        StoreClosedError.
        """
        try:
            return self._get(key)  # type: ignore[no-any-return]
        except Exception as e:
            raise self._read_error(e) from e

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """`get` for each key. If one read fails, all fail."""
        try:
            get = self._get
            if len(keys) <= _FEW_KEYS:
                return [get(key) for key in keys]
            return get(keys)  # type: ignore[no-any-return]
        except Exception as e:
            raise self._read_error(e) from e

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over (stored key, stored bytes) with low <= key < high, as they are at the call.

        `once`: do not add the blocks to the block cache, where they would displace others.
        An entry takes about 0.5 µs; in the event loop, long scans must pause. Raises StoreError,
        StoreClosedError.
        """
        if self._closed:
            raise StoreClosedError(str(self.path))
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(high)
        bounds.fill_cache(not once)  # type: ignore[call-arg]
        start = high if backwards else low
        self._was_read = True
        try:
            items = self._db.items(backwards=backwards, from_key=start, read_opt=bounds)
        except Exception as e:
            raise self._read_error(e) from e
        # the binding does not support a lower bound
        entries = cast(Iterator[tuple[bytes, bytes]], items)
        return self._with_errors(
            takewhile(lambda entry: entry[0] >= low, entries) if backwards else entries,
            bounds,
            start,
            backwards,
        )

    def at_one_moment(
        self, ranges: Sequence[tuple[bytes, bytes]], backwards: bool = False
    ) -> tuple[Callable[[bytes], bytes | None], list[Iterator[tuple[bytes, bytes]]]]:
        """`get`, and `scan` for each range (low, high), of the store as it is at one moment. Raises
        StoreError, StoreClosedError."""
        for _ in range(_ATTEMPTS):
            before = self._sequence_number()
            get = self._snapshot()
            scans = [self.scan(low, high, backwards) for low, high in ranges]
            if self._sequence_number() == before:
                return get, scans
        try:
            moment = Moment(self._db.iter(ReadOptions()), self._read_error)
        except Exception as e:
            raise self._read_error(e) from e
        return moment.get, [moment.scan(low, high, backwards) for low, high in ranges]

    def _snapshot(self) -> Callable[[bytes], bytes | None]:
        try:
            snapshot = self._db.snapshot()
        except Exception as e:
            raise self._read_error(e) from e

        def get(key: bytes) -> bytes | None:
            try:
                return cast(bytes, snapshot[key])
            except Exception as e:
                if str(e) == "key not found":
                    return None
                raise self._read_error(e) from e

        return get

    def _sequence_number(self) -> int:
        """A number that each write increases. The iterators of the binding's snapshots have later
        writes, too (rocksdict 0.3.29)."""
        try:
            return self._db.latest_sequence_number()
        except Exception as e:
            raise self._read_error(e) from e

    def _with_errors(
        self,
        items: Iterator[tuple[bytes, bytes]],
        bounds: ReadOptions,
        start: bytes,
        backwards: bool,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries; raise StoreError if an error has ended the scan.

        Keeps `bounds` alive as long as the iterator. RocksDB has a pointer to its memory, and the
        scan would end early if that memory were reused.
        """
        last = None
        try:
            for entry in items:
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
        """The error to raise instead. A RuntimeError means that the database was closed during the
        read; it may be open again."""
        if self._closed or isinstance(error, (DbClosedError, RuntimeError)):
            return StoreClosedError(str(self.path))
        damaged = any(sign in str(error) for sign in _DAMAGE_AT_READS)
        return StoreError(f"reading {self.path}: {error}", damaged)

    @property
    def is_bulk_loading(self) -> bool:
        return self._bulk_load_end is not None

    def begin_bulk_load(self, until: int) -> None:
        """Optimise for writes up to this position.

        Until the bulk load ends, a read takes some ms, and a crash loses what is not flushed
        yet: entries with the position after them. While it begins or ends, reads raise
        StoreClosedError. Raises StoreError.
        """
        if self._reopening is not None:
            self._reopen(self._reopening.bulk_load)
            self._db.set_write_options(_without_log())
            self._get = self._get_while_bulk_loading
            self._bulk_load_end, self._was_read, self._is_flushing = until, False, False
            self._compact_at = None

    def finish_load(self) -> bool:
        """End a bulk load early if there was a read since it began. Some time after the end of a
        bulk load, or after the store was copied, let RocksDB compact the files. Returns whether
        this call has let RocksDB compact them. Raises StoreError."""
        if self._bulk_load_end is not None:
            if self._was_read:
                self._end_bulk_load()
        elif self._compact_at is not None and time.monotonic() >= self._compact_at:
            self._compact_at = None
            try:
                self._db.set_options({"level0_file_num_compaction_trigger": str(LEVEL0_FILES)})
            except Exception as e:  # for example a full disk; the store can be used
                log.warning("the files of %s are not compacted yet: %s", self.path, e)
                self._compact_at = time.monotonic() + _COMPACT_AGAIN_AFTER
            return self._compact_at is None
        return False

    def _continue_bulk_load(self, until: int, position: int) -> None:
        if position >= until:
            self._end_bulk_load()
        elif position >= until - _FLUSH_BEFORE_END and not self._is_flushing:
            # flush in the background, so that reopening has little left to flush
            self._is_flushing = True
            with suppress(Exception):  # for example a full disk; reopening reports it
                self._db.flush(wait=False)

    def _end_bulk_load(self) -> None:
        assert self._reopening is not None
        self._reopen(self._reopening.loaded)
        self._bulk_load_end = None
        # other stores are still loaded, and need the processors
        self._compact_at = time.monotonic() + _COMPACT_AFTER

    def _reopen(self, options: Options) -> None:
        """Close and open the database, which is the only way to change the kind of memtable. Raises
        StoreError, also while a scan is open."""
        self._closed = True
        try:
            self._db.close()
            self._db = open_db(self.path, options)
        except Exception as e:
            raise _store_error(f"opening {self.path} again", e) from e
        self._get = self._db.get
        self._closed = False

    def _get_while_bulk_loading(self, key: Any) -> Any:
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
        last_record: LastRecord | None = None,
    ) -> None:
        """Write a batch, the position after it and, if given, metadata, stream time (ms) and the
        last record of the batch, all atomically. Raises StoreError."""
        batch.put(POSITION_KEY, encode_number(position))
        if stream_time is not None:
            batch.put(STREAM_TIME_KEY, encode_number(stream_time))
        if metadata is not None:
            batch.put(METADATA_KEY, metadata.encode())
        if last_record is not None:
            batch.put(LAST_RECORD_KEY, last_record.encode())
        self.written_bytes += batch.size_in_bytes()
        try:
            self._db.write(batch)
        except Exception as e:
            raise _store_error(f"writing {self.path}", e) from e
        if self._bulk_load_end is not None:
            self._continue_bulk_load(self._bulk_load_end, position)
        self.position = position
        if stream_time is not None:
            self.stream_time = stream_time
        if metadata is not None:
            self.metadata = metadata
        if last_record is not None:
            self.last_record = last_record

    def initialise(self, position: int, metadata: StoreMetadata) -> None:
        """Write the first position and metadata of an empty store."""
        self.write(self.new_batch(), position, metadata)

    def ingest(self, files: list[Path]) -> None:
        """Move files in RocksDB's table format into an empty store. Raises StoreError."""
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            if files:
                self._db.ingest_external_file([str(file) for file in files], options)
        except Exception as e:
            raise _store_error(f"moving files into {self.path}", e) from e

    def touch(self, alive_at: int, complete_at: int | None) -> None:
        """Store when the store was last open, and last had all records of the topic: see
        StoreMetadata."""
        if self.metadata is not None and self.position is not None:
            metadata = replace(self.metadata, alive_at=alive_at, complete_at=complete_at)
            self.write(self.new_batch(), self.position, metadata)

    def checkpoint(self) -> Path | None:
        """Create a checkpoint; returns the folder with its files, for `drop_checkpoint`.

        Returns None for an in-memory store. Raises StoreError.
        """
        if self._memory:
            return None
        # RocksDB creates the inner folder itself. The outer one has the mark, so that it is deleted
        # after a crash.
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
        """RocksDB's estimate of the bytes on disk and in memtables; 0 if closed."""
        return self._estimate("total-sst-files-size") + self._estimate("cur-size-all-mem-tables")

    def entries(self) -> int:
        """RocksDB's estimate of the number of entries; 0 if closed."""
        return self._estimate("estimate-num-keys")

    def engine(self) -> EngineState | None:
        """The work that RocksDB has left; None if it is closed."""
        if self._closed:
            return None
        return EngineState(
            self._estimate("cur-size-all-mem-tables"),
            self._estimate("num-files-at-level0"),
            self._estimate("estimate-pending-compaction-bytes"),
            bool(self._estimate("is-write-stopped") or self._estimate("actual-delayed-write-rate")),
        )

    def _estimate(self, name: str) -> int:
        try:
            return self._db.property_int_value(f"rocksdb.{name}") or 0
        except Exception:
            if self._closed:
                return 0
            raise

    def close(self) -> None:
        """Close the store; later calls do nothing. Later and concurrent reads raise
        StoreClosedError."""
        if not self._closed:
            self._closed = True
            if not self._memory:
                self._db.close()
                return
            with suppress(Exception):  # closing fails to sync the write-ahead log, which is off
                self._db.close()
            self._mark.delete(self.path)


def open_db(path: Path, options: Options) -> Rdict:
    # Without the name of the column family, the options of an existing database come from its
    # files, which have neither the shared block cache nor the filters (rocksdict 0.3.29).
    return Rdict(str(path), options, {"default": options})


def _without_log() -> WriteOptions:
    """Options for writes without the write-ahead log."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


def _store_error(location: str, error: Exception) -> StoreError:
    """A StoreError for an exception of rocksdict, which has RocksDB's status text."""
    return StoreError(f"{location}: {error}", damaged="Corruption" in str(error))
