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
        self._current: tuple[_GroupPartition, _Offsets] | None = None

    def empty(self, gaps: Mapping[_GroupPartition, _Offsets]) -> set[_GroupPartition]:
        """The gaps that are known to have no records. A gap is checked once, after two calls had
        the same gap."""
        results = self._results.items()
        self._results = {of: result for of, result in results if gaps.get(of) == result.offsets}
        for _ in range(_MAX_CHECKS):
            if self._current is not None and gaps.get(self._current[0]) != self._current[1]:
                self._end_check()
            if self._current is None:
                self._start_check(gaps)
            if self._current is None or not self._poll():
                break
        self._previous = dict(gaps)
        return {of for of, result in self._results.items() if result.is_empty}

    def _start_check(self, gaps: Mapping[_GroupPartition, _Offsets]) -> None:
        for of, offsets in gaps.items():
            if of not in self._results and self._previous.get(of) == offsets:
                if self._consumer is None:
                    self._consumer = own(Consumer(self._settings))
                (_, (topic, partition)), (offset, _) = of, offsets
                self._consumer.assign([TopicPartition(topic, partition, offset)])
                self._current = of, offsets
                return

    def _poll(self) -> bool:
        """Poll for the result of the current check. Returns False if there is none yet."""
        assert self._consumer is not None
        assert self._current is not None
        of, offsets = self._current
        message = self._consumer.poll(_POLL_TIMEOUT)
        if message is None:
            return False
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return False
        # if a record is at or after the end, it was written in the meantime
        is_empty = error is not None or (message.offset() or 0) >= offsets[1]
        self._results[of] = _Result(offsets, is_empty)
        self._end_check()
        return True

    def _end_check(self) -> None:
        assert self._consumer is not None
        self._consumer.unassign()
        self._current = None

    def close(self) -> None:
        if self._consumer is not None:
            close(self._consumer)
            self._consumer = None
