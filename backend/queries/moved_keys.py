"""Keys whose partition has changed because partitions were added to the topic.

Kafka does not move records. A key that belongs to partition 1 of 4, and to partition 5 of 6, has
its older records in partition 1 and its newer ones in partition 5. Such a key has *moved*. It is
read from all partitions that it has belonged to, with the tombstones, and its newest record counts:
the one with the greatest timestamp; if two have the same one, the one in the partition that the key
has got later.

Why this is the newest record of the key (docs/consistency.md has more):

1. All records of a key are in one of these partitions, because a producer uses a number of
   partitions that the topic has had. If it has used another number, its records are in partitions
   that none of the known numbers gives, and the view is mispartitioned.
2. In each partition, the store has the newest record: the last one in the log. That includes
   tombstones: ingest keeps the tombstones of keys that may also be in another partition. A store
   that was created without knowing an earlier number has not done so, and is not read for a moved
   key. In a view with a retention, the newest record may have expired in its partition, and be
   deleted. So a key's entries expire by the greatest stream time of its partitions: the older ones
   have expired, too.
3. A producer never goes back to a smaller number of partitions, so its own records of a key are in
   the partitions in the order in which the key has got them. They have that order by timestamp,
   too, if its clock does not go back between them; the rule for equal timestamps decides within a
   millisecond.
4. If one of two producers still uses the former number of partitions, their records have no order
   in Kafka but that of their timestamps. A producer may do so for `metadata.max.age.ms` (5 minutes
   by default). So a record that a producer has sent late to the former partition counts exactly if
   it is newer.

So the timestamps of a key's records must not decrease from one partition to the next. They do not
decrease with `message.timestamp.type=LogAppendTime`, or if producers set no timestamps. If
producers set timestamps that go back, a key may have an older value after partitions were added,
until it is written again with a later timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from backend.ingest.store_partitions import StorePartition
from backend.instance.context import QueryContext
from model.partitioner import partition_of
from model.problems import NonRetryable
from model.views import ANY_PARTITION, View


class PartitionUnknown(NonRetryable):
    """The key may be in several partitions, so only all of them together can answer."""

    def __init__(self, view: View) -> None:
        super().__init__(
            "mis-partitioned",
            f"Topic {view.topic} has records in other partitions than partitioner "
            f'"{view.partitioner}" gives, so this key may be in another partition. Set the '
            f'partitioner of view {view.name} to that of the producers, or to "none".',
        )


class InAnyPartition(PartitionUnknown):
    """Producers put the key into any partition: see `puts_anywhere`."""

    def __init__(self, view: View) -> None:
        NonRetryable.__init__(
            self,
            "mis-partitioned",
            f"The empty key may be in any partition of topic {view.topic}: librdkafka's default "
            f"partitioner puts it anywhere. Its value can be read, but not from one instance "
            f"alone, and its changes cannot be followed.",
        )


class KeyMoved(PartitionUnknown):
    """The key's partition has changed: see `moved_keys`."""

    def __init__(self, view: View) -> None:
        NonRetryable.__init__(
            self,
            "repartitioned",
            f"Partitions were added to topic {view.topic}, and the key's partition has changed: "
            f"its records are in several partitions. Its value can be read, but not from one "
            f"instance alone, and its changes cannot be followed.",
        )


def partition_counts(context: QueryContext, view: View) -> list[int]:
    """The numbers of partitions with which producers may have written records of the view,
    ascending. They come from the topology and from the store partitions here."""
    return sorted(context.store_partitions.partition_counts(view))


def known_counts(context: QueryContext, view: View) -> set[int]:
    """`partition_counts`, and the number that the topic had when it was last fetched."""
    metadata = context.metadata_poller.latest.get(view.topic)
    counts = context.store_partitions.partition_counts(view)
    return counts if metadata is None else {*counts, metadata.partitions}


def homes_of(view: View, key: bytes, counts: Iterable[int]) -> list[int]:
    """The partition of a key for each number of partitions."""
    home = partition_of(view.partitioner)
    return [home(key, count) for count in counts]


def has_moved_keys(context: QueryContext, view: View) -> bool:
    """Whether some keys have moved, and their partitions are known: in a mispartitioned view, a key
    may be in any partition."""
    if view.partitioner == ANY_PARTITION or context.store_partitions.is_mispartitioned(view):
        return False
    return len(context.store_partitions.partition_counts(view)) > 1


def is_growing(context: QueryContext, view: View) -> bool:
    """Whether partitions were added that the topology does not have yet. Raises Unavailable."""
    metadata = context.metadata_poller.latest.get(view.topic)
    return metadata is not None and metadata.partitions > len(context.group.placed(view).active)


def lacks_tombstones(context: QueryContext, store_partition: StorePartition) -> bool:
    """Whether the store was created without knowing an earlier number of partitions: it may lack
    the tombstones of moved keys."""
    view, metadata = store_partition.view, store_partition.metadata
    return has_moved_keys(context, view) and any(
        count < metadata.partitions and count not in metadata.earlier_counts
        for count in context.store_partitions.partition_counts(view)
    )


def refuse_unplaced(view: View, count: int) -> NoReturn:
    """NonRetryable: partitions were added some time ago, and have no instances yet."""
    raise NonRetryable(
        "repartitioned",
        f"Topic {view.topic} has {count} partitions by now, and the new ones have not been "
        f"assigned to instances yet.",
    )


def refuse_pushed(view: View) -> NoReturn:
    """NonRetryable: entries of a push have no records, so their times do not say which is newer."""
    raise NonRetryable(
        "repartitioned",
        f"Partitions were added to topic {view.topic} after the push of view {view.name}, and it "
        f"is not known which partition has the newest entry of a key. Push the view again.",
    )
