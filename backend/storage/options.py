"""All RocksDB tuning, in one place.

Source: the RocksDB tuning guide and its wiki pages "Block Cache", "RocksDB Bloom Filter" and
"Write Buffer Manager". All store partitions of a process share one block cache, and memtables are
charged to it. So memory is bounded per process, not per partition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from rocksdict import Cache, Env, MemtableFactory, Options, WriteBufferManager

from backend.instance.settings import Settings
from model.pushes.tables import BLOCK_SIZE, BLOOM_BITS_PER_KEY, table_options

# "rocksdb.block.cache.hit COUNT : 12"; the line of a histogram has more
_TICKER = re.compile(r"^rocksdb\.(\S+) COUNT : (\d+)$", re.MULTILINE)

LEVEL0_FILES = 4
"""Files of level 0 that are compacted together."""

MAX_WRITE_BUFFER = 32 << 20
"""The largest memtable (bytes). A larger one makes restarts slower: its log is read again."""


@dataclass(frozen=True)
class Tuning:
    """Sizes in bytes. `cache` and `write_buffers` are per process, the rest per store partition."""

    cache: int = 96 << 20  # blocks, and memtables in up to half of it
    write_buffers: int = 48 << 20
    write_buffer: int = 8 << 20
    arena_block: int = 64 << 10  # the minimum memory of a memtable
    block_size: int = BLOCK_SIZE
    bloom_bits_per_key: int = BLOOM_BITS_PER_KEY
    max_open_files: int = 128
    opening_threads: int = 4  # that open the files of a store
    max_wal: int = 64 << 20
    background_jobs: int = 2
    deletes_window: int = 4096  # entries
    bulk_load_buffer: int = 2 << 20  # instead of write_buffer: a small vector is sorted faster
    # memtables of a store: one is written, the others are flushed. RocksDB delays writes at three
    # that wait, and stops them at four; with two threads for flushes, it did neither
    bulk_load_buffers: int = 4
    bulk_load_files: int = 48  # instead of LEVEL0_FILES, during a bulk load and just after it

    @classmethod
    def from_settings(cls, settings: Settings) -> Tuning:
        """The tuning according to the settings. All memtables take up to half of the cache, and one
        a twelfth: 8 MiB by default."""
        cache = settings.block_cache_mb << 20
        return cls(
            cache=cache,
            write_buffers=cache // 2,
            write_buffer=min(cache // 12, MAX_WRITE_BUFFER),
        )

    @property
    def flush_threads(self) -> int:
        """The number of threads for flushes of all stores. By default, it is one for four
        background jobs. But bulk loads that run together also end together."""
        return max(2, self.background_jobs // 4)


class StoreOptions(NamedTuple):
    """Options for opening one store partition (keys and values are bytes). Do not change them:
    stores that are opened with the same options share their statistics.

    `bulk_load`: a vector memtable, which is sorted when it is flushed. Writes take a quarter of the
    time, but each read copies and sorts the vector. Files are compacted less often. `loaded`: for
    some time after a bulk load or a copy, during which files are still compacted less often. The
    file format is the same for all.
    """

    usual: Options
    bulk_load: Options
    loaded: Options


class SharedMemory:
    """The block cache, the write buffer manager and the statistics of one process."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.tuning = tuning or Tuning()
        # A look-up locks nothing, and writes to fewer places in memory than one in an LRU cache. 0:
        # RocksDB finds the number of its entries itself
        self.cache = Cache.new_hyper_clock_cache(self.tuning.cache, 0)
        # no write stalls: a stalled write would hold the interpreter lock
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            self.tuning.write_buffers, False, self.cache
        )

        Env().set_high_priority_background_threads(self.tuning.flush_threads)
        self.store_options = StoreOptions(self.options(), self._bulk_load(), self._loaded())
        for options in self.store_options:
            options.enable_statistics()

    def tickers(self) -> dict[str, int]:
        """RocksDB's counters since the start of the process, by their names without "rocksdb."."""
        tickers: dict[str, int] = {}
        for options in self.store_options:
            for name, number in _TICKER.findall(options.get_statistics() or ""):
                tickers[name] = tickers.get(name, 0) + int(number)
        return tickers

    def options(self) -> Options:
        """New options, like `StoreOptions.usual` but without statistics."""
        tuning = self.tuning
        options = table_options(self.cache, tuning.block_size, tuning.bloom_bits_per_key)
        options.create_if_missing(True)
        options.set_write_buffer_manager(self.write_buffers)
        options.set_write_buffer_size(tuning.write_buffer)
        # by default 1 MiB: a few dozen partitions would use up `write_buffers` with few entries
        options.set_arena_block_size(min(tuning.arena_block, tuning.write_buffer // 8))
        options.set_max_total_wal_size(tuning.max_wal)
        options.set_max_open_files(tuning.max_open_files)
        # by default 16, which RocksDB starts and ends at each opening: 1 of its 2.3 ms
        options.set_max_file_opening_threads(tuning.opening_threads)
        options.set_max_background_jobs(tuning.background_jobs)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1 << 20)
        options.set_stats_dump_period_sec(0)
        # compact files that are mostly tombstones (of expired entries) without further writes
        options.add_compact_on_deletion_collector_factory(
            tuning.deletes_window, tuning.deletes_window // 2, 0.5
        )
        options.set_level_zero_file_num_compaction_trigger(LEVEL0_FILES)
        # A store that was just loaded may have `bulk_load_files` files; by default, 36 would stop
        # its writes. So a store whose compactions lag slows down reads first, and later writes.
        options.set_level_zero_slowdown_writes_trigger(2 * tuning.bulk_load_files)
        options.set_level_zero_stop_writes_trigger(3 * tuning.bulk_load_files)
        return options

    def _bulk_load(self) -> Options:
        options = self._loaded()
        options.set_memtable_factory(MemtableFactory.vector())
        options.set_allow_concurrent_memtable_write(False)  # not supported by vectors
        options.set_write_buffer_size(min(self.tuning.bulk_load_buffer, self.tuning.write_buffer))
        options.set_max_write_buffer_number(self.tuning.bulk_load_buffers)
        return options

    def _loaded(self) -> Options:
        options = self.options()
        options.set_level_zero_file_num_compaction_trigger(self.tuning.bulk_load_files)
        return options
