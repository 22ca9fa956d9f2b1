"""The topics that the job creates itself."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType
from pyspark.sql import SparkSession

from local.kafka.broker import Broker, quiet_admin
from spark.kafka_admin import KafkaAdmin
from spark.sources import Kafka
from tests.support.plugins.fixtures import MakeTopic

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_dead_letter_topics_reject_records_of_the_far_future(
    session: SparkSession, broker: Broker, make_topic: MakeTopic
) -> None:
    topic = f"{make_topic()}.dead-letter"
    with KafkaAdmin(session, Kafka(broker.bootstrap_servers)) as kafka_admin:
        for _ in range(2):  # the second time it exists
            kafka_admin.create_dead_letter_topic(topic)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = quiet_admin(broker.bootstrap_servers)
    [future] = admin.describe_configs([resource]).values()
    config = future.result(10)
    after = config["message.timestamp.after.max.ms"]
    assert (after.value, after.is_default) == ("3600000", False)
    assert config["cleanup.policy"].value == "compact"
