"""Loads a raw topic once; an interrupted load continues where it stopped.

Each record belongs in one partition, and an idempotent producer keeps the order in a partition. So
a partition always has the first of its records, and its end offset is their number.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer
from confluent_kafka import KafkaException

from local.demo.datasets import DATASETS, Dataset, Record, demo_topics
from local.errors import LocalError, friendly
from local.kafka.connection import (
    Kafka,
    ViewsToml,
    admin_of,
    kafka_of,
    settings_of,
)
from local.kafka.producer import RecordProducer
from local.kafka.topics import create_topics
from local.progress import bar
from local.settings import REPOSITORY
from local.spark_views import declared_views
from model.kafka.admin import LATEST, describe, offsets, reason_of
from model.partitioner import partition_of

_ANY = -1
"""The producer chooses the partition."""

REPORT_EVERY = 5_000
"""Records between two updates of the progress bar."""


def load(servers: str | Kafka, dataset: Dataset) -> int:
    """Produces the records that the topic does not have yet; returns their number.

    ``servers``: Kafka's address, or a client's settings. Raises ``LocalError`` if the broker
    rejects a record or cannot be reached for a minute.
    """
    name = dataset.topic.name
    kafka = settings_of(servers)
    loaded = end_offsets(kafka, name)
    total = dataset.count()
    if sum(loaded.values()) >= total:
        return 0
    producer = RecordProducer(
        kafka,
        enable_idempotence=True,
        linger_ms=50,
        batch_num_messages=20_000,
        compression_type="lz4",
        queue_buffering_max_messages=200_000,
        message_timeout_ms=60_000,
    )
    produced = 0
    with bar(f"loading {name}", total) as update:
        for produced, (record, partition) in enumerate(_missing(dataset, loaded), start=1):
            producer.produce(name, record.value, record.key, partition, record.timestamp or 0)
            if produced % REPORT_EVERY == 0:
                update(sum(loaded.values()) + produced - len(producer))
                producer.poll()
                if producer.error:
                    break
        while (waiting := producer.flush(0.2)) and not producer.error:
            update(sum(loaded.values()) + produced - waiting)
        update(sum(loaded.values()) + produced)
    producer.close()
    if producer.error:
        raise LocalError(
            f"the broker {kafka['bootstrap.servers']} rejected records of {name}: {producer.error}."
        )
    return produced


def end_offsets(servers: str | Kafka, topic: str, timeout: float = 20.0) -> dict[int, int]:
    """Partition ► offset after the last record. ``servers`` as for ``load``."""
    kafka = settings_of(servers)
    try:
        with admin_of(kafka) as admin:
            partitions = range(len(describe(admin, [topic], timeout)[topic].partitions))
            return offsets(admin, {topic: partitions}, LATEST, timeout)[topic]
    except (KafkaException, TimeoutError) as error:
        raise LocalError(
            f"cannot read the offsets of topic {topic} from {kafka['bootstrap.servers']}: "
            f"{reason_of(error)}."
        ) from error


def _missing(dataset: Dataset, loaded: dict[int, int]) -> Iterator[tuple[Record, int]]:
    """The records that the topic lacks, with their partitions. ``loaded``: end offsets."""
    partitions = len(loaded)
    is_empty = not any(loaded.values())
    murmur2 = partition_of("murmur2")
    assert murmur2 is not None
    seen: Counter[int] = Counter()
    for number, record in enumerate(dataset.records()):
        if record.key is None:
            partition = number % partitions
        elif is_empty:
            yield record, _ANY  # the producer computes partitions much faster
            continue
        else:
            partition = murmur2(record.key, partitions)
        seen[partition] += 1
        if seen[partition] > loaded[partition]:
            yield record, partition


@friendly
def main(
    bootstrap_servers: Annotated[str, typer.Option(help="Kafka's address.")] = os.environ.get(
        "QUERYABLE_BOOTSTRAP_SERVERS", "127.0.0.1:9092"
    ),
    views_toml: ViewsToml = None,
) -> None:
    """Create the demo's topics and load the raw topics."""
    kafka = kafka_of(bootstrap_servers, views_toml)
    derived = declared_views(views_toml or REPOSITORY / "views.toml")
    with admin_of(kafka) as admin:
        create_topics(admin, demo_topics(derived.values()))
    for dataset in DATASETS:
        produced = load(kafka, dataset)
        print(f"{dataset.topic.name}: {produced:,} records produced")


if __name__ == "__main__":
    typer.run(main)
