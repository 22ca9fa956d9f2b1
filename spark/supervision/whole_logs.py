"""When the views had the whole logs of their sources, up to the high watermarks.

While a transaction is open, Spark reads up to its beginning, and finds no more records. It reports
that it has read all records, although later records are committed (``model.progress``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from model.progress import Progress
from spark.checkpoints.positions import Positions
from spark.kafka_admin import EndOffsets
from spark.view import View

_INTERVAL_S = 10.0  # between two requests for the high watermarks

HighWatermarks = Callable[[Mapping[str, int]], Callable[[], EndOffsets]]
"""Asks for topic ► partition ► high watermark, and returns a function that returns the answers so
far. The argument: topic ► number of partitions. Neither function waits. Both raise Py4JError."""


class WholeLogs:
    """The progress of the views in the partitions of their streams. Only one thread uses it."""

    def __init__(self, views: Iterable[View], high_watermarks: HighWatermarks) -> None:
        self._topics = {view.name: [source.topic for source in view.streams] for view in views}
        self._high_watermarks = high_watermarks
        self._progress: dict[str, dict[tuple[str, int], Progress]] = {}  # by view
        self._answer: Callable[[], EndOffsets] | None = None  # to the last request, until complete
        self._asked_at = 0.0  # epoch s
        self._ask_after = float("-inf")  # s, monotonic
        self._has_new = False  # whether there is a partition that was not asked for

    def update(self, positions: Mapping[str, Positions]) -> None:
        """Notes how far the views have read, by view. Asks for the high watermarks every 10 s, and
        if there is a new partition. Does not wait for the answer; a later call takes it. Raises
        OSError if the brokers do not have all watermarks, and the errors of ``HighWatermarks``."""
        for view, view_positions in positions.items():
            self._applied(view, view_positions)
        error = self._take_answer()
        if self._has_new or (self._answer is None and time.monotonic() >= self._ask_after):
            self._ask()
        if error is not None:
            raise OSError(error)

    def _ask(self) -> None:
        counts: dict[str, int] = {}
        for topic, partition in self._partitions():
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        self._has_new, self._answer = False, None
        self._asked_at, self._ask_after = time.time(), time.monotonic() + _INTERVAL_S
        if counts:
            self._answer = self._high_watermarks(counts)

    def _take_answer(self) -> str | None:
        """Notes the answers so far. Returns the error of a request that is complete and has
        failed."""
        if self._answer is None:
            return None
        answer = self._answer()
        for by_partition in self._progress.values():
            for (topic, partition), progress in by_partition.items():
                high = answer.offsets.get(topic, {}).get(partition)
                if high is not None:
                    progress.end_fetched(high, self._asked_at)
        if not answer.is_complete:
            return None
        self._answer = None
        if answer.error is not None:
            self._ask_after = time.monotonic() + _INTERVAL_S
        return answer.error

    def _partitions(self) -> set[tuple[str, int]]:
        return {partition for by_partition in self._progress.values() for partition in by_partition}

    def had_all_at(self, view: str) -> float | None:
        """The moment (epoch s) up to which the view has read the whole logs; None if there is none
        yet."""
        times = [progress.caught_up_at for progress in self._progress.get(view, {}).values()]
        known_times = [at for at in times if at is not None]
        return min(known_times) if times and len(known_times) == len(times) else None

    def _applied(self, view: str, positions: Positions) -> None:
        before = self._progress.get(view, {})
        now: dict[tuple[str, int], Progress] = {}
        for topic in self._topics[view]:
            for partition, offset in positions.get(topic, {}).items():
                progress = before.get((topic, partition))
                if progress is None or offset < progress.position:  # it was rebuilt
                    progress = Progress(offset, 0, answerable=True)
                    self._has_new = True
                progress.applied(offset)
                now[topic, partition] = progress
        self._progress[view] = now
