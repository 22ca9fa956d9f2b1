"""Findings about the views file."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from local.kafka.broker import Broker
from queryable.cli.check.deployment import check_deployment
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer


def test_topics_that_the_job_of_spark_creates_are_not_missing(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    # the broker has topics of other tests: a message names one with a similar name
    flights, planes = make_topic(), f"{make_topic()}-planes"
    file = tmp_path / "views.toml"
    file.write_text(
        f'[views.visits-of-clients.derive]\nfrom = "{flights}"\nfields = {{ client = "string" }}\n'
        'key = "client"\ncount = true\n\n'
        f'[views.visits-of-clients.derive.join.plane]\nfrom = "{planes}"\non = "client"\n'
        'static = true\nfields = { model = "string" }\n\n'
        # derived from the view before
        '[views.rows-of-visits.derive]\nfrom = "visits-of-clients"\nfields = { count = "int" }\n'
        'key = "count"\ncount = true\n\n'
        '[views.python]\ntopic = "zyzzyva"\nkey = "string"\nvalue = "json"\n'
        'spark_view = "words.py"\n'
    )
    found = list(check_deployment(file, broker.bootstrap_servers, 1, 10))[2:]
    created = "does not exist yet: Spark's job creates it, if it may create topics"
    rule = "(docs/changes-to-a-deployment.md#topics-that-a-spark-job-reads)"
    assert [(each.status, each.subject, each.message) for each in found] == [
        (
            "ok",
            "view visits-of-clients",
            f"do not add partitions to topic {planes}: Spark's job would stop the view, which "
            f"reads it as a table with state {rule}",
        ),
        ("ok", "view visits-of-clients", f"topic visits-of-clients {created}"),
        (
            "wrong",
            "view visits-of-clients",
            f"Spark derives it from topic {planes}, which does not exist; did you mean "
            f"{planes.removesuffix('-planes')}?",
        ),
        ("ok", "view rows-of-visits", f"topic rows-of-visits {created}"),
        (
            "ok",
            "view python",
            "before you add partitions to a topic that words.py reads: Spark's job stops views "
            f"that cannot follow it {rule}",
        ),
        ("ok", "view python", f"topic zyzzyva {created}"),
    ]
    assert (
        found[2].action
        == "create the topic, or set from in [views.visits-of-clients.derive.join.plane]"
    )


def test_the_time_of_a_rebuild(broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic, group = make_topic(2), f"{make_topic()}-job"
    file = tmp_path / "views.toml"
    file.write_text(
        f'[views.hosts]\npipeline = "{group}"\n[views.hosts.derive]\nfrom = "{topic}"\n'
        'fields = { client = "string" }\nkey = "client"\ncount = true\n'
    )
    records = [(b"%d" % n, b'{"client":"a"}') for n in range(3000)]
    Writer(broker.bootstrap_servers).send(topic, records)

    def said() -> list[str]:
        found = check_deployment(file, broker.bootstrap_servers, 1, 10)
        return [each.message for each in found if "a rebuild" in each.message]

    assert said() == ["a rebuild reads 3000 records"]
    heartbeat = json.dumps({"state": "running", "at": 1, "stats": {"processed_rate": 100.0}})
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    consumer = Consumer(settings)
    try:
        committed = [TopicPartition(topic, 0, 0, heartbeat), TopicPartition(topic, 1, 0)]
        consumer.commit(offsets=committed, asynchronous=False)
    finally:
        consumer.close()
    assert said() == [
        "a rebuild reads 3000 records: about 30 s at the 100 records/s of the job's last "
        "micro-batch"
    ]
