"""Checks whether there are records between a committed offset and the end of the log.

A consumer that commits "the last record's offset + 1" stays before the marker that ends the last
transaction, and would always seem to lag. Offsets do not show this, but a fetch does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from model.kafka.clients import close, own
from model.pipelines.status import SourcePartition

_GroupPartition = tuple[str, SourcePartition]  # of a consumer group
_Offsets = tuple[int, int]  # the committed offset, and the end of the log

_POLL_TIMEOUT = 0.2  # s
_MAX_CHECKS = 8  # per call of `empty`


class _Result(NamedTuple):
    offsets: _Offsets
    is_empty: bool


class _Check(NamedTuple):
    consumer: Consumer
    partition: _GroupPartition
    offsets: _Offsets


class LogGaps:
    """Finds gaps without records, and remembers them. Not thread-safe."""

    def __init__(self, client_settings: Mapping[str, Any]) -> None:
        self._settings = {
            **client_settings,
            "client.id": "queryable-pipelines",
            "group.id": "queryable-pipelines",  # required, but unused: no group is joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # if the committed offset is no longer in the log, there may be later records
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 1024,
            "queued.max.messages.kbytes": 64,
            "log_level": 0,
        }
        self._consumer: Consumer | None = None
        self._previous: dict[_GroupPartition, _Offsets] = {}  # gaps of the previous call
        self._results: dict[_GroupPartition, _Result] = {}
        self._check: _Check | None = None  # the one that is under way

    def empty(self, gaps: Mapping[_GroupPartition, _Offsets]) -> set[_GroupPartition]:
        """The gaps that are known to have no records. A gap is checked once, after two calls had
        the same gap."""
        results = self._results.items()
        self._results = {gap: result for gap, result in results if gaps.get(gap) == result.offsets}
        for _ in range(_MAX_CHECKS):
            check = self._check
            if check is not None and gaps.get(check.partition) != check.offsets:
                self._end(check)
            check = self._check or self._started_check(gaps)
            if check is None or not self._poll(check):
                break
        self._previous = dict(gaps)
        return {gap for gap, result in self._results.items() if result.is_empty}

    def _started_check(self, gaps: Mapping[_GroupPartition, _Offsets]) -> _Check | None:
        """A check of the first gap that needs one; None if there is none."""
        for gap, offsets in gaps.items():
            if gap not in self._results and self._previous.get(gap) == offsets:
                if self._consumer is None:
                    self._consumer = own(Consumer(self._settings))
                (_, (topic, partition)), (offset, _) = gap, offsets
                self._consumer.assign([TopicPartition(topic, partition, offset)])
                self._check = _Check(self._consumer, gap, offsets)
                return self._check
        return None

    def _poll(self, check: _Check) -> bool:
        """Poll for the result of the check. Returns False if there is none yet."""
        offsets = check.offsets
        message = check.consumer.poll(_POLL_TIMEOUT)
        if message is None:
            return False
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return False
        # if a record is at or after the end, it was written in the meantime
        is_empty = error is not None or (message.offset() or 0) >= offsets[1]
        self._results[check.partition] = _Result(offsets, is_empty)
        self._end(check)
        return True

    def _end(self, check: _Check) -> None:
        check.consumer.unassign()
        self._check = None

    def close(self) -> None:
        if self._consumer is not None:
            close(self._consumer)
            self._consumer = None
