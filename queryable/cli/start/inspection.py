"""Looks at a topic, says what it found, and proposes the topic's entry of views.toml."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from rich.console import Console

from queryable.cli.adopt.prompts import Ask
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.exit_codes import print_stderr
from queryable.cli.inspection.broker import Broker
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.start.questions import did_you_mean, partitions_text
from queryable.cli.start.topic_source import SourceEntry, source_entry
from queryable.cli.start.topic_view import findings, record_text, topic_entry
from queryable.client.protocol.errors import BadUse

_SHOWN = ("key", "value", "partitioner", "null_deletes", "unwrap")
"""The fields of the entry that are printed, too."""

_OF_SOURCES = ("format", "message", "kind", "null_deletes", "unwrap", "key_fields")


def describe_source(
    broker: Broker,
    topics: Mapping[str, int],
    topic: str,
    sample_size: int,
    seconds: float,
    schemas: Schemas,
) -> SourceEntry:
    """The table of a source, and its file. What was seen goes to stderr. Raises BadUse, NoBroker
    and NoRegistry."""
    partitions, config, sample = _looked_at(broker, topics, topic, sample_size, seconds)
    entry = source_entry(topic, partitions, config, sample, schemas)
    for line in entry.toml.splitlines():
        if line.startswith(_OF_SOURCES):
            print_stderr(f"  {line}")
    return entry


def _looked_at(
    broker: Broker, topics: Mapping[str, int], topic: str, sample_size: int, seconds: float
) -> tuple[int, Mapping[str, str], Sequence[SampledRecord]]:
    """The number of partitions, the configuration and the newest records of a topic. Raises BadUse
    and NoBroker."""
    if topic not in topics:
        hint = did_you_mean(topic, sorted(topics))
        raise BadUse(f"{broker.servers} has no topic {topic}{hint}")
    partitions = topics[topic]
    config = broker.configs([topic])[topic]
    sample = broker.sample(topic, partitions, sample_size, seconds).records
    print_stderr(f"{topic}: {partitions_text(partitions)}, looked at {len(sample)} records")
    return partitions, config, sample


def describe_topic(
    broker: Broker,
    topics: Mapping[str, int],
    topic: str,
    sample_size: int,
    seconds: float,
    ask: Ask,
    schemas: Schemas,
) -> str:
    """The entry. What was seen goes to stderr. Raises BadUse, NoBroker and NoRegistry."""
    partitions, config, sample = _looked_at(broker, topics, topic, sample_size, seconds)
    if sample and all(record.key is None for record in sample):
        raise BadUse(
            f"The records of {topic} have no keys, so it is not a table. Let the producers set a "
            "key, or derive a keyed topic (docs/spark/derived-views.md)."
        )
    if keyed := [record for record in sample if record.key is not None]:
        print_stderr(f"  a record: {record_text(keyed[-1])}")
    entry = topic_entry(topic, partitions, config, sample, ask, schemas)
    for line in entry.splitlines():
        if line.startswith(_SHOWN):
            print_stderr(f"  {line}")
    for finding in findings(entry, partitions, config, sample, schemas):
        text = f"{finding.status}: {finding.message} ► {finding.action}"
        width = Console(stderr=True).width
        print_stderr(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    "))
    return entry
