"""Checks whether there are records between a committed offset and the end of the log.

A consumer that commits "the last record's offset + 1" stays before the marker that ends the last
transaction, and would seem to lag forever. Offsets cannot show this; a fetch can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from model.pipelines import Unit

_Of = tuple[str, Unit]  # consumer group and partition
_Gap = tuple[int, int]  # from the committed offset to the end

_WAIT = 0.2  # s per poll for a fetch
_PER_POLL = 8  # fetches per poll


class _Checked(NamedTuple):
    gap: _Gap
    is_empty: bool


class LogGaps:
    """Remembers which gaps are empty. Not thread-safe."""

    def __init__(self, client_settings: Mapping[str, Any]) -> None:
        self._settings = {
            **client_settings,
            "client.id": "queryable-pipelines",
            "group.id": "queryable-pipelines",  # required; it commits nothing and joins nothing
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # if the committed offset is no longer in the log, later offsets may have records
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 1024,
            "queued.max.messages.kbytes": 64,
            "log_level": 0,
        }
        self._consumer: Consumer | None = None
        self._seen: dict[_Of, _Gap] = {}  # in the last poll
        self._checked: dict[_Of, _Checked] = {}
        self._asking: tuple[_Of, _Gap] | None = None

    def empty(self, gaps: Mapping[_Of, _Gap]) -> set[_Of]:
        """The gaps that are known to have no records. A gap is checked once, when it is the same in
        two polls."""
        known = self._checked.items()
        self._checked = {of: found for of, found in known if gaps.get(of) == found.gap}
        for _ in range(_PER_POLL):
            if self._asking is not None and gaps.get(self._asking[0]) != self._asking[1]:
                self._forget()
            if self._asking is None:
                self._ask(gaps)
            if self._asking is None or not self._answered():
                break
        self._seen = dict(gaps)
        return {of for of, found in self._checked.items() if found.is_empty}

    def _ask(self, gaps: Mapping[_Of, _Gap]) -> None:
        for of, gap in gaps.items():
            if of not in self._checked and self._seen.get(of) == gap:
                if self._consumer is None:
                    self._consumer = Consumer(self._settings)
                (_, (topic, partition)), (offset, _) = of, gap
                self._consumer.assign([TopicPartition(topic, partition, offset)])
                self._asking = of, gap
                return

    def _answered(self) -> bool:
        """False: no answer yet; the fetch continues until the next poll."""
        assert self._consumer is not None
        assert self._asking is not None
        of, gap = self._asking
        message = self._consumer.poll(_WAIT)
        if message is None:
            return False
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return False
        # a record at the end or later was written since
        is_empty = error is not None or (message.offset() or 0) >= gap[1]
        self._checked[of] = _Checked(gap, is_empty)
        self._forget()
        return True

    def _forget(self) -> None:
        assert self._consumer is not None
        self._consumer.unassign()
        self._asking = None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
