"""The password of the schema registry is replaced for a streaming job, while clients read the view
it derives."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.deployment import Deployment, views_toml
from tests.support.in_process.avro_examples import basic, framed, registry
from tests.support.plugins.fixtures import MakeTopic
from tests.system.security.readers import reading
from tests.system.security.rotating_world import PASSWORDS, reference_in, write_password
from tests.system.spark.security.counted_orders import (
    Orders,
    counts_readers,
    running_job,
    wait_for_counts,
)

ITEM = {"name": "item", "type": "string"}
FIRST = {"type": "record", "name": "Order", "fields": [ITEM]}
SECOND = {"type": "record", "name": "Order", "fields": [ITEM, {"name": "note", "type": "string"}]}
MODULE = f"""
from pyspark.sql import functions as F

from spark.formats.avro import AvroFormat
from spark.formats.decoders import FormatDecoder
from spark.formats.keys import int64
from spark.view import View


def counts(orders):
    counted = orders.groupBy("item").count()
    return counted.select(F.col("item").alias("key"), int64(F.col("count")).alias("value"))


VIEW = View(
    name="v",
    description="how many orders an item has",
    source="%s",
    topic="%s",
    decoder=FormatDecoder(AvroFormat({json.dumps(json.dumps(FIRST))}, is_framed=True)),
    derive=counts,
)
"""


def first(item: str) -> bytes:
    return framed(1, FIRST, {"item": item})


def second(item: str) -> bytes:
    return framed(2, SECOND, {"item": item, "note": ""})


def test_the_registry_password_of_a_streaming_job(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Without a restart of the job. Between the steps, records with a new schema wait, and reads do
    not. No record is lost, and none is counted twice."""
    old, new = (f"queryable:{password}" for password in PASSWORDS)
    servers, source = broker.bootstrap_servers, make_topic(partitions=1)
    derived = make_topic(partitions=1, cleanup_policy="compact")
    (tmp_path / "counts.py").write_text(MODULE % (source, derived))
    write_password(tmp_path, PASSWORDS[0])
    orders = Orders(servers, source)
    orders.write(first)

    def progress() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((tmp_path / "progress.json").read_text())["v"]
        return found

    with registry() as running:
        running.add(1, FIRST)
        running.add(2, SECOND)
        running.accepted = {old}
        views = views_toml(
            v={"topic": derived, "value": "int64", "spark_view": str(tmp_path / "counts.py")}
        )
        views += f'[schemas]\nregistry = "{running.url}"\n'
        auth = {"QUERYABLE_SCHEMA_REGISTRY_AUTH": f"queryable:{reference_in(tmp_path)}"}
        with (
            Deployment(tmp_path / "deployment", servers, views) as deployment,
            running_job(deployment.views_path, servers, tmp_path, **auth) as job,
        ):
            wait = partial(wait_for_counts, deployment, orders, job, tmp_path)
            deployment.start(1)
            nginx = deployment.proxy(workers=1)
            wait()
            with reading(counts_readers(deployment, nginx, orders)) as reads:
                running.accepted = {new}
                orders.write(first)
                wait()  # with the schema that the job has
                orders.write(second)
                wait_until(lambda: progress()["state"] == "failed", 30, "the view to fail", 0.1)
                assert "401" in progress()["last_error"]
                reads.all_again()
                write_password(tmp_path, PASSWORDS[1])
                wait()
                reads.all_again()
            refused = [path for path, header in running.asked if header == basic(old)]
            assert "/schemas/ids/2" in refused
            assert ("/schemas/ids/2", basic(new)) in running.asked
