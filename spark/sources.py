"""Raw topics as streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from spark.schemas import RAW_RECORD


@dataclass(frozen=True, slots=True)
class Kafka:
    """How to reach the brokers: ``options`` are Kafka client settings (``sasl.jaas.config``, …)."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict)

    def client(self) -> dict[str, str]:
        """Settings for a Kafka client of the Java library."""
        return {**self.options, "bootstrap.servers": self.bootstrap_servers}

    def spark(self, **defaults: str) -> dict[str, str]:
        """The same as options of Spark's Kafka source and sink; ours win over ``defaults``."""
        own = {name.replace("_", "."): value for name, value in defaults.items()}
        return {f"kafka.{name}": value for name, value in (own | self.client()).items()}


def raw_records(
    session: SparkSession, topic: str, kafka: Kafka, max_offsets_per_trigger: int
) -> DataFrame:
    """The records of a topic, from its start on, as RAW_RECORD rows.

    Records of aborted transactions are left out. Where records that were not read yet are gone (a
    truncated topic, one made anew) the query fails: a view that lacks them would be silently wrong.
    """
    return (
        session.readStream.format("kafka")
        # Short of 2,000 records a poll the consumer's own overhead shows.
        .options(**kafka.spark(isolation_level="read_committed", max_poll_records="5000"))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", max_offsets_per_trigger)
        .load()
        .select(*RAW_RECORD.names)
    )
