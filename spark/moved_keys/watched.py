"""The state of the search for moved keys of one view, and when the next search is due. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from spark.checkpoints.positions import Positions
from spark.moved_keys.dependence import Dependence
from spark.moved_keys.marks import Mark
from spark.moved_keys.search import Search
from spark.view import View

Counts = dict[str, int]
"""Topic ► number of partitions."""


class SearchReason(Enum):
    """Why the job searches for moved keys. ``LOADED``: the view has been loaded. ``GROWN``: a topic
    has got more partitions. ``AGAIN``: all producers know them now."""

    LOADED = "loaded"
    GROWN = "grown"
    AGAIN = "again"


@dataclass(slots=True)
class WatchedView:
    """The state of one view.

    ``counts``: the current counts of its sources. ``dependence``: None if it is not known yet.
    ``first_counts``: the counts when the view began, if its state may compare records by partition.
    ``positions``: its positions at the last check of the topics. ``current_at``: when the view had
    last caught up and no key could have an older value. ``reason``, ``ends``, ``begun_at`` and
    ``searched_counts`` describe the current search: why it runs, the positions up to which it
    reads, when the view had read all records before them (epoch s), and the counts then.
    ``has_moved``: the search has found keys that must be written again.
    """

    view: View
    counts: Counts
    mark: Mark | None = None
    dependence: Dependence | None = None
    first_counts: Counts = field(default_factory=dict)
    positions: Positions = field(default_factory=dict)
    current_at: float | None = None
    reason: SearchReason | None = None
    ends: Positions = field(default_factory=dict)
    begun_at: float | None = None
    searched_counts: Counts = field(default_factory=dict)
    search: Search | None = None
    has_moved: bool = False
    grown_at: float = field(default_factory=time.time)
    has_searched: bool = False  # since the topic has grown
    marked_at: float = float("-inf")  # monotonic s
    not_before: float = float("-inf")  # monotonic s

    def is_unsure(self, offsets: Positions) -> bool:
        """Whether moved keys may have older values. ``offsets``: the view's current offsets, which
        may include partitions that the job has not noticed yet."""
        if self.mark is None:
            return max(self.counts.values()) > 1
        read = {topic: len(by_partition) for topic, by_partition in offsets.items()}
        return bool(self.mark.growing) or self.grown(read)

    @property
    def is_settled(self) -> bool:
        """Whether the next search is due only when partitions are added."""
        mark = self.mark
        return mark is not None and not mark.growing and mark.again_at is None

    def grown(self, counts: Counts) -> bool:
        """Whether topics have got more partitions than the job knows."""
        if self.mark is None or self.mark.dependence is not Dependence.WRITES:
            return False
        known_counts: Mapping[str, int] = self.mark.growing or self.mark.partitions
        return any(count > known_counts.get(topic, 0) for topic, count in counts.items())

    def next_reason(self, caught_up_at: float | None, now: float) -> SearchReason | None:
        """Why a search is due, or None. ``caught_up_at``: when the view had last read all records
        (epoch s). An earlier search would miss keys."""
        if caught_up_at is None:
            return None
        mark = self.mark
        if mark is None:
            return SearchReason.LOADED
        if mark.again_at is not None and mark.again_at <= min(now, caught_up_at):
            return SearchReason.AGAIN
        if mark.growing and not self.has_searched and caught_up_at > self.grown_at:
            return SearchReason.GROWN
        return None

    def forget(self) -> None:
        """Call when the view will read its topics from the start again."""
        self.stop_search()
        self.mark = self.reason = None
        self.has_moved = False

    def stop_search(self) -> None:
        if self.search is not None:
            self.search.stop()
            self.search = None
