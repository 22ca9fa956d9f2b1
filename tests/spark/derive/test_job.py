"""The job finds derived views by their entries, and backends serve what it writes."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from local.settings import StackSettings
from local.spark_views import derived_views
from spark.options import parse
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.views import VIEWS
from tests.support.deployment import Deployment
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

VIEWS_TOML = """\
[views.{topic}.derive]
from = "{source}"
fields = {{ client = "string", bytes = "long 0..1000" }}
key = "client"
count = {{ requests = true }}
sum = {{ bytes = "bytes" }}
"""
JOIN = """
[views.{topic}.derive]
from = "{source}"
fields = {{ client = "string" }}
key = "coalesce(owner.name, 'nobody')"
count = true
join.owner = {{ from = "{owners}", static = true, on = "client", fields = {{ name = "string" }} }}
"""


def test_tables_of_toml_are_derived_and_served(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source = make_topic()
    topic = f"{source}-by-client"  # the job makes it
    views_toml = tmp_path / "views.toml"
    owners, joined = make_topic(cleanup_policy="compact"), f"{source}-by-owner"
    views_toml.write_text(
        VIEWS_TOML.format(source=source, topic=topic)
        + JOIN.format(source=source, topic=joined, owners=owners)
    )
    lines = [("a", 1), ("b", 5), ("a", 2), ("a", 1001)]
    writer = Writer(broker.bootstrap_servers)
    writer.send(owners, [(b"a", b'{"name":"Al"}'), (b"a", b'{"name":"Ann"}')])
    writer.send(
        source,
        [(b"k", json.dumps({"client": name, "bytes": size}).encode()) for name, size in lines],
    )
    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    checkpoints = ["--checkpoint-dir", str(tmp_path / "checkpoints")]
    given = parse(["--once", "--views-toml", str(views_toml), *servers, *checkpoints])
    assert [view.name for view in given.views] == [topic, joined]
    supervise(session, given, StopSignal())

    [letters] = history(broker.bootstrap_servers, f"{source}.dead-letter", 1)
    assert [value for _, _, _, value in letters.records] == [b'{"client": "a", "bytes": 1001}']
    with Deployment(
        tmp_path / "backends", broker.bootstrap_servers, views_toml.read_text()
    ) as all_:
        [backend] = all_.start(1)
        for key, requests, size in (("a", 2, 3), ("b", 1, 5)):
            path = f"/views/{topic}/keys/{key}"
            backend.wait(lambda path=path: backend.get(path).status == 200, "a view", 30)
            value = json.loads(backend.get(path).body)["value"]
            assert value == {"requests": requests, "bytes": size}
        for key, count in (("Ann", 3), ("nobody", 1)):
            path = f"/views/{joined}/keys/{key}"
            backend.wait(lambda path=path: backend.get(path).status == 200, "a view", 30)
            assert json.loads(backend.get(path).body)["value"] == count


def test_views_with_and_without_python_start_in_the_order_of_their_entries(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    text = VIEWS_TOML.format(topic="word-count", source="texts")
    python = 'topic = "airports"\nkey = "string"\nvalue = "json"'
    file.write_text(
        f'[views.a]\nspark_view = "spark.views.airports:VIEW"\n{python}\n{text}\n'
        "[views.word-count]\npartitions = 7\n"
    )
    given = parse(["--checkpoint-dir", "x", "--views-toml", str(file)])
    assert [(view.name, view.partitions) for view in given.views] == [("a", 3), ("word-count", 7)]
    named = parse(["word-count", "--checkpoint-dir", "x", "--views-toml", str(file)])
    assert named.views == given.views[1:]
    assert named.views != [VIEWS["word-count"]]


def test_a_stack_derives_the_views_of_tables_without_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    file.write_text(VIEWS_TOML.format(topic="hosts", source="weblog"))
    found = derived_views(StackSettings(bootstrap_servers="broker:9092", views=file))
    assert {name: (view.sources, view.argument) for name, view in found.items()} == {
        "hosts": (("weblog",), "hosts")
    }
