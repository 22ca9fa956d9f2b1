"""Deletes stores on disk that are no longer assigned to this instance, after a delay."""

from __future__ import annotations

import logging
from collections.abc import Set

from backend.ingest.protocols import StoreDirectory
from backend.ingest.store_partitions import StorePartitionId

log = logging.getLogger(__name__)


class OrphanCleanup:
    """Deletes unassigned stores. The delay saves a rebuild if a partition soon moves back."""

    def __init__(self, directory: StoreDirectory, delay: float) -> None:
        """`delay` (s): time between the loss of the assignment and the deletion."""
        self._directory = directory
        self._delay = delay
        self._unassigned_since: dict[StorePartitionId, float] = {}

    def clean_up(self, assigned: Set[StorePartitionId], kept: Set[str], now: float) -> None:
        """Delete stores that have been unassigned for the delay. `kept`: views whose stores are not
        deleted. `now`: monotonic, s."""
        unassigned = {
            (view, partition)
            for view, partitions in self._directory.on_disk().items()
            if view not in kept
            for partition in partitions
        } - assigned
        self._unassigned_since = {
            partition_id: self._unassigned_since.get(partition_id, now)
            for partition_id in unassigned
        }
        for partition_id, since in self._unassigned_since.items():
            if now - since >= self._delay:
                log.info(
                    "view %s, partition %d: deleting the store, no longer assigned", *partition_id
                )
                self._directory.delete(*partition_id)

    def delete_at_once(self, views: Set[str]) -> None:
        """Delete the stores of these views, which are not open."""
        for view, partitions in self._directory.on_disk().items():
            for partition in partitions if view in views else ():
                log.info("view %s, partition %d: deleting the store, dropped", view, partition)
                self._directory.delete(view, partition)
