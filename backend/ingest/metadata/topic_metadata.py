"""Topic metadata from the broker, and the check whether a store partition still matches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from model.records import StoreMetadata
from model.views import ANY_PARTITION, View

_JUST_ADDED = 10.0  # s; a rebalance and the opening of an empty partition take one or two


@dataclass(frozen=True)
class TopicMetadata:
    """A topic's metadata. `starts` and `ends` have the requested partitions, except those without a
    leader now. The metadata was fetched after `fetched_at` (s, monotonic), but `starts` may be some
    seconds older."""

    topic_id: str
    partitions: int
    starts: Mapping[int, int]  # partition -> log start offset
    ends: Mapping[int, int]  # partition -> last stable offset, the end for read_committed
    delete_retention: int | None  # delete.retention.ms; None if the topic is not compacted
    fetched_at: float
    # `fetched_at` by `boot_time` (s), for the age of data; 0: unknown, long ago
    fetched_boot_time: float = 0.0
    added_at: float | None = None  # s, monotonic: when more partitions than before were found
    # partition -> high watermark; greater than the end while a transaction is open
    high_watermarks: Mapping[int, int] = field(default_factory=dict)

    @property
    def has_all_offsets(self) -> bool:
        return len(self.ends) == self.partitions

    def after(self, before: TopicMetadata | None) -> TopicMetadata:
        """This metadata with `added_at`. `before`: the metadata of the previous fetch."""
        if before is None or before.topic_id != self.topic_id:
            return self
        is_more = self.partitions > before.partitions
        return replace(self, added_at=self.fetched_at if is_more else before.added_at)

    def were_just_added(self, now: float) -> bool:
        """Whether the topic had fewer partitions until a moment ago. `now`: s, monotonic."""
        return self.added_at is not None and now - self.added_at < _JUST_ADDED


def rebuild_reason(
    view: View,
    partition: int,
    position: int | None,
    metadata: StoreMetadata | None,
    topic_metadata: TopicMetadata,
    now_ms: int,
    in_several: bool = False,
) -> str | None:
    """The reason to rebuild a store; None if ingest can continue from its position.

    A store must be rebuilt if its entries could differ from a replay of the log. `in_several`:
    whether keys of the view may be in several partitions, according to other sources than this
    store.
    """
    if position is None or metadata is None:
        return "it is empty"
    if metadata.view_hash != view.hash:
        return "the view's definition has changed"
    if metadata.topic_id != topic_metadata.topic_id:
        return f"topic {view.topic} was deleted and recreated"
    if (
        view.keeps_unreadable
        and metadata.has_skipped
        and _has_all_entries(view, partition, metadata, topic_metadata, in_several)
    ):
        return "keys have older values instead of unreadable ones: an older version wrote it"
    start, end = topic_metadata.starts[partition], topic_metadata.ends[partition]
    if position > end:
        return f"the log was truncated: it ends at {end}, before the position {position}"
    if position < start:
        return f"the log starts at {start}, after the position {position}: records were missed"
    retention = topic_metadata.delete_retention
    # a store that has never been complete is in its first replay, however long that takes
    away = now_ms - (metadata.last_complete or metadata.alive_at)
    if retention is not None and position < end and away > retention // 2:
        return (
            f"it was offline or behind for {away // 1000} s: tombstones may be lost "
            f"(delete.retention.ms={retention})"
        )
    return None


def _has_all_entries(
    view: View,
    partition: int,
    metadata: StoreMetadata,
    topic_metadata: TopicMetadata,
    in_several: bool,
) -> bool:
    """Whether the log still has all records that the store was made from. Any log may lack records
    before its start. A compacted log may lack versions, and the deletes of keys whose older value
    is in another partition."""
    if topic_metadata.starts[partition] > 0:
        return False
    if topic_metadata.delete_retention is None:
        return True
    counts = {topic_metadata.partitions, *metadata.partition_counts}
    return not (
        view.kind.has_versions
        or in_several
        or view.partitioner == ANY_PARTITION
        or metadata.mispartitioned
        or len(counts) > 1
    )


def open_store_rebuild_reason(
    partition: int,
    position: int,
    before: int | None,
    metadata: StoreMetadata,
    topic_metadata: TopicMetadata,
) -> str | None:
    """The reason to rebuild an open store; else None.

    `before`: a position that the store had before the end was fetched; None if unknown. A log end
    before this position means that the log was truncated. The current position cannot be used,
    because the end may have been fetched before the last records were applied.
    """
    if topic_metadata.topic_id != metadata.topic_id:
        return "the topic was deleted and recreated"
    end = topic_metadata.ends.get(partition)
    if end is not None and before is not None and end < before:
        return f"the log was truncated: it ends at {end}, before {position}"
    return None
