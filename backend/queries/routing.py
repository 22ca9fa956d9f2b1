"""The partition of a key, and which instances may answer for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import StorePartition
from backend.instance.context import QueryContext
from backend.queries.moved_keys import (
    InAnyPartition,
    KeyMoved,
    PartitionUnknown,
    homes_of,
    is_growing,
    partition_counts,
    refuse_pushed,
    refuse_unplaced,
)
from backend.queries.other_offsets import OtherOffsets
from backend.wire.scan import ALLOW, NEVER
from model.machine.clock import boot_time
from model.partitioner import partition_of, puts_anywhere
from model.partitioner_numpy import partitions_of_batch
from model.problems import RetryLater, Unavailable
from model.topology import ACTIVE, Member, Topology
from model.views import ANY_PARTITION, View


class NotOwner(Exception):
    """Other instances may answer for the key's partition: `members`, in the order to ask them.
    `refusal()`: this instance's own refusal, for the case that none of them answers."""

    def __init__(
        self, partition: int, members: Sequence[Member], refusal: Callable[[], Unavailable]
    ) -> None:
        super().__init__(partition, members)
        self.partition = partition
        self.members = members
        self._refusal = refusal

    @property
    def why(self) -> Unavailable:
        return self._refusal()

    @property
    def member(self) -> Member:
        """The first to ask."""
        return self.members[0]


OCTETS = "octet-stream"
"""The representation of a value as its record bytes."""

BOUND_CODES = frozenset(("not-up-to-offset", "too-far-behind", "too-stale"))
"""The problem codes of a read whose bounds no instance can keep."""

_MIN_KEYS_FOR_NUMPY = 24  # fewer keys are hashed faster one by one


@dataclass(frozen=True)
class ReadOptions:
    """The parameters of a read by key. `min_offsets`: partition -> the offset that the answer must
    include. `max_lag` in records, `max_staleness` in s, `as_of` in ms. `stale` is ALLOW, NEVER or
    None. `asked_at`: when the request arrived (s, monotonic)."""

    stale: str | None = None
    min_offsets: Mapping[int, int] | None = None
    max_lag: int | None = None
    max_staleness: float | None = None
    as_of: int | None = None
    redirect: bool = False
    local: bool = False  # no other instance is asked
    partials: bool = False  # what each partition has of the key
    representation: str = "json"  # or OCTETS, or that of the codec
    timestamps: bool = False  # of the records, in the items of a batch
    headers: bool = False  # of the record
    asked_at: float = field(default_factory=time.monotonic, compare=False)

    @property
    def bounded(self) -> bool:
        return (
            self.min_offsets is not None
            or self.max_lag is not None
            or self.max_staleness is not None
        )


PLAIN = ReadOptions()


def refusal(store_partition: StorePartition, stale: str | None) -> str | None:
    """The problem code if an open store partition may not answer; None if it may."""
    if stale == NEVER and store_partition.role != ACTIVE:
        return "not-active"
    if not store_partition.progress.answerable and stale != ALLOW:
        return "catching-up"
    return None


