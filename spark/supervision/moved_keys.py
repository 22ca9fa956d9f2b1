"""Warns of keys that have moved: their topic has more partitions than when the view began.

Views of tables, and joins without ``newest``, compare the records of a key by partition and offset.
That is their order in the log only while all of them are in one partition. A key that has moved to
a partition with a smaller number keeps its old row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.formats.decoders import is_table
from spark.kafka_admin import Topic
from spark.settings import Settings
from spark.view import View

_FILE = "partitions.json"
"""In a view's checkpoint folder: the numbers of partitions of its sources at its first start."""


class MovedKeys:
    """The numbers of partitions of the sources when the views began."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        topics: Mapping[str, Topic],
        log: Callable[[str], None],
    ) -> None:
        """Stores those of new views. Raises as ``CheckpointFiles``."""
        self._log = log
        files = CheckpointFiles(session)
        self._first: dict[str, dict[str, int]] = {}  # view ► topic ► number
        for view in filter(_compares, settings.views):
            path = f"{settings.checkpoint(view)}/{_FILE}"
            before = files.read_json(path) or {}
            now = {source.topic: topics[source.topic].partitions for source in view.streams}
            self._first[view.name] = first = {**now, **before}
            if first != before:
                files.replace_json(path, first)
        self._warned: set[tuple[str, str, int]] = set()
        self.check(topics)

    def check(self, topics: Mapping[str, Topic]) -> None:
        """Warns if topics have more partitions than at first; once for each number."""
        for name, first in self._first.items():
            for topic, before in first.items():
                now = topics[topic].partitions if topic in topics else before
                if now > before and (name, topic, now) not in self._warned:
                    self._warned.add((name, topic, now))
                    self._log(
                        f"warning: {name}: topic {topic} had {before} partitions when the view "
                        f"began, and now has {now}, so keys have moved. The view may keep old "
                        "rows of them, also after a rebuild. Write its entries to a new topic, and "
                        "add a version of the view that reads that: see "
                        "docs/changes-to-a-deployment.md."
                    )


def _compares(view: View) -> bool:
    """Whether the view may compare records of a key: it reads a table, or has a join."""
    return len(view.streams) > 1 or any(is_table(source.decoder) for source in view.streams)
