"""Events older than a changelog's retention: the broker deletes what the application still has."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from queryable.cli.app import app
from tests.system.streams.application import Application
from tests.system.streams.questions import Question

DAY = 86_400_000
PARTITIONS = 3
START = int(time.time() * 1000) - 30 * DAY
CHANGELOG = "odd-on-close-changelog"


def test_adopt_and_check_report_deleted_records(tmp_path: Path) -> None:
    # the default is five minutes
    properties = {"log.retention.check.interval.ms": "500"}
    with Broker(tmp_path / "broker", properties=properties) as broker:
        servers = broker.bootstrap_servers
        names = ("events", "clicks", "people", "towns", "countries")
        inputs = [Topic(name, PARTITIONS, {"cleanup.policy": "compact"}) for name in names]
        create_topics(quiet_admin(servers), inputs)
        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        for number in range(60):
            producer.produce("events", "v", b"key %d" % number, timestamp=START + number * 1000)
        assert producer.flush(30) == 0
        with Application(servers, tmp_path, "odd") as application:
            application.do("start", guarantee="at_least_once")
            application.do("consume")
            wait_until(lambda: is_empty(servers), 60, "the broker to delete old records")
            question = Question("on-close", "windows", "key 7", START - DAY, START + DAY)
            [windows] = application.ask(question.to_application())
            assert len(windows) == 1  # the application still has them
            adopted = run("adopt", "odd", "--yes", "--bootstrap-servers", servers)
            assert f"# {CHANGELOG}: not proposed, the broker has deleted all 60 records" in adopted
            path = tmp_path / "views.toml"
            path.write_text(
                f'[views.v]\ntopic = "{CHANGELOG}"\nkey = "string"\nvalue = "int64"\n'
                'store = "window"\nretention = "2h"\n'
            )
            arguments = ("--views", str(path), "--bootstrap-servers", servers, "--json")
            wrong = [line for line in run("check", *arguments).splitlines() if '"wrong"' in line]
            assert any("has deleted all 60 records" in line for line in wrong), wrong


def is_empty(servers: str) -> bool:
    with Consumer({"bootstrap.servers": servers, "group.id": "unused", "log_level": 0}) as consumer:
        spans = [
            consumer.get_watermark_offsets(TopicPartition(CHANGELOG, number), 5)
            for number in range(PARTITIONS)
        ]
    return all(first == end for first, end in spans) and any(end for _, end in spans)


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments)).stdout
