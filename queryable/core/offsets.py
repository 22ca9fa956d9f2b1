"""What a session has seen of each partition: later reads must have seen it, too.

A record that was appended at offset 7 must be in the answer: `min_offset=p:7`. An answer as of
position 7 had all before it: `min_offset=p:6`. So a session reads its own writes, and its reads are
monotonic. Source: Terry et al., "Session Guarantees for Weakly Consistent Replicated Data" (1994).
"""

from __future__ import annotations

from collections.abc import Mapping

from queryable.core.errors import BadUse

# of one request: a longer list would not fit into a URL
_MOST = 1500


class Offsets:
    """The greatest offset seen of each partition of each topic."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, int]] = {}

    def wrote(self, topic: str, partition: int, offset: int) -> None:
        of_topic = self._seen.setdefault(topic, {})
        if of_topic.get(partition, -1) < offset:
            of_topic[partition] = offset

    def read(self, topic: str, partition: int | None, position: int | None) -> None:
        if partition is not None and position:
            self.wrote(topic, partition, position - 1)

    def of(self, topic: str) -> str | None:
        """For `min_offset`: all of them, as those of other partitions than the key's do not
        matter; BadUse if there are too many."""
        seen = self._seen.get(topic)
        if not seen:
            return None
        if len(seen) > _MOST:
            raise BadUse(f"A session can have seen {_MOST} partitions of a topic, not {len(seen)}.")
        return ",".join(f"{p}:{offset}" for p, offset in sorted(seen.items()))

    def snapshot(self) -> Mapping[str, Mapping[int, int]]:
        """Topic ► partition ► offset; to be handed to another process."""
        return {topic: dict(seen) for topic, seen in self._seen.items()}

    def take(self, snapshot: Mapping[str, Mapping[int, int]]) -> None:
        for topic, seen in snapshot.items():
            for partition, offset in seen.items():
                self.wrote(topic, int(partition), offset)
