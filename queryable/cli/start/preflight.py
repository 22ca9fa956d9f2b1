"""Checks before `queryable serve` starts anything: the views file, the broker, and the topics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from backend.instance.settings import read_views
from model.kafka.config import for_kafka_python, for_librdkafka, hide
from model.kafka.config_providers import resolve
from model.problems import ConfigurationError
from model.views import Deployment
from queryable.cli.inspection.broker import Broker, kafka_table_of
from queryable.cli.start.questions import did_you_mean
from queryable.client.protocol.errors import BadUse


def check_views(views: Path, servers: str, timeout: float) -> Mapping[str, int]:
    """The topics, with their numbers of partitions. Raises BadUse if the file is wrong or a topic
    does not exist, and NoBroker if the broker does not answer. `timeout`: seconds for one request
    to the broker."""
    if not views.exists():
        raise BadUse(
            f"{views} does not exist. `queryable init` writes it: it looks at a topic and proposes "
            "a view."
        )
    try:
        deployment = read_views(views)
        kafka = resolve(deployment.kafka, open, os.environ)
        for_kafka_python(kafka)  # backends use both clients
        client = for_librdkafka(kafka)
    except ConfigurationError as error:
        if isinstance(error.__cause__, OSError):  # such as a folder
            raise BadUse(f"Cannot read {views}: {error.__cause__.strerror}.") from None
        text = str(error).rstrip(".")
        raise BadUse(f"{text}. docs/reference/views.md describes the file.") from None
    broker = Broker(
        servers,
        client,
        timeout,
        lambda text: hide(text, deployment.kafka, kafka),
        kafka_table_of(views),
    )
    topics = broker.topics()
    if missing := list(missing_topics(deployment, topics)):
        raise BadUse(f"{' '.join(missing)} Create the topic, or correct {views}.")
    return topics


def missing_topics(deployment: Deployment, topics: Mapping[str, int]) -> Iterator[str]:
    """One sentence for each topic that is needed and does not exist."""
    for view in deployment.views:
        if view.uses_spark or view.topic in topics:
            continue  # Spark's job creates the topic of its view
        hint = did_you_mean(view.topic, sorted(topics))
        yield f"The topic {view.topic} of view {view.name} does not exist{hint}"
