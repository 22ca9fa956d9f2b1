"""Refuses to continue a view of a table that may have missed tombstones.

Compaction removes a tombstone ``delete.retention.ms`` after it has cleaned the records before it.
A job that was behind for longer may never see it, and its view would keep the row forever. So the
checkpoint has the time when the view had last read all records.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.errors import missed_tombstones
from spark.formats.decoders import is_table
from spark.kafka_admin import KafkaAdmin
from spark.settings import Settings
from spark.supervision.status import STOPPED, ViewStatus
from spark.view import View

_INTERVAL = 60.0  # s between two writes


class TombstoneGuard:
    """Checks the views of tables at the start, and stores when they were current."""

    def __init__(self, session: SparkSession, admin: KafkaAdmin, settings: Settings) -> None:
        """Raises ``JobError`` if a view may have missed tombstones."""
        self._checkpoints = CheckpointFiles(session)
        self._is_once = settings.once
        self._started_at = time.time()
        self._files: dict[str, str] = {}  # by view
        self._stored: dict[str, float] = {}
        for view in settings.views:
            tables = [each.topic for each in view.streams if is_table(each.decoder)]
            if tables:
                self._files[view.name] = f"{settings.checkpoint(view)}/tables.json"
                self._check(view, tables, admin, settings.checkpoint(view))

    def keep(self, statuses: Mapping[str, ViewStatus], *, is_last: bool = False) -> None:
        """Stores the times at which the views were current, at most once a minute each."""
        for name in self._files:
            status = statuses[name]
            current_at = status.caught_up_at
            if self._is_once and status.state == STOPPED and status.error is None:
                current_at = max(current_at or 0.0, self._started_at)
            step = 0.0 if is_last else _INTERVAL
            if current_at is not None and current_at > self._stored[name] + step:
                self._store(name, current_at)

    def begin(self, name: str) -> None:
        """The view reads its sources from their start, from now on."""
        if name in self._files:
            self._store(name, time.time())

    def _check(self, view: View, tables: list[str], admin: KafkaAdmin, checkpoint: str) -> None:
        found = self._checkpoints.read_json(self._files[view.name])
        if found is None:
            # It reads the topics from their start, from now on.
            self._store(view.name, self._started_at)
            return
        self._stored[view.name] = current_at = found["current_at"] / 1000
        for topic in tables:
            retention = admin.config(topic, "delete.retention.ms")
            policy = admin.config(topic, "cleanup.policy") or ""
            behind = self._started_at - current_at
            if retention and "compact" in policy and behind > int(retention) / 1000:
                raise missed_tombstones(view.name, topic, behind, int(retention) / 1000, checkpoint)

    def _store(self, name: str, current_at: float) -> None:
        self._checkpoints.replace_json(self._files[name], {"current_at": round(current_at * 1000)})
        self._stored[name] = current_at
