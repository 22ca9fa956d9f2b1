"""The batch job: the views of all records of the raw topics, written to topics of its own.

Arguments: the brokers, and the views. Its topics are those of the views with the suffix `.batch`.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from local.kafka.jars import spark_jars
from model.dead_letters import SUFFIX
from model.partitioner import partition_of
from spark.formats.records import RAW_RECORD
from spark.session import start_session
from spark.sinks import dead_letters
from spark.sources import Kafka
from spark.view import View
from tests.pipelines.views import VIEWS

BATCH_SUFFIX = ".batch"


def main(servers: str, *names: str) -> None:
    kafka = Kafka(servers)
    session = start_session({}, spark_jars())
    read = {}
    for view in (VIEWS[name] for name in names):
        for source in view.inputs:
            if source.topic not in read:
                read[source.topic] = _records(session, source.topic, kafka)
                letters = dead_letters(source.decoder.malformed(read[source.topic]), by="batch")
                _write(letters.drop("topic"), source.topic + SUFFIX, kafka)
        rows = view.result(*(read[topic] for topic in view.source_topics))
        _write(_placed(rows, view), view.topic, kafka)
    session.stop()


def _records(session: SparkSession, topic: str, kafka: Kafka) -> DataFrame:
    read = session.read.format("kafka").options(**kafka.spark(isolation_level="read_committed"))
    read = read.option("includeHeaders", "true")
    return read.option("subscribe", topic).load().select(*RAW_RECORD.names)


def _placed(rows: DataFrame, view: View) -> DataFrame:
    """The partition of the bare key, computed apart from the job's own code."""
    if "bare_key" not in rows.columns:
        return rows
    murmur2, partitions = partition_of("murmur2"), view.partitions
    place = F.udf(lambda key: murmur2(bytes(key), partitions), "int")
    number = place(F.col("bare_key").cast("binary"))
    return rows.withColumn("partition", number).drop("bare_key")


def _write(rows: DataFrame, topic: str, kafka: Kafka) -> None:
    options = kafka.spark(max_request_size=str(8 * 1024 * 1024))
    rows.write.format("kafka").options(**options).option("topic", topic + BATCH_SUFFIX).save()


if __name__ == "__main__":
    main(*sys.argv[1:])
