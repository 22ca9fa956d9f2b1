"""Whether anything lies between a committed offset and the end of the log.

A consumer that commits "the last record's offset + 1" stands before the marker that ends the last
transaction, and would seem to lag for ever. Offsets do not tell; a fetch does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from backend.core.pipelines import Unit

_Of = tuple[str, Unit]  # consumer group and partition

_WAIT = 0.5  # s for one fetch
_A_LOOK = 8  # fetches a look


class Gaps:
    """Remembers of which gaps it is known that they are empty. For one thread."""

    def __init__(self, client_settings: Mapping[str, Any]) -> None:
        self._settings = {
            **client_settings,
            "client.id": "queryable-pipelines",
            "group.id": "queryable-pipelines",  # required; it commits nothing and joins nothing
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": 1024,
            "queued.max.messages.kbytes": 64,
            "log_level": 0,
        }
        self._consumer: Consumer | None = None
        self._seen: dict[_Of, tuple[int, int]] = {}  # the gaps of the last look
        self._checked: dict[_Of, tuple[int, int, bool]] = {}

    def empty(self, gaps: Mapping[_Of, tuple[int, int]]) -> set[_Of]:
        """Those of these gaps (committed offset, end) that are known to hold no record; one that
        stays as it is for two looks is looked into, once."""
        left = _A_LOOK
        for of, gap in gaps.items():
            checked = self._checked.get(of)
            known = checked is not None and checked[:2] == gap
            if not known and self._seen.get(of) == gap and left:
                left -= 1
                is_empty = self._look_into(of[1], *gap)
                if is_empty is not None:
                    self._checked[of] = (*gap, is_empty)
        self._seen = dict(gaps)
        self._checked = {of: found for of, found in self._checked.items() if of in gaps}
        return {of for of, found in self._checked.items() if found == (*gaps[of], True)}

    def _look_into(self, unit: Unit, offset: int, end: int) -> bool | None:
        """None where the broker does not say in time."""
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
        topic, partition = unit
        self._consumer.assign([TopicPartition(topic, partition, offset)])
        try:
            message = self._consumer.poll(_WAIT)
        finally:
            self._consumer.unassign()
        if message is None:
            return None
        error = message.error()
        if error is not None:
            return True if error.code() == KafkaError._PARTITION_EOF else None
        return (message.offset() or 0) >= end  # written since

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