class KeyRouting:
    """Which instances may answer for the keys of one view."""

    def __init__(self, view: View, context: QueryContext) -> None:
        self.view = view
        self._context = context
        self._store_partitions = context.store_partitions.for_view(view.name)
        self._metadata = context.metadata_poller.latest
        anywhere = view.partitioner == ANY_PARTITION
        self._partition_of = None if anywhere else partition_of(view.partitioner)
        self._has_stray_keys = puts_anywhere(view.partitioner, b"")
        self._trusted_for = context.settings.ends_trusted_for
        self._is_partial = view.is_partial
        self.other_offsets = OtherOffsets(view, context)
        # The topology and the metadata from which `partition_count` computed its last result, and
        # this result. Topology and metadata are replaced, never modified.
        self._counted: tuple[Topology, TopicMetadata | None, tuple[int, bool] | None] = (
            context.group.topology, None, None
        )  # fmt: skip

    @property
    def latest_metadata(self) -> TopicMetadata | None:
        """The metadata of the view's topic, as last fetched. The hot path looks it up without this
        call."""
        return self._metadata.get(self.view.topic)

    def holder(self, key: bytes, options: ReadOptions) -> StorePartition:
        """The open store partition of the key, if it may answer."""
        return self.holder_of(self.partition(key, options), options)

    def holder_of(self, partition: int, options: ReadOptions) -> StorePartition:
        """The open store partition, if it may answer; else NotOwner or Unavailable."""
        store_partition = self._store_partitions.get(partition)
        if store_partition is None:
            raise self._others(partition, partial(self._not_held, partition), options)
        code = refusal(store_partition, options.stale)
        if code is not None:
            raise self._others(partition, partial(self._refused, store_partition, code), options)
        if options.bounded:
            why = self._beyond_bounds(store_partition, options)
            if why is not None:
                # a standby is not ahead of the active
                if store_partition.role == ACTIVE:
                    raise why
                raise self._others(partition, lambda: why, options)
        return store_partition

    def _refused(self, store_partition: StorePartition, code: str) -> Unavailable:
        number, progress = store_partition.partition, store_partition.progress
        waits = store_partition.waiting_for
        if code == "not-active":
            return Unavailable(
                code,
                f"This instance is {store_partition.role} for partition {number}, not active.",
            )
        return Unavailable(
            code,
            f"Partition {number} of view {self.view.name} is catching up: it is at offset "
            f"{progress.position} of {progress.target_offset}."
            f"{'' if waits is None else f' It waits for {waits.state}'}",
            partition=number,
            position=progress.position,
            goal=progress.target_offset,
        )

    def _not_held(self, partition: int) -> Unavailable:
        name = self.view.name
        holders = self._context.group.topology.holders_of(name, partition)
        if not holders:
            return Unavailable("nobody", f"No instance holds partition {partition} of view {name}.")
        if self._context.group.me in holders:
            return Unavailable(
                "catching-up", f"Partition {partition} of view {name} is being opened."
            )
        return Unavailable(
            "not-here",
            f"{', '.join(holder.id for holder in holders)} hold partition {partition} of view "
            f"{name} as of epoch {self._context.group.topology.epoch}.",
        )

    def elsewhere(
        self, partition: int, why: Unavailable, options: ReadOptions
    ) -> NotOwner | Unavailable:
        """Where to ask if this instance cannot answer because of `why`; else `why` itself."""
        return self._others(partition, lambda: why, options)

    def _others(
        self, partition: int, refusal: Callable[[], Unavailable], options: ReadOptions
    ) -> NotOwner | Unavailable:
        """The instances to ask instead of this one; the refusal if there are none."""
        others = self._context.group.others(self.view.name, partition, options.stale)
        return NotOwner(partition, others, refusal) if others else refusal()

    def _beyond_bounds(
        self, store_partition: StorePartition, options: ReadOptions
    ) -> RetryLater | None:
        """The refusal if the partition is farther behind than the options allow, else None."""
        partition, position = store_partition.partition, store_partition.progress.position
        wanted = (options.min_offsets or {}).get(partition, -1)
        if position <= wanted:
            return RetryLater(
                "not-up-to-offset",
                f"Partition {partition} is at offset {position}; min_offset is {wanted}.",
                partition=partition,
                position=position,
            )
        now = boot_time()
        if options.max_lag is not None:
            lag = store_partition.progress.lag(now, self._trusted_for)
            if lag is None or lag > options.max_lag:
                return RetryLater(
                    "too-far-behind",
                    f"Partition {partition} is {'unknown' if lag is None else lag} records behind; "
                    f"max_lag is {options.max_lag}.",
                )
        if options.max_staleness is not None:
            staleness = store_partition.progress.staleness(now)
            if staleness is None or staleness > options.max_staleness:
                known = "of unknown age" if staleness is None else f"{staleness:.3f} s old"
                return RetryLater(
                    "too-stale",
                    f"Partition {partition} is {known}; max_staleness is "
                    f"{options.max_staleness} s.",
                )
        return None

    def partition(self, key: bytes, options: ReadOptions = PLAIN) -> int:
        """The partition of a key. Raises Unavailable if it is unknown."""
        placed = self._context.group.placed(self.view)
        count = len(placed.active)
        if options.min_offsets:
            self._refuse_unknown(max(options.min_offsets), count)
        if self._partition_of is None or placed.mispartitioned or self._is_ambiguous():
            raise PartitionUnknown(self.view)
        if self._has_stray_keys and not key:
            raise InAnyPartition(self.view)
        if options.min_offsets:
            self.other_offsets.check(key, options.min_offsets, options.asked_at)
            if self._context.store_partitions.is_mispartitioned(self.view):
                raise PartitionUnknown(self.view)  # the topology does not say so yet
        partition = self._partition_of(key, count)
        metadata = self._metadata.get(self.view.topic)
        if placed.has_moved_keys:
            self._refuse_moved(key, partition, partition_counts(self._context, self.view))
        if metadata is not None and metadata.partitions != count:
            if metadata.partitions < count:
                self._refuse_moved(key, partition, [metadata.partitions])
            elif not metadata.were_just_added(time.monotonic()):
                self._refuse_unplaced(key, partition, metadata.partitions)
            else:
                # the answer is as of the addition: the new partitions will be placed in a moment
                self._check_bounds(key, partition, metadata.partitions, options)
        return partition

    def _refuse_unknown(self, partition: int, count: int) -> None:
        """Raises Unavailable if the client knows of a partition that this instance does not know:
        it has just been added, and may have the key."""
        metadata = self.latest_metadata
        if partition < count or (metadata is not None and partition < metadata.partitions):
            return
        raise RetryLater(
            "not-up-to-offset",
            f"Topic {self.view.topic} has no partition {partition}, as far as is known here.",
            partition=partition,
        )

    def is_growing(self) -> bool:
        """Whether partitions were added that the topology does not have yet."""
        return is_growing(self._context, self.view)

    def partitions(self, keys: Sequence[bytes]) -> list[int] | None:
        """The partition of each key; None if they have to be resolved one by one. Raises
        Unavailable."""
        count, is_certain = self.partition_count()
        if not is_certain or (self._has_stray_keys and b"" in keys):
            return None
        return self._partitions(keys, count)

    def _partitions(self, keys: Sequence[bytes], count: int) -> list[int]:
        """The partition of each key if there are `count` partitions."""
        if len(keys) < _MIN_KEYS_FOR_NUMPY:
            place = self._partition_of
            assert place is not None
            return [place(key, count) for key in keys]
        partitions: list[int] = partitions_of_batch(self.view.partitioner, keys, count).tolist()
        return partitions

    def in_one_partition(self, keys: Sequence[bytes], partition: int) -> list[int]:
        """The indexes of the keys for which `self.partition` returns this partition: no other
        partition can have these keys. Raises Unavailable."""
        placed = self._context.group.placed(self.view)
        if self._partition_of is None or placed.mispartitioned or self._is_ambiguous():
            return []
        counts = {len(placed.active)}
        if placed.has_moved_keys:
            counts.update(partition_counts(self._context, self.view))
        metadata = self.latest_metadata
        if metadata is not None and (
            metadata.partitions < len(placed.active)
            or not metadata.were_just_added(time.monotonic())
        ):
            counts.add(metadata.partitions)
        indexes = list(range(len(keys)))
        for count in counts:
            homes = self._partitions([keys[index] for index in indexes], count)
            indexes = [
                index for index, home in zip(indexes, homes, strict=True) if home == partition
            ]
        return indexes

    def partition_count(self) -> tuple[int, bool]:
        """The number of partitions, and whether the partition of every key follows from it; if not,
        keys have to be resolved one by one. Raises Unavailable."""
        topology, metadata = self._context.group.topology, self._metadata.get(self.view.topic)
        counted_topology, counted_metadata, counted = self._counted
        if counted is None or topology is not counted_topology or metadata is not counted_metadata:
            placed = self._context.group.placed(self.view)
            count = len(placed.active)
            counted = (
                count,
                not (
                    self._partition_of is None
                    or placed.mispartitioned
                    or placed.has_moved_keys
                    or (metadata is not None and metadata.partitions != count)
                ),
            )
            self._counted = topology, metadata, counted
        if self._is_ambiguous():
            return counted[0], False
        return counted

    def _refuse_moved(self, key: bytes, partition: int, counts: Iterable[int]) -> None:
        """KeyMoved if one of these numbers of partitions gives another partition."""
        if any(home != partition for home in homes_of(self.view, key, counts)):
            if self.view.push is not None:
                refuse_pushed(self.view)
            raise KeyMoved(self.view)

    def refuse_moving(self, key: bytes, partition: int) -> None:
        """Raises NonRetryable if the key has moved to a partition that the topology does not have
        yet."""
        metadata = self.latest_metadata
        if metadata is not None and self.is_growing():
            self._refuse_unplaced(key, partition, metadata.partitions)

    def _refuse_unplaced(self, key: bytes, partition: int, count: int) -> None:
        """Raises NonRetryable if the key has moved to a partition that no instance has yet."""
        if homes_of(self.view, key, [count]) != [partition]:
            refuse_unplaced(self.view, count)

    def _check_bounds(self, key: bytes, partition: int, more: int, options: ReadOptions) -> None:
        """Raises Unavailable if only the new partition of the key can have what the options ask
        for. The topic has `more` partitions, and the topology has fewer."""
        [home] = homes_of(self.view, key, [more])
        if home == partition:
            return
        if options.max_lag is not None or options.max_staleness is not None:
            code = "too-far-behind" if options.max_staleness is None else "too-stale"
        elif home in (options.min_offsets or {}):
            code = "not-up-to-offset"
        else:
            return
        raise RetryLater(
            code, f"Partition {home} of view {self.view.name} was added a moment ago.",
            partition=home,
        )  # fmt: skip

    def _is_ambiguous(self) -> bool:
        """Whether a key's entry may be a partial result, as far as is known here: the topology may
        not say so yet."""
        return self._is_partial and self._context.store_partitions.is_mispartitioned(self.view)

    def refuse_doubtful(self, keys: Iterable[bytes]) -> None:
        """Raises a Problem if one of these keys, which were not found, may be in another partition.
        It uses what this instance knows itself: the topology may not say so yet."""
        if self._context.store_partitions.is_mispartitioned(self.view):
            raise PartitionUnknown(self.view)
        count = len(self._context.group.placed(self.view).active)
        counts = self._context.store_partitions.own_partition_counts(self.view)
        if self._partition_of is not None and min(counts, default=count) < count:
            for key in keys:
                self._refuse_moved(key, self._partition_of(key, count), counts)
