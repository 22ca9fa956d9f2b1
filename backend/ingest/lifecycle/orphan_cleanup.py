"""Store partitions on disk that are held elsewhere: kept for a while, then deleted."""

from __future__ import annotations

import logging
from collections.abc import Set

from backend.ingest.protocols import Folder

log = logging.getLogger(__name__)

Unit = tuple[str, int]  # a view's name and a partition of its topic


class OrphanCleanup:
    """A partition that moved away may well come back."""

    def __init__(self, folder: Folder, delay: float) -> None:
        """`delay` (s): how long they are kept."""
        self._folder = folder
        self._delay = delay
        self._since: dict[Unit, float] = {}

    def clean_up(self, wanted: Set[Unit], now: float) -> None:
        """Delete what has not been wanted for the delay; `now` is of a monotonic clock, s."""
        unwanted = {
            (view, partition)
            for view, partitions in self._folder.held().items()
            for partition in partitions
        } - wanted
        self._since = {unit: self._since.get(unit, now) for unit in unwanted}
        for unit, since in self._since.items():
            if now - since >= self._delay:
                log.info("view %s, partition %d is deleted: it is held elsewhere", *unit)
                self._folder.delete(*unit)
