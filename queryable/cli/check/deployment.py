"""Checks the views file, the broker, and the topic of each view."""

from __future__ import annotations

import difflib
import os
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from backend.instance.settings import read_views
from model.derive.schema_files import declared_schemas
from model.kafka.config import for_kafka_python, for_librdkafka, hide
from model.kafka.config_providers import resolve
from model.problems import ConfigurationError
from model.toml_lines import view_table
from model.views import Deployment, View
from queryable.cli.check.changelogs import check_changelog, check_deleted_records
from queryable.cli.check.derived_state import check_state
from queryable.cli.check.findings import Finding, counted, ok, wrong
from queryable.cli.check.rebuilds import rebuild_estimate
from queryable.cli.check.rows import check_sources
from queryable.cli.check.schemas import check_schemas
from queryable.cli.check.source_schemas import check_source_schemas
from queryable.cli.check.topics import (
    check_classes,
    check_records,
    check_retention,
    check_shared_topics,
)
from queryable.cli.exit_codes import NoBroker
from queryable.cli.inspection.broker import Broker, kafka_table_of
from queryable.cli.inspection.samples import TopicSample
from queryable.cli.inspection.schema_sources import FetchedSchemas, SchemaRegistry, schema_source
from queryable.client.protocol.errors import BadUse

_ADD_PARTITIONS = "docs/changes-to-a-deployment.md#topics-that-a-spark-job-reads"


def check_deployment(
    views: Path, servers: str, sample_size: int, timeout: float, registry_auth: str = ""
) -> Iterator[Finding]:
    """A check that cannot run is skipped. Its cause has a finding. `registry_auth`: as
    QUERYABLE_SCHEMA_REGISTRY_AUTH."""
    deployment = schemas = None
    kafka: dict[str, str] = {}
    client: dict[str, Any] = {}
    try:
        deployment = read_views(views)
        kafka = resolve(deployment.kafka, open, os.environ)
        client = for_librdkafka(kafka)
        for_kafka_python(kafka)
    except ConfigurationError as error:
        yield wrong("views", str(error), "correct the file (docs/reference/views.md)")
    else:
        yield ok("views", f"{views} declares {counted(len(deployment.views), 'view')}")
        for view in deployment.views:
            yield from check_classes(view)
            yield from check_state(view)
        yield from check_shared_topics(deployment.views)
        try:
            source = schema_source(views, deployment, registry_auth)
            schemas = FetchedSchemas(source) if source is not None else None
            if isinstance(source, SchemaRegistry):
                declared = declared_schemas(tomllib.loads(views.read_text()).get("sources"))
                yield from check_source_schemas(declared, views.parent, source)
        except ConfigurationError as error:
            yield wrong("schemas", str(error), "correct the setting (docs/reference/settings.md)")
    try:
        table = deployment.kafka if kafka and deployment else {}
        broker = Broker(
            servers,
            client,
            timeout,
            lambda text: hide(text, table, kafka),
            kafka_table_of(views),
        )
        topics = broker.topics()
    except BadUse as error:
        yield wrong("broker", error.detail, "correct the setting (docs/security/kafka.md)")
        return
    except NoBroker as error:
        yield wrong("broker", error.detail, error.remedy)
        return
    yield ok("broker", f"{servers} answers and has {counted(len(topics), 'topic')}")
    if deployment is not None:
        yield from _check_views(deployment, broker, topics, sample_size, timeout, schemas)


