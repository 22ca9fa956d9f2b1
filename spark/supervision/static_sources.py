"""Static sources: topics that a view reads up to offsets that never change.

Spark would read such a table again in each micro-batch, and apply its changes only to records that
arrive later: the view would depend on when they were read. So the end offsets at the first start
are stored in the checkpoint, and a view whose static source has changed since then is stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.errors import JobError
from spark.kafka_admin import KafkaAdmin, Topic
from spark.settings import Settings
from spark.view import View

Ends = dict[str, dict[int, int]]
"""Topic ► partition ► end offset."""


class StaticSources:
    """The static sources of all views of a job."""

    def __init__(
        self,
        session: SparkSession,
        admin: KafkaAdmin,
        settings: Settings,
        topics: Mapping[str, Topic],
    ) -> None:
        self._session = session
        self._admin = admin
        self._settings = settings
        self._partitions = {
            view.name: {
                source.topic: topics[source.topic].partitions
                for source in view.inputs
                if source.static
            }
            for view in settings.views
        }
        self._ends: dict[str, Ends] = {}

    def ending_offsets(self, view: View) -> dict[str, str]:
        """Topic ► the offsets up to which the view reads it, in Spark's format. ``JobError`` if the
        topic has changed."""
        topics = self._partitions[view.name]
        if not topics:
            return {}
        ends = self._stored(view)
        if (why := self._change(view, ends)) is not None:
            raise JobError(why)
        return {
            topic: json.dumps({topic: {str(each): end for each, end in of_topic.items()}})
            for topic, of_topic in ends.items()
        }

    def changed(self, views: Iterable[View]) -> dict[str, str]:
        """The views whose static sources have changed since they were started ► the reason."""
        reasons = {
            view.name: self._change(view, self._ends[view.name])
            for view in views
            if view.name in self._ends
        }
        return {name: why for name, why in reasons.items() if why is not None}

    def _stored(self, view: View) -> Ends:
        path = f"{self._settings.checkpoint(view)}/static-sources.json"
        files = CheckpointFiles(self._session)
        stored = files.read_json(path)
        if stored is None:
            stored = self._admin.end_offsets(self._partitions[view.name])
            files.replace_json(path, stored)
        ends = {
            topic: {int(partition): int(end) for partition, end in of_topic.items()}
            for topic, of_topic in stored.items()
        }
        self._ends[view.name] = ends
        return ends

    def _change(self, view: View, ends: Ends) -> str | None:
        try:
            now = self._admin.end_offsets(self._partitions[view.name])
        except (OSError, Py4JError):
            return None  # the brokers are unreachable, maybe for a moment
        changed = [topic for topic, found in now.items() if found != ends.get(topic)]
        if not changed:
            return None
        return (
            f"the static source {changed[0]} has changed since {view.name} was first started, so "
            f"its results would depend on when they were computed. To rebuild it from what the "
            f"topic has now, delete and recreate {view.topic}, delete "
            f"{self._settings.checkpoint(view)}, and start again. To follow the changes of the "
            "topic, make it a stream and use spark.joins."
        )
