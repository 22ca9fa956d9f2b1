"""What the broker says of a topic, and what follows for a store partition kept from before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from model.records import StoreMetadata
from model.views import View


@dataclass(frozen=True)
class TopicMetadata:
    """A topic as the broker described it at `fetched_at` (s, monotonic)."""

    topic_id: str
    partitions: int
    starts: Mapping[int, int]  # partition -> first offset that the log still has
    ends: Mapping[int, int]  # partition -> last stable offset: where read_committed ends
    delete_retention: int | None  # ms for which tombstones are kept; None if not compacted
    fetched_at: float


def why_rebuild(
    view: View,
    partition: int,
    position: int | None,
    identity: StoreMetadata | None,
    facts: TopicMetadata,
    now_ms: int,
) -> str | None:
    """Why what is stored cannot be continued, in words; None if it can.

    Anything that could make the stored entries differ from a replay of the log is a reason.
    """
    if position is None or identity is None:
        return "it is empty"
    if identity.view_hash != view.hash:
        return "the view's definition has changed"
    if identity.topic_id != facts.topic_id:
        return f"topic {view.topic} was deleted and made anew"
    start, end = facts.starts[partition], facts.ends[partition]
    if position > end:
        return f"the log was truncated: it ends at {end}, before the position {position}"
    if position < start:
        return f"the log starts at {start}, after the position {position}: records were missed"
    retention = facts.delete_retention
    if retention is not None and position < end and now_ms - identity.alive_at > retention // 2:
        away = (now_ms - identity.alive_at) // 1000
        return f"it was away for {away} s: tombstones may be gone (delete.retention.ms={retention})"
    return None


def why_rebuild_open(
    partition: int, position: int, before: int | None, identity: StoreMetadata, facts: TopicMetadata
) -> str | None:
    """The same of one that is open; `before` is its position when the last facts came.

    An end below the position may have been fetched before the last records were applied; one below
    what the position was a fetch ago cannot.
    """
    if facts.topic_id != identity.topic_id:
        return "the topic was deleted and made anew"
    end = facts.ends.get(partition)
    if end is not None and before is not None and end < before:
        return f"the log was truncated: it ends at {end}, before {position}"
    return None
