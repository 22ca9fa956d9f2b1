"""The job creates the topics of its views, and changes no topic that exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource
from pyspark.sql import SparkSession

from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from model.views_file import parse_views
from spark.discovery import declared_views
from spark.errors import JobError
from spark.kafka_admin import KafkaAdmin
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision.topics import prepare_topics
from spark.view import View
from spark.views import VIEWS
from tests.support.plugins.fixtures import MakeTopic

Prepare = Callable[..., list[str]]


@pytest.fixture
def prepare(session: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Prepare]:
    """`prepare(view, …)` does what a job does before it starts queries; returns what it logs."""
    kafka = Kafka(broker.bootstrap_servers)

    def run(*views: View, **settings: Any) -> list[str]:
        logged: list[str] = []
        given = Settings(
            views=list(views), kafka=kafka, checkpoint_dir=str(tmp_path), topics_deadline=0.1
        )
        prepare_topics(session, admin, replace(given, **settings), logged.append)
        return logged

    with KafkaAdmin(session, kafka) as admin:
        yield run


def described(broker: Broker, topic: str) -> tuple[int, dict[str, str]]:
    """Number of partitions, and configuration."""
    admin = quiet_admin(broker.bootstrap_servers)
    [future] = admin.describe_configs([ConfigResource("topic", topic)]).values()
    config = {name: str(entry.value) for name, entry in future.result(10).items()}
    return len(admin.list_topics(topic, timeout=10).topics[topic].partitions), config


def test_missing_topics_are_created(
    prepare: Prepare, broker: Broker, make_topic: MakeTopic
) -> None:
    source = make_topic()
    first = replace(VIEWS["word-count"], source=source, topic=f"{source}-counts", partitions=5)
    retained = {"cleanup.policy": "compact,delete", "retention.ms": "86400001"}
    # a view of a view
    second = replace(
        first, name="second", source=first.topic, topic=f"{source}-2", topic_config=retained
    )
    logged = prepare(second, first, topics_deadline=30)
    # a broker may know a new topic a moment later
    assert [line for line in logged if not line.startswith("waiting up to 30 s for topic")] == [
        f"created topic {source}-2: 5 partitions, cleanup.policy=compact,delete, "
        "retention.ms=86400001",
        f"created topic {source}-counts: 5 partitions, cleanup.policy=compact",
    ]
    partitions, config = described(broker, first.topic)
    assert (partitions, config["cleanup.policy"]) == (5, "compact")
    partitions, config = described(broker, second.topic)
    assert config.items() >= retained.items()
    # they exist now, and stay as they are
    assert prepare(replace(second, partitions=9), first) == []
    assert described(broker, second.topic)[0] == 5


def test_a_topic_whose_records_expire_is_a_warning(
    prepare: Prepare, broker: Broker, make_topic: MakeTopic
) -> None:
    source = make_topic()
    target = make_topic(cleanup_policy="delete")
    view = replace(VIEWS["word-count"], source=source, topic=target)
    [warning] = prepare(view)
    assert warning.startswith(f"warning: topic {target} has cleanup.policy=delete, which deletes")
    assert warning.endswith("Set cleanup.policy=compact.")
    assert described(broker, target)[1]["cleanup.policy"] == "delete"
    # a view with a retention needs no other policy than compact
    retained = {"cleanup.policy": "compact,delete", "retention.ms": "86400001"}
    compacted = make_topic(cleanup_policy="compact")
    view = replace(view, name="b", topic=compacted, topic_config=retained)
    assert prepare(view) == []


def test_the_job_may_be_told_to_create_no_topics(
    prepare: Prepare, broker: Broker, make_topic: MakeTopic
) -> None:
    source = make_topic()
    view = replace(VIEWS["word-count"], source=source, topic=f"{source}-counts")
    missing = f"no topic {source}-counts, {source}.dead-letter at .* Create it"
    with pytest.raises(JobError, match=missing):
        prepare(view, create_topics=False)
    existing = quiet_admin(broker.bootstrap_servers).list_topics(timeout=10).topics
    assert [name for name in existing if name.startswith(source)] == [source]
    letters = f"{source}.dead-letter"
    make_topic(name=letters, cleanup_policy="compact", max_message_bytes=2097152)
    make_topic(name=view.topic, cleanup_policy="compact")
    assert prepare(view, create_topics=False) == []


def test_a_deleted_view_topic_is_not_created_empty(
    prepare: Prepare, broker: Broker, make_topic: MakeTopic
) -> None:
    source = make_topic()
    view = replace(VIEWS["word-count"], source=source, topic=f"{source}-counts")
    prepare(view)
    admin = quiet_admin(broker.bootstrap_servers)
    admin.delete_topics([view.topic])[view.topic].result(10)
    # the controller answers before the broker has forgotten the topic
    wait_until(
        lambda: view.topic not in admin.list_topics(timeout=10).topics, 20, "the topic is gone"
    )
    with pytest.raises(JobError, match=f"topic {view.topic} was deleted or recreated"):
        prepare(view)
    assert view.topic not in admin.list_topics(timeout=10).topics


def test_a_rejected_topic_is_an_error_with_instructions(
    prepare: Prepare, make_topic: MakeTopic
) -> None:
    source, config = make_topic(), {"retention.ms": "soon"}
    view = replace(VIEWS["word-count"], source=source, topic=f"{source}-a", topic_config=config)
    with pytest.raises(JobError) as raised:
        prepare(view)
    assert f"cannot create topic {source}-a: InvalidConfig" in str(raised.value)
    assert "Create it with 6 partitions and cleanup.policy=compact" in str(raised.value)


def test_settings_in_views_toml(session: SparkSession) -> None:
    """They are those of Kafka, and the job creates the topic with them."""
    kafka = session._jvm.org.apache.kafka.common.config.TopicConfig
    names = {getattr(kafka, name) for name in dir(kafka) if name.endswith("_CONFIG")}
    gone = {
        name
        for name in names
        if name.startswith(("message.d", "message.format", "message.timestamp.d"))
    }
    of_the_view = {"cleanup.policy", "retention.ms", "message.timestamp.type"}
    settings = "".join(f'"{name}" = 1\n' for name in sorted(names - gone - of_the_view))
    text = f"""\
[views.hosts]
retention = "1d"
[views.hosts.derive]
from = "weblog"
key = "text"
count = true
[views.hosts.derive.topic_config]
{settings}"""
    [view] = declared_views(parse_views(text), Path()).values()
    assert len(names) > 25
    assert view.topic_config == {
        "cleanup.policy": "compact,delete",
        "retention.ms": f"{2 * 86_400_000}",
        **dict.fromkeys(names - gone - of_the_view, "1"),
    }
