"""Raw topics as DataFrames, streaming or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from spark.formats.records import RAW_RECORD
from spark.required import kafka_values

_MAX_RECORDS_PER_TASK = 500_000  # so that other tasks need not wait for long


@dataclass(frozen=True, slots=True)
class Kafka:
    """The brokers, and ``options``: settings of the Java client such as ``sasl.jaas.config``."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client(self) -> dict[str, str]:
        """Settings for a Java client."""
        return {**self.options, "bootstrap.servers": self.bootstrap_servers}

    def spark(self, **defaults: str) -> dict[str, str]:
        """The settings as options of Spark's Kafka source and sink; they override ``defaults``, but
        not the required settings."""
        own = {name.replace("_", "."): value for name, value in defaults.items()}
        return {
            f"kafka.{name}": value for name, value in (own | self.client() | kafka_values()).items()
        }


def raw_records(
    session: SparkSession, topic: str, kafka: Kafka, max_offsets_per_trigger: int | None
) -> DataFrame:
    """The records of a topic, from its start, as RAW_RECORD rows.

    Records of aborted transactions are skipped. If unread records were deleted (the topic was
    truncated or recreated), the query fails: a view without them would be silently wrong.
    ``max_offsets_per_trigger``: None in real-time mode, which has no limit.
    """
    if max_offsets_per_trigger is None:
        options = _options(topic, kafka)
    else:
        limit = {"maxOffsetsPerTrigger": str(max_offsets_per_trigger)}
        options = _bounded_options(topic, kafka) | limit
    return session.readStream.format("kafka").options(**options).load().select(*RAW_RECORD.names)


def static_records(session: SparkSession, topic: str, kafka: Kafka, ends: str) -> DataFrame:
    """The records of a topic before the offsets ``ends`` as RAW_RECORD rows, not as a stream.

    ``ends``: JSON in the format of Spark's ``endingOffsets``.
    """
    return _read(session, _bounded_options(topic, kafka) | {"endingOffsets": ends})


def records_between(
    session: SparkSession,
    topic: str,
    kafka: Kafka,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
) -> DataFrame:
    """As ``static_records``, from the offsets ``starts``. Only the partitions of ``ends`` are read;
    ``starts`` has all of them."""

    def offsets(bounds: Mapping[int, int]) -> str:
        return json.dumps({topic: {partition: bounds[partition] for partition in ends}})

    options = _bounded_options(topic, kafka) | {
        "assign": json.dumps({topic: sorted(ends)}),
        "startingOffsets": offsets(starts),
        "endingOffsets": offsets(ends),
        "maxRecordsPerPartition": str(_MAX_RECORDS_PER_TASK),
    }
    del options["subscribe"]
    return _read(session, options)


def _read(session: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return session.read.format("kafka").options(**options).load().select(*RAW_RECORD.names)


def _bounded_options(topic: str, kafka: Kafka) -> dict[str, str]:
    """The options of micro-batches and batch jobs, which read up to offsets that exist.

    After the last record, Kafka's client asks for the next one in advance, and the broker keeps
    this request for ``fetch.max.wait.ms``. Spark then asks for the topic's offsets on the same
    connection, where the broker answers in order. So each task would wait for this time: 500 ms.
    """
    return _options(topic, kafka, fetch_max_wait_ms="5")


def _options(topic: str, kafka: Kafka, **defaults: str) -> dict[str, str]:
    # With fewer than 2,000 records per poll, the consumer's overhead is noticeable.
    client = kafka.spark(max_poll_records="5000", **defaults)
    return {
        **client,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
