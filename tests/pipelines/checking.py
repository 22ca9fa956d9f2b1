"""After the run: each view topic is compared with the batch job's, and with plain Python's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from local.errors import LocalError, tail
from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.processes import end, spawn
from local.settings import REPOSITORY
from model.dead_letters import SUFFIX
from spark.view import View
from tests.pipelines import reference
from tests.pipelines.batch import BATCH_SUFFIX
from tests.pipelines.comparison import compacted, differences, went_back
from tests.pipelines.raw_records import PARTITIONS
from tests.pipelines.result import Result
from tests.support.topics import Log, history

_BATCH_TIMEOUT = 600.0  # s


class Check:
    """Reads each topic once."""

    def __init__(self, servers: str, views: Sequence[View], folder: Path) -> None:
        self._servers = servers
        self._views = views
        self._log = folder / "batch.log"
        self._read = cache(lambda topic, partitions: history(servers, topic, partitions))

    def run_batch(self) -> None:
        """Writes the topics of the batch job; LocalError if it fails."""
        topics = [Topic(v.topic + BATCH_SUFFIX, v.partitions) for v in self._views]
        for source in sorted({topic for view in self._views for topic in view.source_topics}):
            topics.append(Topic(source + SUFFIX + BATCH_SUFFIX, 1))
        create_topics(quiet_admin(self._servers), topics)
        names = [view.name for view in self._views]
        command = [sys.executable, "-m", "tests.pipelines.batch", self._servers, *names]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        process = spawn(command, self._log, env=environment, cwd=self._log.parent)
        try:
            status = process.wait(_BATCH_TIMEOUT)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(process, 5)
        if status != 0:
            raise LocalError(f"the batch job failed:\n{tail(self._log.read_text(), 30)}")

    def fill(self, result: Result, view: View) -> None:
        """Compares everything that belongs to a view."""
        raw = {topic: self._records(topic) for topic in view.source_topics}
        result.records = sum(map(len, raw.values()))
        result.tombstones = sum(each.value is None for of in raw.values() for each in of)
        written = self._read(view.topic, view.partitions)
        found = compacted(written)
        result.rows = len(found)
        batch = compacted(self._read(view.topic + BATCH_SUFFIX, view.partitions))
        against_batch = differences(found, batch)
        result.equal = not against_batch
        if against_batch:
            result.errors.append(f"not the batch job's: {against_batch}")
        if view.name in reference.REFERENCES:
            expected = reference.table(view.name, raw, view.partitions)
            if other := differences(found, expected):
                result.errors.append(f"not plain Python's: {other}")
        if view.name in reference.RANKS:
            back = went_back(written, reference.RANKS[view.name])
            result.errors += [f"{len(back)} values went back: {back[0]}"] if back else []
        for topic, records in raw.items():
            self._fill_dead_letters(result, topic, records)

    def _fill_dead_letters(
        self, result: Result, source: str, raw: Sequence[reference.Record]
    ) -> None:
        topic = source + SUFFIX
        found = _letters(self._read(topic, 1))
        batch = _letters(self._read(topic + BATCH_SUFFIX, 1))
        expected = reference.rejected(source, raw)
        result.malformed += len(expected)
        if source == "weblog":
            result.late_rows = sum(map(reference.is_too_late, raw))
        for what, wanted in (("the batch job's", batch), ("plain Python's", expected)):
            if found != wanted:
                other = sorted(
                    key.decode()
                    for key in found.keys() | wanted.keys()
                    if found.get(key, b"missing") != wanted.get(key, b"missing")
                )
                result.errors.append(
                    f"{len(other)} dead letters are not {what}, such as {', '.join(other[:3])}"
                )

    def _records(self, source: str) -> list[reference.Record]:
        return reference.records_of(self._read(source, PARTITIONS))


def _letters(logs: Sequence[Log]) -> Mapping[bytes, bytes | None]:
    """By key. A dead letter of a tombstone has no value, but is not a deletion here."""
    return {key: value for log in logs for _, _, key, value in log.records}
