"""The store partitions that this instance has open: written by ingest, read by everyone."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from backend.ingest.batch import DeadLetter
from backend.ingest.change_listeners import ChangeListeners
from backend.ingest.protocols import Store
from model.formats.avro.codecs import SchemaNotYet
from model.partitioner import partition_of
from model.progress import Progress
from model.records import StoreMetadata
from model.topology import ACTIVE
from model.views import ANY_PARTITION, CHANGELOG, View

log = logging.getLogger(__name__)


_SET_THEIRS = "Set the view's partitioner to that of the topic's producers"
_SET_NONE = (
    "Its records are where the application's tasks are: set the view's partitioner to that of the "
    'application\'s input, or to "none"'
)


@dataclass
class StorePartition:
    """An open store partition and how far it is.

    `identity` is what the store has, or will have with the next batch.
    """

    view: View
    partition: int
    store: Store
    progress: Progress
    identity: StoreMetadata
    opened_at: float  # s, monotonic
    role: str = ACTIVE  # what the map says: replaced as it changes, nothing else does
    applied_records: int = 0
    expired_until: int = -(1 << 63)  # ms: entries of lesser times are deleted
    ahead: int = -(1 << 63)  # ms: the least time that stream time may have to move to; see advance
    waiting_for: SchemaNotYet | None = None  # what the record at its position needs first
    unsent: list[DeadLetter] = field(default_factory=list)  # see DeadLetters.take
    watches: ChangeListeners = field(default_factory=ChangeListeners)
    damaged: str | None = None  # why it has to be rebuilt, once a read has found out
    partition_header: bytes = field(init=False)
    etag_format: bytes = field(init=False)  # % (record offset, form of the value)

    def __post_init__(self) -> None:
        self.partition_header = b"%d" % self.partition
        # a topic made anew has the same offsets with other records
        made = zlib.crc32(self.identity.topic_id.encode())
        # no topic's name has a percent sign
        self.etag_format = b'"%b-%08x-%d-%%d-%%b"' % (
            self.view.topic.encode(),
            made,
            self.partition,
        )

    def warn_of_misplaced(self, offset: int) -> None:
        """The first record in the wrong partition has come, up to `offset`."""
        log.warning(
            'view %s, partition %d has records that partitioner "%s" puts elsewhere, the first up '
            "to offset %d: all partitions are asked for each key of this view. %s",
            self.view.name, self.partition, self.view.partitioner, offset,
            _SET_NONE if self.view.topic.endswith(CHANGELOG) else _SET_THEIRS,
        )  # fmt: skip

    def say_answerable(self) -> None:
        log.info(
            "view %s, partition %d is answerable at offset %d after %.1f s", self.view.name,
            self.partition, self.progress.position, time.monotonic() - self.opened_at,
        )  # fmt: skip

    def close(self, alive_at: int) -> None:
        """Note the time (wall clock, ms), close the store, end what watches it; all of that,
        whatever fails. With a full disk, say, it does: what is stored is in step all the same."""
        try:
            self.store.touch(alive_at)
        except Exception as e:
            log.warning("view %s, partition %d: %s", self.view.name, self.partition, e)
        try:
            self.store.close()
        except Exception as e:
            log.warning("view %s, partition %d is closed: %s", self.view.name, self.partition, e)
        self.watches.close()


class PartitionRegistry:
    """view -> partition -> StorePartition. Its dicts are changed by the ingest thread alone."""

    def __init__(self, views: tuple[View, ...]) -> None:
        self._by_view: dict[str, dict[int, StorePartition]] = {view.name: {} for view in views}
        # views whose keys may be in several partitions, as the map says; replaced, never changed
        self.scattered: frozenset[str] = frozenset()

    def of_view(self, view: str) -> dict[int, StorePartition]:
        """The live dict of a view: a reader may keep it."""
        return self._by_view[view]

    def all(self) -> list[StorePartition]:
        return [held for of_view in self._by_view.values() for held in list(of_view.values())]

    def get(self, view: str, partition: int) -> StorePartition | None:
        return self._by_view[view].get(partition)

    def fed_by(self, topic: str, partition: int) -> list[StorePartition]:
        """The open store partitions that a topic partition feeds now: not those that wait."""
        return [
            held
            for of_view in self._by_view.values()
            if (held := of_view.get(partition)) is not None
            if held.view.topic == topic and held.waiting_for is None
        ]

    def add(self, held: StorePartition) -> None:
        self._by_view[held.view.name][held.partition] = held

    def remove(self, held: StorePartition) -> None:
        self._by_view[held.view.name].pop(held.partition, None)

    def resume(self) -> list[StorePartition]:
        """Those that need not wait any more."""
        found = [h for h in self.all() if h.waiting_for is not None and h.waiting_for.over]
        for held in found:
            held.waiting_for = None
        return found

    def is_scattered(self, view: View) -> bool:
        """Whether a key of the view may be in several partitions, as far as is known here."""
        return (
            view.partitioner == ANY_PARTITION
            or view.name in self.scattered
            or any(held.identity.mis_partitioned for held in list(self.of_view(view.name).values()))
        )

    def keeps_delete(
        self, held: StorePartition, counts: Collection[int]
    ) -> Callable[[bytes], bool]:
        """Of which (bare) keys a delete is kept as an entry: those that may be in another partition
        as well, where nobody else would tell that the entry is older. `counts`: of partitions."""
        if self.is_scattered(held.view):
            return lambda key: True
        place, here = partition_of(held.view.partitioner), held.partition
        return lambda key: any(place(key, count) != here for count in counts)

    def mis_partitioned(self) -> tuple[str, ...]:
        """Views in which a record was seen whose partition is not the partitioner's."""
        return tuple(
            name
            for name, of_view in self._by_view.items()
            if any(held.identity.mis_partitioned for held in list(of_view.values()))
        )

    def built_partitions(self) -> dict[str, int]:
        """view -> the smallest partition count under which a store partition of it was started."""
        counts = {
            name: [held.identity.partitions for held in list(of_view.values())]
            for name, of_view in self._by_view.items()
        }
        return {name: min(of_view) for name, of_view in counts.items() if of_view}
