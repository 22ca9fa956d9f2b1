"""Rebuilds of views: they read their sources from the start again, into the same view topic.

The view topic keeps its entries meanwhile, so readers always find values. When the view has read
its sources to the end, keys that it has not written since the start of the rebuild are deleted: the
view has no value for them any more. So results of records that have expired in the sources are
lost. Until the old keys are deleted, ``rebuild.json`` in the checkpoint has the end offsets that
the view topic had at the start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import begin_generation, delete_earlier, query_folders
from spark.errors import JobError, summary
from spark.kafka_admin import KafkaAdmin, Topic
from spark.settings import Settings
from spark.sources import static_records
from spark.supervision.static_sources import forget_bounds
from spark.supervision.status import ViewStatus
from spark.view import View

_RETRY_AFTER_S = 60.0


class Rebuilds:
    """The rebuilds of a job's views. Used by the supervisor's thread."""

    def __init__(
        self,
        session: SparkSession,
        admin: KafkaAdmin,
        settings: Settings,
        topics: Mapping[str, Topic],
        log: Callable[[str], None],
    ) -> None:
        self._session = session
        self._admin = admin
        self._settings = settings
        self._topics = topics
        self._log = log
        self._checkpoints = CheckpointFiles(session)
        self._views = {view.name: view for view in settings.views}
        self._deleting_after: dict[str, float] = {}  # view ► epoch s: due once caught up since
        for view in settings.views:
            if self._checkpoints.read(self._file(view)) is not None:
                self._deleting_after[view.name] = time.time()
            else:
                self._warn_of_old_entries(view)
            self._delete_earlier(view)

    def begin(self, name: str) -> None:
        """Gives a new checkpoint to a view that does not run. Raises OSError, PySparkException,
        Py4JError, JobError. After an error, the view must not start before another call has
        succeeded."""
        view = self._views[name]
        ends = self._ends(view)
        expired = self._expired(view)
        checkpoint = self._settings.checkpoint(view)
        folders = begin_generation(self._checkpoints, checkpoint)
        # The new generation reads its static sources as they are now. The old one must not, so its
        # bounds are forgotten only here.
        forget_bounds(self._checkpoints, checkpoint)
        self._checkpoints.replace_json(self._file(view), {"ends": ends[view.topic]})
        self._deleting_after[name] = time.time()
        self._log(f"rebuilding {name}: its new checkpoint is {folders.result}")
        for topic, counts in expired.items():
            self._log(
                f"warning: rebuilding {name}: topic {topic} no longer has its first records "
                f"({counts}), so results that only they have are lost"
            )

    def due(self, statuses: Mapping[str, ViewStatus]) -> Iterator[str]:
        """The rebuilt views that have caught up, for which ``delete_old_keys`` is due."""
        for name, began in list(self._deleting_after.items()):
            if (statuses[name].caught_up_at or 0.0) > began:
                yield name

    def delete_old_keys(self, name: str) -> None:
        """Writes a tombstone for each key that was not written since ``begin``. The view must not
        run: otherwise it may write a value at the same time."""
        view = self._views[name]
        try:
            count = self._delete_old_keys(view)
            self._checkpoints.delete(self._file(view))
        except (PySparkException, Py4JError, OSError, JobError) as error:
            self._deleting_after[name] = time.time() + _RETRY_AFTER_S
            self._log(f"warning: cannot delete the old keys of {name} yet: {summary(str(error))}")
        else:
            del self._deleting_after[name]
            self._log(f"rebuilt {name}: deleted {count} keys that it has no value for any more")
            self._delete_earlier(view)

    def _warn_of_old_entries(self, view: View) -> None:
        """Warns if the checkpoint is new, perhaps because another one was lost, but the topic has
        records."""
        checkpoint = self._settings.checkpoint(view)
        try:
            folders = query_folders(self._checkpoints, checkpoint)
            if self._checkpoints.has_files(f"{folders.result}/offsets"):
                return
            has_records = any(self._ends(view)[view.topic].values())
        except (PySparkException, Py4JError, OSError, JobError) as error:
            why = summary(str(error))
            self._log(f"warning: cannot look for old entries in {view.topic}: {why}")
            return
        if has_records:
            self._log(
                f"warning: the checkpoint of {view.name} is new, and {view.topic} has records. If "
                "they are of a checkpoint that was lost, keys without a value in the sources stay "
                "there, until the view is rebuilt: `queryable pipeline VIEW rebuild`."
            )

    def _delete_earlier(self, view: View) -> None:
        """Deletes earlier checkpoints, to free disk space."""
        try:
            delete_earlier(self._checkpoints, self._settings.checkpoint(view))
        except (PySparkException, Py4JError, OSError, JobError) as error:
            why = summary(str(error))
            self._log(f"warning: cannot delete earlier checkpoints of {view.name}: {why}")

    def _delete_old_keys(self, view: View) -> int:
        began = self._checkpoints.read_json(self._file(view))["ends"]
        until = json.dumps(self._ends(view))
        records = static_records(self._session, view.topic, self._settings.kafka, until)
        # partitions that were added since have no old records
        first_new = F.create_map(
            *chain.from_iterable(
                (F.lit(int(partition)), F.lit(int(end))) for partition, end in began.items()
            )
        )
        is_new = F.col("newest.offset") >= F.coalesce(
            F.try_element_at(first_new, F.col("partition")), F.lit(0)
        )
        newest = F.max(F.struct("offset", F.col("value").isNotNull().alias("has_value")))
        # A key moves if partitions are added: its old record is in another partition than its new
        # record.
        old = (
            records.where("key IS NOT NULL")
            .groupBy("partition", "key")
            .agg(newest.alias("newest"))
            .groupBy("key")
            .agg(
                F.bool_or(is_new).alias("is_new"),
                F.collect_list(F.when(F.col("newest.has_value"), F.col("partition"))).alias("in"),
            )
            .where(~F.col("is_new"))
            .select(
                "key",
                F.lit(None).cast("binary").alias("value"),
                F.explode("in").alias("partition"),
            )
            .persist()
        )
        try:
            count = old.select("key").distinct().count()
            if count:
                options = self._settings.kafka.spark() | {"topic": view.topic}
                old.write.format("kafka").options(**options).save()
            return count
        finally:
            old.unpersist()

    def _ends(self, view: View) -> dict[str, dict[int, int]]:
        """The end offsets of the view topic, by topic and partition."""
        return self._admin.end_offsets({view.topic: self._topics[view.topic].partitions})

    def _expired(self, view: View) -> dict[str, str]:
        """Source topic ► how many of its first records it no longer has, by partition, as text."""
        counts = {topic: self._topics[topic].partitions for topic in view.source_topics}
        starts = self._admin.start_offsets(counts)
        texts = {
            topic: ", ".join(
                f"{start} in partition {partition}"
                for partition, start in sorted(by_partition.items())
                if start
            )
            for topic, by_partition in starts.items()
        }
        return {topic: text for topic, text in texts.items() if text}

    def _file(self, view: View) -> str:
        return f"{self._settings.checkpoint(view)}/rebuild.json"
