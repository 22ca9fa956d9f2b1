"""One store partition: one RocksDB with its entries, its position and its identity."""

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
    IDENTITY_KEY,
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
        loading_options: Options | None = None,
        memory: bool = False,
    ) -> None:
        """Open or create; raises what rocksdict raises (see `DataDirectory.open`).

        `mark`: that of the folder, which was made and marked before.
        `loading_options`: for `load`, which does nothing without them.
        `memory`: the options have an environment of their own, and nothing outlives `close`.
        """
        self.path = path
        self._mark = mark
        self._options, self._loading_options = options, loading_options
        self._until: int | None = None  # while loading: the position at which that ends
        self._was_read = False  # since loading has begun
        self._flushing = False
        self._closed = False
        self._memory = memory
        self._db = open_db(path, options)
        if memory:
            # nothing to recover; nor can this environment sync a log
            unlogged = WriteOptions()
            unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
            self._db.set_write_options(unlogged)
        self._read: Callable[[Any], Any] = self._db.get
        stored = self._read(POSITION_KEY)
        self.position: int | None = None if stored is None else decode_number(stored)
        stored = self._read(STREAM_TIME_KEY)
        self.stream_time: int | None = None if stored is None else decode_number(stored)
        stored = self._read(IDENTITY_KEY)
        self.identity: StoreMetadata | None = (
            None if stored is None else StoreMetadata.decode(stored)
        )

    def get(self, key: bytes) -> bytes | None:
        """The stored bytes under a stored key (`records`), or None; StoreError, StoreClosedError.

        A point read takes some 2 µs, so it may run in the event loop.
        """
        try:
            return self._read(key)  # type: ignore[no-any-return]
        except Exception as e:
            raise self._read_error(e) from e

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """`get` of each; where one of them fails, all do."""
        try:
            return self._read(keys)  # type: ignore[no-any-return]
        except Exception as e:
            raise self._read_error(e) from e

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, stored bytes) with low <= key < high, as of the call; StoreError.

        `once`: what is read is not kept in the block cache, in place of what others read again.
        Some 0.5 µs an entry; whoever takes many in the event loop has to pause.
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
        # the binding does not keep a lower bound
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
        """`bounds` has to live as long as the iterator: RocksDB points into its memory, and ends
        anywhere once that is used for something else."""
        last = None
        try:
            for entry in found:
                last = entry
                yield entry
            self._check_end(start if last is None else last[0], bounds, backwards)
        except Exception as e:
            raise self._read_error(e) from e

    def _check_end(self, last: bytes, bounds: ReadOptions, backwards: bool) -> None:
        """Raises what ended a scan behind `last`, if it was not the end.

        The binding's iterator over entries stops at a block that cannot be read as it does at the
        last entry (rocksdict 0.3.29); only the cursor tells one from the other.
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
        """RuntimeError: closing is under way; it may be open again by now."""
        if self._closed or isinstance(error, (DbClosedError, RuntimeError)):
            return StoreClosedError(str(self.path))
        return _store_error(f"reading {self.path}", error)

    def load(self, until: int) -> None:
        """Up to this position much is written and hardly anything read: a read costs some 30 ms
        until `settle`. One while this begins or ends gets StoreClosedError. StoreError.
        """
        if self._loading_options is not None:
            self._reopen(self._loading_options)
            self._read = self._read_loading
            self._until, self._was_read, self._flushing = until, False, False

    def settle(self) -> None:
        """Ends loading if somebody has read meanwhile; StoreError."""
        if self._until is not None and self._was_read:
            self._reopen(self._options)
            self._until = None

    def _go_on_loading(self, until: int, position: int) -> None:
        if position >= until:
            self._reopen(self._options)
            self._until = None
        elif position >= until - _FLUSHED_AHEAD and not self._flushing:
            # writing is not held up by it, and little is left to flush before reopening
            self._flushing = True
            with suppress(Exception):  # a full disk, say: reopening tells
                self._db.flush(wait=False)

    def _reopen(self, options: Options) -> None:
        """The kind of memtable changes in no other way. A scan under way keeps it from being opened
        again."""
        self._closed = True
        try:
            self._db.close()
            self._db = open_db(self.path, options)
        except Exception as e:
            raise _store_error(f"opening {self.path} again", e) from e
        self._read = self._db.get
        self._closed = False

    def _read_loading(self, key: Any) -> Any:
        self._was_read = True
        return self._db.get(key)

    def new_batch(self) -> WriteBatch:
        """A batch with `put(key, value)` and `delete(key)`, for `write`."""
        return WriteBatch(raw_mode=True)

    def write(
        self,
        batch: WriteBatch,
        position: int,
        identity: StoreMetadata | None = None,
        stream_time: int | None = None,
    ) -> None:
        """Apply a batch, the position after it and, if they changed, identity and stream time (ms):
        all or nothing."""
        batch.put(POSITION_KEY, encode_number(position))
        if stream_time is not None:
            batch.put(STREAM_TIME_KEY, encode_number(stream_time))
        if identity is not None:
            batch.put(IDENTITY_KEY, identity.encode())
        try:
            self._db.write(batch)
        except Exception as e:
            raise _store_error(f"writing {self.path}", e) from e
        if self._until is not None:
            self._go_on_loading(self._until, position)
        self.position = position
        if stream_time is not None:
            self.stream_time = stream_time
        if identity is not None:
            self.identity = identity

    def initialise(self, position: int, identity: StoreMetadata) -> None:
        """Say what an empty store partition is about to hold."""
        self.write(self.new_batch(), position, identity)

    def touch(self, alive_at: int) -> None:
        """Note when it last was open (wall clock, ms)."""
        if self.identity is not None and self.position is not None:
            self.write(self.new_batch(), self.position, replace(self.identity, alive_at=alive_at))

    def checkpoint(self) -> Path | None:
        """A folder with the files of what it holds now, until `drop_checkpoint`; None where it is
        in memory. StoreError."""
        if self._memory:
            return None
        # RocksDB makes its folder itself: in one with a mark, so that a crash leaves no other
        outer = self.path.with_name(f"{self.path.name}{CHECKPOINT}{time.monotonic_ns()}")
        try:
            self._mark.make(outer)
            Checkpoint(self._db).create_checkpoint(str(outer / "files"))
        except Exception as e:
            self._mark.delete(outer)
            raise _store_error(f"copying {self.path}", e) from e
        return outer / "files"

    def drop_checkpoint(self, files: Path) -> None:
        """Delete what `checkpoint` gave."""
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
        """Idempotent. A read that comes later, or meanwhile, gets StoreClosedError."""
        if not self._closed:
            self._closed = True
            if not self._memory:
                self._db.close()
                return
            with suppress(Exception):  # it cannot sync the log that it does not have
                self._db.close()
            self._mark.delete(self.path)


def open_db(path: Path, options: Options) -> Rdict:
    # An existing one's column family has to be named. Its options come from its own files else,
    # where neither the shared block cache nor the filters are (rocksdict 0.3.29).
    return Rdict(str(path), options, {"default": options})


def _store_error(what: str, error: Exception) -> StoreError:
    """rocksdict raises plain exceptions that carry RocksDB's status text."""
    return StoreError(f"{what}: {error}", damaged="Corruption" in str(error))
