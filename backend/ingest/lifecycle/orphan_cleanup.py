"""Deletes stores on disk that are no longer assigned to this instance, after a delay."""

from __future__ import annotations

import logging
from collections.abc import Set

from backend.ingest.protocols import Folder

log = logging.getLogger(__name__)

Unit = tuple[str, int]  # a view's name and a partition of its topic


class OrphanCleanup:
    """The delay saves a rebuild if a partition soon moves back."""

    def __init__(self, folder: Folder, delay: float) -> None:
        """`delay` (s): time between the loss of the assignment and the deletion."""
        self._folder = folder
        self._delay = delay
        self._since: dict[Unit, float] = {}

    def clean_up(self, wanted: Set[Unit], now: float) -> None:
        """Delete stores that were not in `wanted` for the delay; `now`: monotonic, s."""
        unwanted = {
            (view, partition)
            for view, partitions in self._folder.on_disk().items()
            for partition in partitions
        } - wanted
        self._since = {unit: self._since.get(unit, now) for unit in unwanted}
        for unit, since in self._since.items():
            if now - since >= self._delay:
                log.info("view %s, partition %d: deleting the store, no longer assigned", *unit)
                self._folder.delete(*unit)
