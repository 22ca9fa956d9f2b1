"""Writes an archive of classes that halves the start of the broker's JVM: ``python -m
local.kafka.archive``.

The JVM maps the classes from it, instead of loading and verifying them (class data sharing, JEP
350). If the archive does not match (another JDK, other jars), the JVM ignores it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer

from local.kafka.broker import Broker
from local.kafka.broker_config import ARCHIVE
from local.kafka.connection import admin_of, quiet
from local.kafka.topics import Topic, create_topics
from model.kafka.clients import closing

_END_S = 120.0  # for the JVM to end, because it writes the archive then


class _RecordedBroker(Broker):
    """A broker whose JVM writes the classes that it has loaded to ``file``."""

    def __init__(self, data_dir: Path, file: Path) -> None:
        super().__init__(data_dir)
        self._file = file

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        java, *rest = super()._java(main_class, *arguments)
        if main_class != "kafka.Kafka":
            return [java, *rest]
        return [java, f"-XX:ArchiveClassesAtExit={self._file}", "-Xlog:disable", *rest]


def main() -> None:
    """Writes the archive, 50 MB, into the virtual environment; takes some 10 s."""
    argparse.ArgumentParser(
        prog="python -m local.kafka.archive",
        description=f"Writes {ARCHIVE}, from which the broker's JVM starts twice as fast. This "
        "takes some 10 s, and 50 MB.",
    ).parse_args()
    # the broker would map the old archive, and a JVM that maps an archive cannot write one
    ARCHIVE.unlink(missing_ok=True)
    temporary = ARCHIVE.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        broker = _RecordedBroker(Path(folder) / "kafka", temporary)
        broker.start()
        try:
            _use(broker.bootstrap_servers)
        finally:
            broker.stop(_END_S)
    temporary.rename(ARCHIVE)


def _use(servers: str) -> None:
    """Sends the requests of the product's clients: topics, transactions, a consumer group."""
    client = {"bootstrap.servers": servers}
    with admin_of(client) as admin:
        create_topics(admin, [Topic("archive", 1, {"cleanup.policy": "compact"})])
    with closing(Producer(quiet({**client, "transactional.id": "archive"}))) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("archive", b"value", b"key")
        producer.commit_transaction(30)
    group = {"group.id": "archive", "auto.offset.reset": "earliest"}
    with closing(Consumer(quiet({**client, **group}))) as consumer:
        consumer.subscribe(["archive"])
        consumer.consume(1, 30)


if __name__ == "__main__":
    main()
