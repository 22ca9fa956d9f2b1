"""When the views had the whole logs of their sources, up to the high watermarks.

While a transaction is open, Spark reads up to its beginning, and finds nothing more: by its own
account it has read everything, although records after it are committed (``model.progress``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from model.progress import Progress
from spark.kafka_admin import EndOffsets
from spark.supervision.status import Offsets
from spark.view import View

_INTERVAL = 10.0  # s between two requests for the high watermarks

HighWatermarks = Callable[[Mapping[str, int]], Callable[[], EndOffsets]]
"""Asks for topic ► partition ► high watermark, and returns a function that returns the answers so
far. Neither of the two waits. The argument: topic ► number of partitions. Both raise Py4JError."""


class WholeLogs:
    """The progress of the views in the partitions of their streams. Only one thread uses it."""

    def __init__(self, views: Iterable[View], high_watermarks: HighWatermarks) -> None:
        self._topics = {view.name: [each.topic for each in view.streams] for view in views}
        self._high_watermarks = high_watermarks
        self._progress: dict[str, dict[tuple[str, int], Progress]] = {}  # by view
        self._answer: Callable[[], EndOffsets] | None = None  # to the last request, until complete
        self._asked_at = 0.0  # epoch s
        self._ask_after = float("-inf")  # s, monotonic
        self._has_new = False  # whether there is a partition that was not asked for

    def update(self, offsets: Mapping[str, Offsets]) -> None:
        """Notes how far the views have read, by view. Asks for the high watermarks every 10 s, and
        if there is a new partition; the answer counts at one of the next calls, which do not wait
        for it. Raises OSError if the brokers do not have all watermarks, and the errors of
        ``HighWatermarks``."""
        for view, of_view in offsets.items():
            self._applied(view, of_view)
        error = self._look()
        if self._has_new or (self._answer is None and time.monotonic() >= self._ask_after):
            self._ask()
        if error is not None:
            raise OSError(error)

    def _ask(self) -> None:
        counts: dict[str, int] = {}
        for topic, partition in self._partitions():
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        self._has_new, self._answer = False, None
        self._asked_at, self._ask_after = time.time(), time.monotonic() + _INTERVAL
        if counts:
            self._answer = self._high_watermarks(counts)

    def _look(self) -> str | None:
        """Notes the answers so far. When the request is complete, returns its error, if it has
        one."""
        if self._answer is None:
            return None
        answer = self._answer()
        for of_view in self._progress.values():
            for (topic, partition), progress in of_view.items():
                high = answer.found.get(topic, {}).get(partition)
                if high is not None:
                    progress.end_fetched(high, self._asked_at)
        if not answer.is_all:
            return None
        self._answer = None
        if answer.error is not None:
            self._ask_after = time.monotonic() + _INTERVAL
        return answer.error

    def _partitions(self) -> set[tuple[str, int]]:
        return {each for of_view in self._progress.values() for each in of_view}

    def had_all_at(self, view: str) -> float | None:
        """The moment (epoch s) up to which the view has read the whole logs; None if there is none
        yet."""
        times = [each.caught_up_at for each in self._progress.get(view, {}).values()]
        known = [at for at in times if at is not None]
        return min(known) if times and len(known) == len(times) else None

    def _applied(self, view: str, offsets: Offsets) -> None:
        before = self._progress.get(view, {})
        now: dict[tuple[str, int], Progress] = {}
        for topic in self._topics[view]:
            for partition, offset in offsets.get(topic, {}).items():
                of_partition = before.get((topic, int(partition)))
                if of_partition is None or offset < of_partition.position:  # it was rebuilt
                    of_partition = Progress(offset, 0, answerable=True)
                    self._has_new = True
                of_partition.applied(offset)
                now[topic, int(partition)] = of_partition
        self._progress[view] = now
