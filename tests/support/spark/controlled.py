"""A job whose view gets commands."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kafka.errors import RetriableError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from backend.pipelines.commands import CommandSender
from backend.pipelines.consumer_groups import ConsumerGroups
from local.waiting import wait_until
from model.pipelines.commands import PipelineCommand
from model.pipelines.status import Heartbeat, parse_heartbeat
from spark.formats.decoders import JsonDecoder
from spark.raw_topics.texts import TEXTS
from spark.tables import mapped
from spark.view import Source, View
from spark.views.word_count import word_count
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.runner import Runner


class ControlledRunner(Runner):
    """A job whose view gets commands."""

    def __init__(self, session: SparkSession, servers: str, make: MakeTopic, folder: Path) -> None:
        super().__init__(session, servers, make, folder)
        prefix = f"{uuid.uuid4().hex}-"
        self.settings = replace(self.settings, group_prefix=prefix)
        self._group = f"{prefix}{self.view.name}"
        of_kafka_python = {"bootstrap_servers": servers}
        self._sender = CommandSender(of_kafka_python, 10)
        self._groups = ConsumerGroups(of_kafka_python, 10)
        wait_until(self._has_coordinator, 60, "the coordinator of groups, which a new broker lacks")

    def _has_coordinator(self) -> bool:
        try:
            self.heartbeat()
        except RetriableError:
            return False
        return True

    def heartbeat(self) -> Heartbeat | None:
        committed = self._groups.committed([self._group])[self._group].values()
        return next(filter(None, (parse_heartbeat(each.metadata) for each in committed)), None)

    def reports(self, **least: float) -> Callable[[], bool]:
        def reported() -> bool:
            heartbeat = self.heartbeat()
            stats = {} if heartbeat is None else heartbeat.stats
            return all(stats.get(name, -1) >= number for name, number in least.items())

        return reported

    def begin(self, action: str) -> PipelineCommand:
        return self._sender.send(self._group, self.view.topic, action)

    def send(self, action: str) -> None:
        """Returns when the command is carried out."""
        sent = self.begin(action)

        def is_done() -> bool:
            heartbeat = self.heartbeat()
            return heartbeat is not None and heartbeat.command == sent.id

        wait_until(is_done, 60, f"{action} to be carried out")

    def wait_state(self, state: str, never: str = "") -> None:
        def has_state() -> bool:
            heartbeat = self.heartbeat()
            assert heartbeat is None or heartbeat.state != never
            return heartbeat is not None and heartbeat.state == state

        wait_until(has_state, 60, f"the state {state}")

    def wait_rebuilt(self) -> None:
        marker = Path(self.settings.checkpoint(self.view)) / "rebuild.json"
        wait_until(lambda: not marker.exists(), 60, "the end of the rebuild")

    def close(self) -> None:
        self._groups.close()

    def wait_counts(self, **counts: int) -> None:
        wait_until(lambda: self.counts() == counts, 60, f"the counts {counts}")


def of_known_texts(view: View, known: str) -> View:
    """A view of only those texts that are also in the topic `known`, a static source."""
    return replace(
        view,
        source="",
        decoder=None,
        sources=(Source(view.source, TEXTS), Source(known, TEXTS, static=True)),
        derive=lambda texts, known: word_count(texts.join(known.select("text"), "text")),
    )


def of_table(view: View) -> View:
    """A view with the rows of its source."""
    decoder = JsonDecoder(StructType([StructField("n", LongType())]), is_table=True)
    return replace(
        view, decoder=decoder, derive=lambda rows: mapped(rows, F.to_json(F.struct("n")))
    )
