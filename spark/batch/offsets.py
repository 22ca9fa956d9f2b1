"""End offsets of topics, read before a batch job reads its data.

Records from these offsets on are applied on top of the push. A record that the job has read as well
is applied twice, which changes nothing. A record that it has not read is applied once. If the
offsets were read after the data, records in between would be lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import orjson
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from model.kafka.admin import LATEST, describe, offsets, reason_of
from model.kafka.clients import closing
from model.kafka.config import for_librdkafka, hide
from model.kafka.config_providers import resolve
from model.problems import ConfigurationError
from model.pushes.manifest import Pinned
from spark.deployment import read_deployment
from spark.errors import JobError

_TIMEOUT_S = 10.0  # for one request


def pin(
    view: str,
    bootstrap_servers: str,
    views: str = "views.toml",
    topics: Iterable[str] = (),
) -> Pinned:
    """The current end offsets of the view's topic and of `topics`, which the job reads.

    Call it before the job reads anything. `views`: the path of views.toml. Raises JobError.
    """
    deployment = read_deployment(Path(views))
    by_name = {entry.name: entry for entry in deployment.views}
    if view not in by_name:
        raise JobError(f"{views} has no view {view}; it has {', '.join(by_name)}")
    view_topic = by_name[view].topic
    at = time.time_ns() // 1_000_000
    table = deployment.kafka
    try:
        resolved = resolve(table, open, os.environ)
        client = for_librdkafka(resolved)
    except ConfigurationError as e:
        raise JobError(f"{views}: {e}") from None
    settings = {**client, "bootstrap.servers": bootstrap_servers, "log_level": 0}
    names = list(dict.fromkeys([view_topic, *topics]))
    try:
        with closing(AdminClient(settings)) as admin:
            described = describe(admin, names, _TIMEOUT_S)
            counts = {name: range(len(topic.partitions)) for name, topic in described.items()}
            # the last stable offsets: records of open transactions come after them
            ends = offsets(admin, counts, LATEST, _TIMEOUT_S)
    except (KafkaException, TimeoutError) as e:
        why = hide(reason_of(e), table, resolved)
        raise JobError(
            f"the end offsets of {', '.join(names)} cannot be read at {bootstrap_servers}: {why}"
        ) from None
    return Pinned(view, view_topic, str(described[view_topic].topic_id), at, ends)


def ending_offsets(pinned: Pinned, topic: str) -> str:
    """The pinned offsets of a topic as `endingOffsets` of a batch read, or `startingOffsets` of a
    stream, of Spark's Kafka source."""
    offsets = {str(partition): offset for partition, offset in pinned.offsets[topic].items()}
    return orjson.dumps({topic: offsets}).decode()