def _check_views(
    deployment: Deployment,
    broker: Broker,
    topics: dict[str, int],
    sample_size: int,
    timeout: float,
    schemas: FetchedSchemas | None,
) -> Iterator[Finding]:
    wanted = {view.topic for view in deployment.views}
    made = {view.topic for view in deployment.views if view.uses_spark}
    try:
        configs = broker.configs(sorted(wanted & topics.keys()))
    except NoBroker as error:
        yield wrong("broker", error.detail, "let this user describe the topics' configuration")
        return
    samples: dict[str, TopicSample] = {}
    for view in deployment.views:
        yield from _before_partitions_are_added(view)
        yield from _check_sources(view, broker, topics, sample_size, timeout, schemas)
        if view.topic not in topics and view.uses_spark:
            yield from _topics_of_the_job(view, topics, made)
            continue
        if view.topic not in topics:
            yield _missing_topic(view, topics)
            continue
        partitions, config = topics[view.topic], configs[view.topic]
        yield check_retention(view, config)
        try:
            if view.topic not in samples:
                samples[view.topic] = broker.sample(view.topic, partitions, sample_size, timeout)
        except NoBroker as error:
            yield wrong(f"view {view.name}", error.detail, "let this user read the topic")
            continue
        sample = samples[view.topic]
        now = time.time_ns() // 1_000_000
        yield from check_deleted_records(view, config, sample, now)
        yield from check_changelog(view, config, sample)
        yield from check_records(view, partitions, sample.records)
        yield from check_schemas(view, sample.records, schemas)


def _check_sources(
    view: View,
    broker: Broker,
    topics: dict[str, int],
    sample_size: int,
    timeout: float,
    schemas: FetchedSchemas | None,
) -> Iterator[Finding]:
    """Checks the records that a table [derive] reads. A topic that Spark alone may read is left
    out."""
    if (derivation := view.derivation) is None:
        return
    sources = {
        topic: topics[topic]
        for topic in (derivation.source, *(join.source for join in derivation.joins))
        if topic in topics
    }
    with suppress(NoBroker):
        records = 0
        for topic, partitions in sources.items():
            sample = broker.sample(topic, partitions, sample_size, timeout)
            records += sum(end - start for start, end in sample.offsets)
            yield from check_sources(view, topic, sample.records, schemas)
        if records and view.pipeline:
            committed = broker.committed_metadata(view.pipeline, sources)
            yield rebuild_estimate(view, records, committed)


def _missing_topic(view: View, topics: dict[str, int]) -> Finding:
    return wrong(
        f"view {view.name}",
        f"topic {view.topic} does not exist{_hint(view.topic, topics)}",
        f"create the topic, or set topic in {view_table(view.name)}",
    )


def _topics_of_the_job(view: View, topics: dict[str, int], made: set[str]) -> Iterator[Finding]:
    """About a view whose topic does not exist yet. `made`: the topics that Spark's job creates. The
    topics that a Python file reads are not known here."""
    subject = f"view {view.name}"
    yield ok(
        subject,
        f"topic {view.topic} does not exist yet: Spark's job creates it, if it may create topics"
        + _hint(view.topic, topics),
    )
    if (derivation := view.derivation) is None:
        return
    table = f"views.{view.name}.derive"
    sources = {derivation.source: f"[{table}]"}
    for join in derivation.joins:
        sources[join.source] = f"[{table}.join.{join.name}]"
    for topic, where in sources.items():
        if topic not in topics and topic not in made:
            yield wrong(
                subject,
                f"Spark derives it from topic {topic}, which does not exist{_hint(topic, topics)}",
                f"create the topic, or set from in {where}",
            )


def _before_partitions_are_added(view: View) -> Iterator[Finding]:
    """What to know before that is done to a topic from which Spark derives the view."""
    subject = f"view {view.name}"
    derivation = view.derivation
    joins = () if derivation is None else derivation.joins
    tables = [join.source for join in joins if join.stream is None]
    has_state = derivation is not None and bool(
        derivation.changing or derivation.aggregates or derivation.is_rekeyed
    )
    if derivation is not None and has_state and derivation.is_table:
        tables.insert(0, derivation.source)
    for topic in tables:
        yield ok(
            subject,
            f"do not add partitions to topic {topic}: Spark's job would stop the view, which "
            f"reads it as a table with state ({_ADD_PARTITIONS})",
        )
    if view.spark_view is not None:
        yield ok(
            subject,
            f"before you add partitions to a topic that {view.spark_view} reads: Spark's job stops "
            f"views that cannot follow it ({_ADD_PARTITIONS})",
        )


def _hint(topic: str, topics: dict[str, int]) -> str:
    """At the topic that was probably meant."""
    similar = difflib.get_close_matches(topic, topics, 1, 0.7)
    return f"; did you mean {similar[0]}?" if similar else ""
