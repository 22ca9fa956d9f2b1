"""The offsets that a session has written or read. Its later reads must include them.

Offsets are those of one topic, so a session stays with the versions of the views that were current
when it read them first.

If a record was appended at offset 7, the read must have applied it: `min_offset=p:7`. An answer at
position 7 includes everything before it: `min_offset=p:6`. A session thus reads its own writes, and
its reads are monotonic. Source: Terry et al., "Session Guarantees for Weakly Consistent Replicated
Data" (1994).
"""

from __future__ import annotations

from collections.abc import Mapping

from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.views import View

# a longer list would not fit into a URL
_MAX_PARTITIONS = 1500


class SessionOffsets:
    """The greatest offset of each partition of each topic."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[int, int]] = {}
        # by the name in the first call; the name of such a view has a version
        self.views: dict[str, View] = {}

    def leave_version(self, name: str) -> bool:
        """Forget the version of the view, so that another version may be read. Returns False if
        there are offsets of its topic."""
        view = self.views.get(name)
        if view is not None and view.topic in self._offsets:
            return False
        self.views.pop(name, None)
        return True

    def note_record(self, topic: str, partition: int, offset: int) -> None:
        """Records that a record was written or read."""
        offsets = self._offsets.setdefault(topic, {})
        if offsets.get(partition, -1) < offset:
            offsets[partition] = offset

    def note_position(self, topic: str, partition: int | None, position: int | None) -> None:
        """Records that an answer included all records before `position`."""
        if partition is not None and position:
            self.note_record(topic, partition, position - 1)

    def min_offset(self, topic: str) -> str | None:
        """The parameter `min_offset` for a topic. Raises BadUse if it has too many partitions.

        It contains the offsets of all partitions. The API waits only for that of the key's
        partition.
        """
        offsets = self._offsets.get(topic)
        if not offsets:
            return None
        if len(offsets) > _MAX_PARTITIONS:
            raise BadUse(
                f"A session can read at most {_MAX_PARTITIONS} partitions of a topic; "
                f"this one has read {len(offsets)} of topic {topic}."
            )
        return ",".join(f"{p}:{offset}" for p, offset in sorted(offsets.items()))

    def snapshot(self) -> Mapping[str, Mapping[int, int]]:
        """Topic ► partition ► offset, to pass to a session in another process."""
        return {topic: dict(offsets) for topic, offsets in self._offsets.items()}

    def take(self, snapshot: Mapping[str, Mapping[int, int]]) -> None:
        """Adds the offsets of another session's snapshot."""
        for topic, offsets in snapshot.items():
            for partition, offset in offsets.items():
                self.note_record(topic, int(partition), offset)
