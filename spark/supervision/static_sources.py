"""Static sources: topics that a view reads between two offsets that never change.

Spark would read such a table again in each micro-batch, and apply its changes only to records that
arrive later. The view would depend on the order of reading. So the offsets at the first start are
stored in the checkpoint. A view is stopped if its static source has changed since then: if it has
got records, or has lost some because they expired or were deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.positions import Positions, positions_of
from spark.errors import JobError, Unavailable
from spark.kafka_admin import KafkaAdmin, Topic
from spark.settings import Settings
from spark.view import View

_ENDS, _STARTS = "static-sources.json", "static-sources-starts.json"
"""Files in a view's checkpoint folder."""


def forget_bounds(files: CheckpointFiles, folder: str) -> None:
    """Deletes the bounds in a view's checkpoint folder, so that its next start reads the topics as
    they are then."""
    for name in (_ENDS, _STARTS):
        files.delete(f"{folder}/{name}")


class Bounds(NamedTuple):
    """The first offsets and the end offsets of topics."""

    starts: Positions
    ends: Positions


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
        self._bounds: dict[str, Bounds] = {}  # by view

    def ending_offsets(self, view: View) -> dict[str, str]:
        """Topic ► the offsets up to which the view reads it, in Spark's format. Raises ``JobError``
        if the topic has changed. Raises ``Unavailable`` if its offsets are needed and cannot be
        read."""
        topics = self._partitions[view.name]
        if not topics:
            return {}
        bounds = self._bounds[view.name] = self._stored(view)
        if (why := self._change(view, bounds)) is not None:
            raise JobError(why)
        return {topic: json.dumps({topic: ends}) for topic, ends in bounds.ends.items()}

    def changed(self, views: Iterable[View]) -> dict[str, str]:
        """The views whose static sources have changed since their start ► the reason. A view is
        returned once for each start, because it may be slow to stop."""
        reasons = {
            view.name: self._change(view, self._bounds[view.name])
            for view in views
            if view.name in self._bounds
        }
        changed = {name: why for name, why in reasons.items() if why is not None}
        for name in changed:
            del self._bounds[name]
        return changed

    def _stored(self, view: View) -> Bounds:
        folder = self._settings.checkpoint(view)
        partitions = self._partitions[view.name]

        def stored(name: str, now: Callable[[Mapping[str, int]], Positions]) -> Positions:
            files = CheckpointFiles(self._session)
            document = files.read_json(f"{folder}/{name}")
            if document is None:
                try:
                    document = now(partitions)
                except OSError as error:
                    topics = ", ".join(partitions)
                    raise Unavailable(f"the offsets of {topics} cannot be read: {error}") from error
                files.replace_json(f"{folder}/{name}", document)
            return positions_of(document)

        # Checkpoints of earlier releases have only the ends.
        ends = stored(_ENDS, self._admin.end_offsets)
        return Bounds(stored(_STARTS, self._admin.start_offsets), ends)

    def _change(self, view: View, bounds: Bounds) -> str | None:
        partitions = self._partitions[view.name]
        try:
            starts = self._admin.start_offsets(partitions)
            ends = self._admin.end_offsets(partitions)
        except (OSError, Py4JError):
            return None  # the brokers are unreachable, maybe for a moment
        for topic in partitions:
            if ends[topic] != bounds.ends.get(topic):
                return self._explained(view, topic, "has changed")
            if starts[topic] != bounds.starts.get(topic):
                return self._explained(view, topic, "has lost records")
        return None

    def _explained(self, view: View, topic: str, what: str) -> str:
        return (
            f"the static source {topic} {what} since {view.name} was first started, so "
            f"its results would depend on when they were computed. To rebuild it from what the "
            f"topic has now: queryable pipeline {view.name} rebuild, if the job runs. Otherwise "
            f"delete and recreate {view.topic}, delete {self._settings.checkpoint(view)}, and "
            f"start again. To follow the changes of the topic, omit static, in a view of Python "
            "with spark.joins."
        )
