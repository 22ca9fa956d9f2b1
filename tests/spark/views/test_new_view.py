"""A new view needs two files: its module and its entry in views.toml."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from spark.options import parse
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from tests.support.deployment import Deployment
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

MODULE = '''
"""cities-by-length: names of cities, by their length in words. Its Python code runs in workers."""

import pyarrow as pa
from pyspark.sql import functions as F

from spark.raw_topics.texts import TEXTS
from spark.view import View

MARK = "city"


def in_python(batches):
    for batch in batches:
        names = batch.column("text").to_pylist()
        keys = [f"{{MARK}}-{{len(name.split())}}" for name in names]
        yield pa.RecordBatch.from_pydict({{"length": keys, "name": names}})


def cities(texts):
    rows = texts.mapInArrow(in_python, "length string, name string")
    longest = rows.groupBy("length").agg(F.max("name").alias("last"))
    return longest.select(F.col("length").alias("key"), F.to_json(F.struct("last")).alias("value"))


VIEW = View(
    name="cities-by-length",
    description="the last city in the alphabet of each length",
    source="{source}",
    topic="{topic}",
    decoder=TEXTS,
    derive=cities,
)
'''

ENTRY = """
[views.cities]
topic = "{topic}"
key = "string"
value = "json"
pipeline = "queryable-spark-cities-by-length"
"""


def test_a_users_view_is_derived_and_served(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(), make_topic(partitions=2, cleanup_policy="compact")
    module = tmp_path / "cities.py"
    module.write_text(MODULE.format(source=source, topic=topic))
    views_toml = tmp_path / "views.toml"
    views_toml.write_text(ENTRY.format(topic=topic))
    Writer(broker.bootstrap_servers).send(
        source, [(b"k", b"New York"), (b"k", b"Newark"), (b"k", b"Oslo"), (b"k", b"\xff")]
    )

    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    checkpoints = ["--checkpoint-dir", str(tmp_path / "checkpoints")]
    settings = parse(
        [str(module), "--once", "--views-toml", str(views_toml), *servers, *checkpoints]
    )
    supervise(session, settings, StopSignal())

    with Deployment(
        tmp_path / "backends", broker.bootstrap_servers, views_toml.read_text()
    ) as all_:
        [backend] = all_.start(1)
        for key, last in (("city-1", "Oslo"), ("city-2", "New York")):
            backend.wait(
                lambda key=key: backend.get(f"/views/cities/keys/{key}").status == 200, "a view", 30
            )
            answer = backend.get(f"/views/cities/keys/{key}")
            assert json.loads(answer.body)["value"] == {"last": last}
