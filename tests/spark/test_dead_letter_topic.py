"""The topics of dead letters, and which view writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from spark.errors import JobError
from spark.formats.decoders import JsonDecoder, TextDecoder
from spark.kafka_admin import KafkaAdmin
from spark.sources import Kafka
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.runner import Runner
from tests.support.topics import Writer, set_config


def test_dead_letter_topics_reject_records_of_the_far_future(
    session: SparkSession, broker: Broker, make_topic: MakeTopic
) -> None:
    topic = f"{make_topic()}.dead-letter"
    with KafkaAdmin(session, Kafka(broker.bootstrap_servers)) as kafka_admin:
        for _ in range(2):  # the second time it exists
            kafka_admin.create_dead_letter_topic(topic)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = quiet_admin(broker.bootstrap_servers)
    # a broker may know a new topic a moment later
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics, 20, "the topic")
    [future] = admin.describe_configs([resource]).values()
    config = future.result(10)
    after = config["message.timestamp.after.max.ms"]
    assert (after.value, after.is_default) == ("3600000", False)
    assert config["cleanup.policy"].value == "compact"


def test_a_dead_letter_topic_that_is_too_small_is_a_warning(
    session: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    runner = Runner(session, broker.bootstrap_servers, make_topic, tmp_path)
    topic = f"{runner.source}.dead-letter"
    make_topic(name=topic, cleanup_policy="compact")
    runner.once()
    assert f"warning: topic {topic} has max.message.bytes=1048588" in capfd.readouterr().err
    set_config(broker.bootstrap_servers, topic, "max.message.bytes", "2097152")
    runner.once()
    assert "max.message.bytes" not in capfd.readouterr().err


def test_errors_say_how_to_create_a_dead_letter_topic(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Regression: such a topic took no record of 1 MiB, and the query failed at each restart."""
    expected = "one partition, cleanup.policy=compact and max.message.bytes=2097152"
    with (
        KafkaAdmin(session, Kafka(broker.bootstrap_servers)) as admin,
        pytest.raises(JobError, match=expected),
    ):
        admin.create_dead_letter_topic("not a topic")
    runner = Runner(session, broker.bootstrap_servers, make_topic, tmp_path)
    runner.settings = replace(runner.settings, create_topics=False, topics_deadline=0.1)
    with pytest.raises(JobError, match=expected):
        runner.once()


def test_a_view_writes_dead_letters_again_after_records_have_expired(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    runner = Runner(session, broker.bootstrap_servers, make_topic, tmp_path)
    view, settings = runner.view, runner.settings
    other = replace(view, name="other", topic=make_topic(cleanup_policy="compact"))
    runner.write(b"one", b"\xff")
    runner.once()
    # another view writes the dead letters of both
    runner.settings = replace(settings, views=[other, view])
    runner.write(b"two", b"\xff")
    runner.once()
    assert runner.progress("other")["dead_letters"] == 2
    runner.truncate(4)
    runner.settings = settings
    runner.write(b"three", b"\xff")
    progress = runner.once()
    assert (progress["dead_letters"], progress["state"]) == (1, "done")
    assert runner.counts() == {"one": 1, "two": 1, "three": 1}


def test_a_text_that_does_not_fit_in_a_view_topic_is_a_dead_letter(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    def lines(texts: DataFrame) -> DataFrame:
        title = F.col("key").cast("string").alias("key")
        return texts.select(title, F.to_json(F.struct("text")).alias("value"))

    runner = Runner(session, broker.bootstrap_servers, make_topic, tmp_path)
    view = replace(runner.view, decoder=TextDecoder(max_bytes=100_000), derive=lines)
    runner.settings = replace(runner.settings, views=[view])
    # as JSON it has twice as many bytes
    runner.write(b'"' * 600_000, b'"' * 100_000)
    Writer(broker.bootstrap_servers).send(runner.source, [(b"k" * 900_000, b'"' * 90_000)])
    progress = runner.once()
    assert (progress["dead_letters"], progress["source_offsets"]) == (2, {runner.source: {"0": 3}})
    [log] = runner.logs(1)
    assert [len(value or b"") for _, _, _, value in log.records] == [200_011]


@pytest.mark.parametrize("is_table", [False, True])
def test_a_key_that_does_not_fit_in_a_view_topic_is_a_dead_letter(
    session: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    tmp_path: Path,
    is_table: bool,
) -> None:
    """Regression: keys without a format had no bound, and the view failed after each restart."""

    def twice(rows: DataFrame) -> DataFrame:
        return rows.select("key", F.to_json(F.struct("s", F.col("s").alias("t"))).alias("value"))

    runner = Runner(session, broker.bootstrap_servers, make_topic, tmp_path)
    decoder = JsonDecoder(StructType([StructField("s", StringType())]), is_table=is_table)
    runner.settings = replace(
        runner.settings, views=[replace(runner.view, decoder=decoder, derive=twice)]
    )
    value = json.dumps({"s": "x" * 90_000}).encode()
    Writer(broker.bootstrap_servers).send(
        runner.source, [(b"k" * 900_000, value), (b"k" * 100_000, value)]
    )
    progress = runner.once()
    assert (progress["dead_letters"], progress["source_offsets"]) == (1, {runner.source: {"0": 2}})
    [log] = runner.logs(1)
    assert [len(key) for _, _, key, _ in log.records] == [100_000]
