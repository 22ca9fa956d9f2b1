"""When the views had the whole logs of their sources, up to the high watermarks.

While a transaction is open, Spark reads up to its beginning, and finds nothing more: by its own
account it has read everything, although records after it are committed (``model.progress``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from model.progress import Progress
from spark.supervision.status import Offsets
from spark.view import View

_INTERVAL = 10.0  # s between two requests for the high watermarks

HighWatermarks = Callable[[Mapping[str, int]], Mapping[str, Mapping[int, int]]]
"""Topic ► number of partitions ⇒ topic ► partition ► high watermark. Raises OSError, Py4JError."""


class WholeLogs:
    """The progress of the views in the partitions of their streams. Only one thread uses it."""

    def __init__(self, views: Iterable[View], high_watermarks: HighWatermarks) -> None:
        self._topics = {view.name: [each.topic for each in view.streams] for view in views}
        self._high_watermarks = high_watermarks
        self._progress: dict[str, dict[tuple[str, int], Progress]] = {}  # by view
        self._asked_at = float("-inf")  # s, monotonic

    def update(self, offsets: Mapping[str, Offsets]) -> None:
        """Notes how far the views have read, by view. Asks for the high watermarks every 10 s, and
        if there is a new partition. Raises as ``HighWatermarks``."""
        for view, of_view in offsets.items():
            self._applied(view, of_view)
        partitions = [each for of_view in self._progress.values() for each in of_view.items()]
        is_due = time.monotonic() - self._asked_at >= _INTERVAL
        if not is_due and all(progress.end is not None for _, progress in partitions):
            return
        self._asked_at, at = time.monotonic(), time.time()
        counts: dict[str, int] = {}
        for (topic, partition), _ in partitions:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        found = self._high_watermarks(counts) if counts else {}
        for (topic, partition), progress in partitions:
            if (high := found.get(topic, {}).get(partition)) is not None:
                progress.end_fetched(high, at)

    def had_all_at(self, view: str) -> float | None:
        """The moment whose whole logs the view has read (epoch s); None if it has none yet."""
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
                of_partition.applied(offset)
                now[topic, int(partition)] = of_partition
        self._progress[view] = now
