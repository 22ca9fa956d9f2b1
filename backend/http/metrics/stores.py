"""Metrics of store partitions, RocksDB and the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from backend.http.metrics.families import counter, gauge, single
from backend.ingest.store_partitions import StorePartition
from backend.instance.context import InstanceContext
from model.machine.clock import boot_time

_LABELS = ("view", "partition")
_GAUGES = {
    "position_offset": "Next offset that the store partition will apply.",
    "lag_records": "Records behind the last known end of the log.",
    "staleness_seconds": "Time since the moment whose whole log the store has.",
    "open_transaction_seconds": "Time for which a transaction has held readers back, 0 if none.",
    "answerable": "1 if the store partition is answerable.",
    "waiting_for_schema": "1 while the store partition waits for the schema of a record.",
    "store_size_bytes": "Bytes on disk and in memtables, estimated by RocksDB.",
    "store_entries": "Entries, estimated by RocksDB.",
    "rocksdb_memtable_bytes": "Bytes in memtables.",
    "rocksdb_level0_files": "Files that were flushed and not compacted yet.",
    "rocksdb_pending_compaction_bytes": "Bytes that must be compacted, estimated by RocksDB.",
    "rocksdb_writes_stopped": "1 while RocksDB delays or stops writes until compaction catches up.",
}
_COUNTERS = {
    "applied_records": "Records applied since the start.",
    "ingested_bytes": "Bytes of entries and deletes written to the store since it was opened.",
    "dead_letters": "Records that could not be decoded, since the store was created.",
    "unreadable_values": "Records whose value is not in the view's format, and was stored.",
    "unreadable_keys": "Records whose key is not in the view's format.",
    "mis_partitioned_records": "Records in a partition other than their key's.",
}
_INDEX_GAUGES = {
    "index_unbuilt_entries": "Entries that a build has not added to the indexes yet, estimated.",
    "index_unswept_keys": "Index keys written since the last sweep began.",
}
_INDEX_COUNTERS = {
    "index_stale_keys": "Stale index keys that look-ups have met since the store was opened.",
    "index_swept_keys": "Stale index keys that sweeps have deleted since the store was opened.",
    "index_sweeps": "Sweeps of all index keys that have ended since the store was opened.",
}
# ticker of RocksDB -> metric, its text, and the divisor to its unit
_TICKERS = {
    "block.cache.hit": ("rocksdb_block_cache_hits", "Blocks found in the block cache.", 1),
    "block.cache.miss": ("rocksdb_block_cache_misses", "Blocks read from files.", 1),
    "bloom.filter.useful": (
        "rocksdb_bloom_filter_useful",
        "Files that filters ruled out.",
        1,
    ),
    "number.keys.read": ("rocksdb_keys_read", "Keys looked up.", 1),
    "stall.micros": ("rocksdb_stall_seconds", "Time for which writes were delayed.", 1_000_000),
    "compact.read.bytes": ("rocksdb_compaction_read_bytes", "Bytes read by compactions.", 1),
    "compact.write.bytes": ("rocksdb_compaction_written_bytes", "Bytes written by compactions.", 1),
    "flush.write.bytes": ("rocksdb_flushed_bytes", "Bytes written by flushes of memtables.", 1),
}


def store_partitions(context: InstanceContext) -> Iterator[Metric]:
    """Metrics of each open store partition."""
    gauges = {name: gauge(name, text, _LABELS) for name, text in _GAUGES.items()}
    counters = {name: counter(name, text, _LABELS) for name, text in _COUNTERS.items()}
    now = boot_time()
    for opened in context.store_partitions.all():
        at = [opened.view.name, str(opened.partition)]
        progress, store = opened.progress, opened.store
        engine = store.engine()
        values = {
            "position_offset": progress.position,
            "lag_records": progress.lag(now, float("inf")),
            "staleness_seconds": _staleness(opened, now),
            "open_transaction_seconds": progress.open_transaction or 0.0,
            "answerable": float(progress.answerable),
            "waiting_for_schema": float(opened.waiting_for is not None),
            "store_size_bytes": store.size(),
            "store_entries": opened.entries(),
            "rocksdb_memtable_bytes": engine and engine.memtable_bytes,
            "rocksdb_level0_files": engine and engine.level0_files,
            "rocksdb_pending_compaction_bytes": engine and engine.pending_compaction_bytes,
            "rocksdb_writes_stopped": engine and float(engine.writes_stopped),
        }
        for name, value in values.items():
            if value is not None:
                gauges[name].add_metric(at, value)
        counters["applied_records"].add_metric(at, opened.applied_records)
        counters["ingested_bytes"].add_metric(at, store.written_bytes)
        counters["dead_letters"].add_metric(at, opened.metadata.dead_letters)
        counters["unreadable_values"].add_metric(at, opened.metadata.unreadable_values)
        counters["unreadable_keys"].add_metric(at, opened.metadata.unreadable_keys)
        counters["mis_partitioned_records"].add_metric(at, opened.metadata.mispartitioned)
    yield from gauges.values()
    yield from counters.values()
    yield single(
        counter("rebuilds", "Store partitions that were rebuilt from scratch."),
        context.ingest_loop.rebuilds,
    )


def indexes(context: InstanceContext) -> Iterator[Metric]:
    """Metrics of the indexes of each open store partition. They are built and swept together."""
    gauges = {name: gauge(name, text, _LABELS) for name, text in _INDEX_GAUGES.items()}
    counters = {name: counter(name, text, _LABELS) for name, text in _INDEX_COUNTERS.items()}
    building = gauge(
        "index_building", "1 while the index is built: queries do not use it.", (*_LABELS, "index")
    )
    for opened in context.store_partitions.all():
        built = opened.indexes
        if built is None:
            continue
        at = [opened.view.name, str(opened.partition)]
        ready = built.ready
        for name in built.ids:
            building.add_metric([*at, name], float(name not in ready))
        left = opened.entries() - built.built_entries if built.is_building else 0
        gauges["index_unbuilt_entries"].add_metric(at, max(left, 0))
        gauges["index_unswept_keys"].add_metric(at, built.puts)
        counters["index_stale_keys"].add_metric(at, built.stale_met)
        counters["index_swept_keys"].add_metric(at, built.swept)
        counters["index_sweeps"].add_metric(at, built.sweeps)
    yield from (building, *gauges.values(), *counters.values())


def _staleness(opened: StorePartition, now: float) -> float | None:
    """The staleness (s) of a store partition; None if it does not answer, and has never been at the
    end of the topic."""
    staleness = opened.progress.staleness(now)
    if staleness is None and opened.progress.answerable:
        return now - opened.opened_at  # at least
    return staleness


def rocksdb(tickers: Mapping[str, int], cache_bytes: int) -> Iterator[Metric]:
    """Metrics of RocksDB, summed over all stores of the process. `tickers`: RocksDB's tickers, by
    name."""
    for ticker, (name, text, divisor) in _TICKERS.items():
        yield single(counter(name, text), tickers.get(ticker, 0) / divisor)
    yield single(
        gauge("rocksdb_block_cache_bytes", "Bytes of blocks and memtables in the block cache."),
        cache_bytes,
    )


def disk(context: InstanceContext) -> Iterator[Metric]:
    """Metrics of the file system with the data folder; none while it cannot be read."""
    try:
        usage = shutil.disk_usage(context.settings.data_dir)
    except OSError:
        return
    yield single(
        gauge("disk_free_bytes", "Free bytes of the file system with the data folder."), usage.free
    )
    yield single(
        gauge("disk_size_bytes", "Size of the file system with the data folder."), usage.total
    )
