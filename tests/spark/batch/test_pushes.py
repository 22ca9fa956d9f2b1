"""A push from Spark into running backends, with live records before, during and after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from local.settings import REPOSITORY
from model.pushes.manifest import Pinned
from spark.batch.data_source import register
from spark.batch.distribution import distribute
from spark.deployment import read_deployment
from tests.support.backends import Backend
from tests.support.client import Response, key_path
from tests.support.deployment import views_toml
from tests.support.docs_examples import BLOCK
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.pushes import manifest_of
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

PAGE = (REPOSITORY / "docs" / "push.md").read_text()
PUSHED = {f"sku-{n}": {"price": n, "currency": "EUR"} for n in range(500)}


def value(backend: Backend, key: str) -> Any:
    answer = backend.get(key_path("prices", key))
    return answer.json()["value"] if answer.status == 200 else answer.status


def installed(backend: Backend) -> set[str | None]:
    return {each.get("push") for each in backend.partitions("prices")}


def test_the_example_of_the_docs_with_live_records(
    session: SparkSession,
    broker: Broker,
    deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path: Path,
) -> None:
    topic, raw = make_topic(3), make_topic(1)
    folder = tmp_path / "pushes"
    folder.mkdir()
    deployment = deploy(
        views_toml(prices={"topic": topic, "push": str(folder)}), standby_replicas="1"
    )
    backends = deployment.start(2)
    writer.table(topic, {"sku-1": {"price": -1}, "gone": {"price": -2}})
    session.createDataFrame(
        [(key, row["price"], row["currency"]) for key, row in PUSHED.items()],
        "sku string, price int, currency string",
    ).write.parquet(str(tmp_path / "prices.parquet"))
    for backend in backends:
        backend.wait(lambda b=backend: value(b, "gone") == {"price": -2}, "the first records")

    def judge(path: str, answer: Response) -> str:
        seen = answer.status == 200 and answer.json()["value"]
        return "" if seen in ({"price": -1}, PUSHED["sku-1"]) else f"{path}: {answer}"

    third = deployment.new()
    url = f"http://127.0.0.1:{third.port}"
    example, second, read_back = (
        text.replace("broker:9092", broker.bootstrap_servers)
        .replace("prices.parquet", str(tmp_path / "prices.parquet"))
        .replace('"views.toml"', repr(str(deployment.views_path)))
        .replace("raw-prices", raw)
        .replace("http://proxy:8080", url)
        for kind, text in BLOCK.findall(PAGE)
        if kind == "py"
    )
    first_lines, write = example.split("prices = spark.read")
    names: dict[str, Any] = {"spark": session}
    ports = [backend.port for backend in backends]
    with ReadLoop(ports, [key_path("prices", "sku-1")], judge) as reads:
        exec(first_lines, names)
        writer.table(topic, {"sku-2": {"price": 2.5}, "sku-3": None})
        exec(f"prices = spark.read{write}", names)
        push = json.loads((folder / "current.json").read_bytes())["push"]
        for backend in backends:
            backend.wait(lambda b=backend: installed(b) == {push}, "the push")
        reads.all_again()
    assert set(reads.outcomes) == {"200"}, "not one read failed"
    writer.table(topic, {"sku-4": {"price": 4.5}})
    for backend in backends:
        backend.wait(lambda b=backend: value(b, "sku-4") == {"price": 4.5}, "a live record")
        expected: dict[str, Any] = {
            **PUSHED,
            "sku-2": {"price": 2.5},
            "sku-4": {"price": 4.5},
            "gone": 404,
        }
        expected["sku-3"] = 404
        for key in ("sku-1", "sku-2", "sku-3", "sku-4", "sku-499", "gone"):
            assert value(backend, key) == expected[key], (backend.id, key)
        count = backend.get("/views/prices/count?exact=true").json()["count"]
        assert count == len(PUSHED) - 1

    # it has no data directory: the push is on its disk before it answers
    third.launch()
    third.wait_ready()
    assert value(third, "sku-499") == PUSHED["sku-499"]

    exec(read_back, names)
    table = names["table"]
    assert table.rdd.getNumPartitions() == 3
    assert {row.key: json.loads(row.value) for row in table.collect()} == {
        key: value for key, value in expected.items() if value != 404
    }
    read = session.read.format("queryable").option("view", "prices").option("url", url)
    typed = read.schema("key string, price double, currency string").load()
    assert typed.where("key in ('sku-5', 'sku-4')").orderBy("key").collect() == [
        ("sku-4", 4.5, None), ("sku-5", 5.0, "EUR")
    ]  # fmt: skip

    exec(second, names)
    assert json.loads(names["until"]) == {raw: {"0": 0}}


def test_a_session_knows_the_format_after_register(session: SparkSession) -> None:
    register(session)
    with pytest.raises(Exception, match="offsets"):
        session.range(1).selectExpr("'a' as key", "'1' as value").write.format("queryable").option(
            "view", "word-count"
        ).option("views", str(REPOSITORY / "views.toml")).mode("overwrite").save()


def test_distributed_rows_are_one_file_for_each_partition(
    session: SparkSession, tmp_path: Path
) -> None:
    register(session)
    (tmp_path / "pushes").mkdir()
    views = tmp_path / "views.toml"
    views.write_text(views_toml(orders={"topic": "orders", "push": "pushes"}))
    by_name = {view.name: view for view in read_deployment(views).views}
    offsets = Pinned("orders", "orders", "topic-1", 1, {"orders": {0: 0, 1: 0, 2: 0}})
    rows = session.range(0, 600, 1, 5).selectExpr("concat('k', id) as key", "id as number")
    (
        distribute(rows, by_name["orders"], offsets)
        .write.format("queryable")
        .options(view="orders", views=str(views), offsets=offsets.encode())
        .mode("overwrite")
        .save()
    )
    push = json.loads((tmp_path / "pushes" / "current.json").read_bytes())["push"]
    manifest = manifest_of(tmp_path / "pushes", push)
    assert [file.partition for file in manifest.files] == [0, 1, 2]
    assert manifest.entries == 600
