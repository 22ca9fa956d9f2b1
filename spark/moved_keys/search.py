"""Searches the records of topics for moved keys, in a thread: it may take as long as a load."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from spark.errors import summary
from spark.moved_keys.records import moved_keys

_JOIN_TIMEOUT_S = 10.0


class Search:
    """A search that has begun. ``moved_topics``: the topics with moved keys. None if there is no
    result; then ``error`` says why."""

    def __init__(self, session: SparkSession, records: Callable[[], dict[str, DataFrame]]) -> None:
        """``records`` returns topic ► its records. The thread calls it."""
        self.moved_topics: list[str] | None = None
        self.error = "it has not ended"
        self._session = session
        self._records = records
        self._group = f"moved-keys-{uuid.uuid4()}"
        self._thread = threading.Thread(target=self._run, name="moved-keys", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join()

    def stop(self) -> None:
        with suppress(Py4JError, OSError):
            self._session.sparkContext.cancelJobGroup(self._group)
        self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            context = self._session.sparkContext
            context.setJobGroup(self._group, "looks for moved keys")
            # Micro-batches have another pool, so they need not wait for all tasks of the search.
            context.setLocalProperty("spark.scheduler.pool", "moved-keys")
            self.moved_topics = [
                topic
                for topic, records in self._records().items()
                if not moved_keys(records).isEmpty()
            ]
        except Exception as error:  # the thread has no caller
            self.error = summary(str(error))
