"""The open store partitions of this instance. Ingest writes them, all threads read them."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache

from backend.ingest.batch import DeadLetter
from backend.ingest.change_listeners import ChangeListeners
from backend.ingest.indexes.partition_indexes import PartitionIndexes
from backend.ingest.lifecycle.missed_tombstones import Completeness
from backend.ingest.protocols import Store
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.formats.schemas import SchemaNotYet
from model.machine.clock import boot_time
from model.partitioner import partition_of, puts_anywhere
from model.problems import StoreError
from model.progress import Progress
from model.records import LastRecord, StoreMetadata, hash_of_topic
from model.topology import ACTIVE, PlacedView, Topology
from model.views import ANY_PARTITION, CHANGELOG, View

log = logging.getLogger(__name__)
_failed_reads = RateLimitedLog(log)

StorePartitionId = tuple[str, int]
"""A view's name and the number of a partition."""

_SET_PRODUCERS = "Set the view's partitioner to the one of the topic's producers"
_SET_NONE = (
    "In a changelog, records are in the partitions of the application's tasks: set the view's "
    'partitioner to the one of the application\'s input topic, or to "none"'
)


@dataclass
class StorePartition:
    """An open store partition and its progress. Only the ingest thread writes the fields, except
    `damaged`. All threads read them.

    The store has `metadata`, or gets it with the next batch.
    """

    # set when the store is opened (`lifecycle.recovery`, `pushes.candidates`)
    view: View
    partition: int
    store: Store
    progress: Progress  # the object stays; ingest's writer moves it
    metadata: StoreMetadata  # replaced by the applier, the writer and the lifecycle
    opened_at: float  # s, of `boot_time`
    # what the topology says; written by the lifecycle
    role: str = ACTIVE
    opened_alone: bool = False  # whether no other instance had the partition then
    # written while records are applied
    applied_records: int = 0  # since it was opened
    expired_until: int = -(1 << 63)  # ms: entries with smaller times are deleted; by `expiry`
    earliest_future_time: int = -(1 << 63)  # ms: of an entry, after stream time; see `advance`
    to_verify: LastRecord | None = None  # record that the log must still have; see `RecordApplier`
    waiting_for: SchemaNotYet | None = None  # the schema of the record at `position`
    unsent: list[DeadLetter] = field(default_factory=list)  # written by `DeadLetters.take`
    # objects that keep their own state
    listeners: ChangeListeners = field(default_factory=ChangeListeners)
    completeness: Completeness = field(default_factory=Completeness)
    indexes: PartitionIndexes | None = None
    # written by any thread whose read fails
    damaged: str | None = None  # why it must be rebuilt
    # bytes of response headers, made once
    partition_header: bytes = field(init=False)
    etag_format: bytes = field(init=False)  # % (record offset, representation of the value)

    def __post_init__(self) -> None:
        self.partition_header = b"%d" % self.partition
        # a recreated topic has the same offsets, but other records; and with another definition of
        # the view, a record has another value
        source_hash = zlib.crc32(f"{self.metadata.topic_id} {self.view.hash}".encode())
        # topic names cannot contain a percent sign
        self.etag_format = b'"%b-%08x-%d-%%d-%%b"' % (
            self.view.topic.encode(),
            source_hash,
            self.partition,
        )

    @property
    def fetch_offset(self) -> int:
        """The offset from which records are needed."""
        return self.progress.position if self.to_verify is None else self.to_verify.offset

    def entries(self) -> int:
        """RocksDB's estimate of the number of entries. An index has keys for each of them, and one
        that is built for some of them."""
        number, indexes = self.store.entries(), self.indexes
        if indexes is None:
            return number
        in_builds = indexes.built_entries * indexes.keys_each(indexes.unready)
        return int(max(number - in_builds, 0) // (1 + indexes.keys_each(indexes.ready)))

    def seconds_left(self, now: float) -> float | None:
        """The estimated time (s) until it is answerable, at the average rate so far. None if
        unknown: it has applied nothing yet, or waits for something other than records."""
        progress = self.progress
        if progress.answerable:
            return 0.0
        if self.waiting_for is not None:
            return None
        applied = progress.position - progress.started_position
        left = progress.target_offset - progress.position
        return left * (now - self.opened_at) / applied if applied > 0 and left > 0 else None

    def warn_of_mispartitioned(self, offset: int) -> None:
        """Warn about the first mispartitioned record, which is at or before `offset`."""
        log.warning(
            "view %s, partition %d has mispartitioned records: their keys belong to other "
            'partitions according to partitioner "%s" (first one at or before offset %d). Queries '
            "of this view now ask all partitions. %s",
            self.view.name, self.partition, self.view.partitioner, offset,
            _SET_NONE if self.view.topic.endswith(CHANGELOG) else _SET_PRODUCERS,
        )  # fmt: skip

    def end_streams_of_moved_keys(self, count: int) -> None:
        """End the streams of keys that belong to another partition if the topic has `count`
        partitions: their changes are there."""
        if self.view.partitioner != ANY_PARTITION:
            home = partition_of(self.view.partitioner)
            self.listeners.end_where(lambda key: home(key, count) != self.partition)

    def end_streams(self) -> None:
        """End the streams of all keys: their next changes may be in other partitions."""
        self.listeners.end_where(lambda key: True)

    def read_failed(self, error: StoreError) -> None:
        """Let ingest rebuild a damaged store. Any other error, such as too many open files, may be
        over at the next read."""
        if error.damaged:
            self.damaged = str(error)
        else:
            _failed_reads.warn(
                f"{self.view.name}-{self.partition}",
                f"view {self.view.name}, partition {self.partition}: {error}",
            )

    def log_answerable(self) -> None:
        log.info(
            "view %s, partition %d is answerable at offset %d after %.1f s", self.view.name,
            self.partition, self.progress.position, boot_time() - self.opened_at,
        )  # fmt: skip

    def close(self, alive_at: int) -> None:
        """Store the time (wall clock, ms), close the store and the listeners.

        Each step runs even if another one fails, for example on a full disk. Entries and position
        stay consistent.
        """
        try:
            self.store.touch(alive_at, self.completeness.to_store(alive_at))
        except Exception as e:
            log.warning("view %s, partition %d: %s", self.view.name, self.partition, e)
        try:
            self.store.close()
        except Exception as e:
            log.warning(
                "view %s, partition %d: error on closing: %s", self.view.name, self.partition, e
            )
        self.listeners.close()


class PartitionRegistry:
    """The open store partitions by view and partition. Only the ingest thread modifies them."""

    def __init__(self, views: tuple[View, ...]) -> None:
        self._by_view: dict[str, dict[int, StorePartition]] = {view.name: {} for view in views}
        self._topics = sorted({view.topic for view in views})
        self._candidates: dict[StorePartitionId, StorePartition] = {}
        # what the topology says; replaced, never modified
        self.topology_mispartitioned: frozenset[str] = frozenset()
        self.views_without_partitions: frozenset[str] = frozenset()
        self._topology_counts: Mapping[str, frozenset[int]] = {}
        self._placed: Mapping[str, PlacedView] = {}

    def apply_topology(self, topology: Topology) -> None:
        """Note which views are mispartitioned, which have no partition because the leader does not
        know their topic, and the numbers of partitions of each view's topic, now and when stores
        were created. Called by the membership thread."""
        placed_views = topology.views.items()
        self.views_without_partitions = frozenset(
            name for name, placed in placed_views if not placed.partitions
        )
        self.topology_mispartitioned = frozenset(
            name for name, placed in placed_views if placed.mispartitioned
        )
        for name in self.topology_mispartitioned:
            self.end_streams(name)
        self._topology_counts = {
            name: frozenset((placed.partitions, *placed.partition_counts))
            for name, placed in placed_views
        }
        self._placed = topology.views

    def for_view(self, view: str) -> dict[int, StorePartition]:
        """Partition -> StorePartition of a view. The dict is live, and callers may keep it."""
        return self._by_view[view]

    def topics(self) -> list[str]:
        """The topics of all views."""
        return self._topics

    def all(self) -> list[StorePartition]:
        return [
            store_partition
            for by_partition in self._by_view.values()
            for store_partition in list(by_partition.values())
        ]

    def get(self, view: str, partition: int) -> StorePartition | None:
        return self._by_view[view].get(partition)

    def for_source(self, topic: str, partition: int) -> list[StorePartition]:
        """The open store partitions and candidates that are made from a topic partition, without
        those that wait for a schema."""
        opened = [
            store_partition
            for by_partition in self._by_view.values()
            if (store_partition := by_partition.get(partition)) is not None
        ]
        if self._candidates:
            opened += [c for c in self.candidates() if c.partition == partition]
        return [p for p in opened if p.view.topic == topic and p.waiting_for is None]

    def add(self, store_partition: StorePartition) -> None:
        self._by_view[store_partition.view.name][store_partition.partition] = store_partition
        if store_partition.metadata.mispartitioned:
            self.end_streams(store_partition.view.name)

    def end_streams(self, view: str) -> None:
        """End the streams of a view whose keys may be in several partitions from now on."""
        for store_partition in list(self._by_view.get(view, {}).values()):
            store_partition.end_streams()

    def remove(self, store_partition: StorePartition) -> None:
        self._by_view[store_partition.view.name].pop(store_partition.partition, None)

    def candidates(self) -> list[StorePartition]:
        """Stores with a newer push that catch up and do not answer yet: `pushes.candidates`."""
        return list(self._candidates.values())

    def candidate(self, view: str, partition: int) -> StorePartition | None:
        return self._candidates.get((view, partition))

    def add_candidate(self, candidate: StorePartition) -> None:
        self._candidates[candidate.view.name, candidate.partition] = candidate

    def remove_candidate(self, candidate: StorePartition) -> None:
        self._candidates.pop((candidate.view.name, candidate.partition), None)

    def resume(self) -> list[StorePartition]:
        """End the wait of store partitions whose schema is available, and return them."""
        resumed = [
            store_partition
            for store_partition in (*self.all(), *self.candidates())
            if store_partition.waiting_for is not None and store_partition.waiting_for.over
        ]
        for store_partition in resumed:
            store_partition.waiting_for = None
        return resumed

    def is_mispartitioned(self, view: View) -> bool:
        """Whether a key of the view may be in several partitions, as far as this instance knows."""
        return (
            view.partitioner == ANY_PARTITION
            or view.name in self.topology_mispartitioned
            or any(
                store_partition.metadata.mispartitioned
                for store_partition in list(self.for_view(view.name).values())
            )
        )

    def may_be_in_several(self, view: View) -> bool:
        """Whether some keys of the view may be in several partitions, as far as this instance
        knows: it is mispartitioned, or partitions were added since a store was created."""
        return len(self.partition_counts(view)) > 1 or self.is_mispartitioned(view)

    def partition_counts(self, view: View) -> set[int]:
        """The numbers of partitions that the view's topic has had since its stores were created,
        as far as this instance knows."""
        return {*self._topology_counts.get(view.name, ()), *self.own_partition_counts(view)}

    def own_partition_counts(self, view: View, topic_id: str = "") -> set[int]:
        """`partition_counts`, as far as the view's open store partitions know them. `topic_id`:
        leave out the numbers of another topic that had the same name."""
        counts: set[int] = set()
        for opened in list(self.for_view(view.name).values()):
            if topic_id in ("", opened.metadata.topic_id):
                counts |= opened.metadata.partition_counts
        return counts

    def partition_counts_of_topic(self, view: View, topic_id: str) -> set[int]:
        """`partition_counts` without the numbers of another topic that had the same name."""
        counts = self.own_partition_counts(view, topic_id)
        placed = self._placed.get(view.name)
        if (
            placed is not None
            # without a store, it is not known which topic the topology describes
            and placed.partition_counts
            and placed.topic_hash in (0, hash_of_topic(topic_id))
        ):
            counts.update((placed.partitions, *placed.partition_counts))
        return counts

    def tombstone_filter(
        self, store_partition: StorePartition, counts: Collection[int]
    ) -> Callable[[bytes], bool]:
        """A predicate: whether the tombstone of a (bare) key must be stored.

        It must be stored if the key may also be in another partition, because the entry there may
        be older than the tombstone. While a partition of the view is read for the first time, any
        key may be in several: a mispartitioned record may follow, for example if partitions were
        added before the stores were created. `counts`: numbers of partitions of the topic.
        """
        view = store_partition.view
        if self.is_mispartitioned(view):
            return lambda key: True
        partitioner = partition_of(view.partitioner)
        own = store_partition.partition

        @cache  # only runs that have a tombstone look at all partitions of the view, and only once
        def is_catching_up() -> bool:
            opened = [store_partition, *self.for_view(view.name).values()]
            return max(counts, default=0) > 1 and not all(p.progress.answerable for p in opened)

        return lambda key: (
            any(partitioner(key, count) != own for count in counts)
            or puts_anywhere(view.partitioner, key)
            or is_catching_up()
        )

    def mispartitioned_views(self) -> tuple[str, ...]:
        """Views with mispartitioned records in open store partitions."""
        return tuple(
            name
            for name, by_partition in self._by_view.items()
            if any(
                store_partition.metadata.mispartitioned
                for store_partition in list(by_partition.values())
            )
        )
