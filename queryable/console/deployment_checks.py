"""Whether the file that declares the views is right, and fits what the broker has."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator
from pathlib import Path

from backend.settings import read_views
from model.kafka_config import for_kafka_python, for_librdkafka
from model.problems import ConfigurationError
from model.views import Deployment, View
from queryable.console import changelog_checks, topic_checks
from queryable.console.broker import Broker
from queryable.console.findings import Finding, ok, wrong
from queryable.console.guesses import Looked
from queryable.core.errors import NoAnswer


def deployment(views: Path, servers: str, most: int, timeout: float) -> Iterator[Finding]:
    """The file, the broker, then each view. What cannot be looked at is left out: what is in its
    way has been told."""
    declared = None
    try:
        declared = read_views(views)
        for_kafka_python(declared.kafka)
    except ConfigurationError as error:
        yield wrong("views", str(error), "correct the file (README, Add a view)")
    else:
        yield ok("views", f"{views} declares {len(declared.views)}")
        yield from topic_checks.shared(declared.views)
    try:
        broker = Broker(servers, for_librdkafka(declared.kafka) if declared else {}, timeout)
        topics = broker.topics()
    except NoAnswer as error:
        yield wrong(
            "broker", error.detail,
            "start Kafka there, or set QUERYABLE_BOOTSTRAP_SERVERS; SASL and TLS stand in [kafka] "
            f"of {views}",
        )  # fmt: skip
        return
    yield ok("broker", f"{servers} answers, with {len(topics)} topics")
    if declared is not None:
        yield from _views(declared, broker, topics, most, timeout)


def _views(
    declared: Deployment, broker: Broker, topics: dict[str, int], most: int, timeout: float
) -> Iterator[Finding]:
    wanted = {view.topic for view in declared.views}
    try:
        configs = broker.configs(sorted(wanted & topics.keys()))
    except NoAnswer as error:
        yield wrong("broker", error.detail, "let this user describe the topics' configuration")
        return
    sampled: dict[str, Looked] = {}
    for view in declared.views:
        if view.topic not in topics:
            yield _missing(view, topics)
            continue
        partitions = topics[view.topic]
        yield topic_checks.cleanup(view, configs[view.topic])
        try:
            if view.topic not in sampled:
                sampled[view.topic] = broker.sample(view.topic, partitions, most, timeout)
        except NoAnswer as error:
            yield wrong(f"view {view.name}", error.detail, "let this user read the topic")
            continue
        config, looked = configs[view.topic], sampled[view.topic]
        now = time.time_ns() // 1_000_000
        yield from changelog_checks.forgotten(view, config, looked, now)
        yield from changelog_checks.changelog(view, config, looked)
        yield from topic_checks.records(view, partitions, looked.records)


def _missing(view: View, topics: dict[str, int]) -> Finding:
    near = difflib.get_close_matches(view.topic, topics, 1, 0.7)
    meant = f"; is {near[0]} meant?" if near else ""
    return wrong(
        f"view {view.name}",
        f"topic {view.topic} is not there{meant}",
        f"create the topic, or set topic in [views.{view.name}]",
    )
