"""Indexes of pushes after kill -9: an instance answers from the store before, or from the new one
with all its index keys."""

from __future__ import annotations

import json
import random
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

from local.kafka.broker import Broker
from model.partitioner import partition_of
from model.views_file import parse_views
from spark.batch.offsets import pin
from tests.support.backends import Backend
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.pushes import push
from tests.support.topics import Writer

PARTITIONS = 2
ROWS = 40_000
DESTS = 100
FACTORS = (1, 3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31, 33, 37)  # without a factor of DESTS
CONDITIONS = ["dest = 'D7'", "contains(tags, 'D7')", "dest in ('D3', 'D9') and n > 0"]
TABLES = """
[views.v.fields]
dest = "string?"
n = "int?"
tags = "strings?"
[views.v.indexes]
by-dest = ["dest", "n"]
by-tag = ["tags"]
"""
PLANS = {"index by-dest", "index by-tag"}
READ, BEGUN, INSTALLED = "newest push is {}", "push {} is at offset", "push {} is installed"


def table_of(number: int) -> dict[str, Any]:
    """The rows of a push. Each push has other rows for each condition."""
    return {
        f"key {row}": {
            "dest": f"D{row * FACTORS[number] % DESTS}",
            "n": number,
            "tags": [f"D{row * FACTORS[-number] % DESTS}", f"t{row}"],
        }
        for row in range(ROWS)
    }


def meets(condition: str, row: Any) -> bool:
    if condition == CONDITIONS[0]:
        return bool(row["dest"] == "D7")
    if condition == CONDITIONS[1]:
        return "D7" in row["tags"]
    return row["dest"] in ("D3", "D9") and row["n"] > 0


class Tables:
    """The rows that answers may have: those of the last pushes."""

    def __init__(self) -> None:
        self.by_push: dict[int, dict[tuple[str, int], set[str]]] = {}

    def add(self, number: int) -> dict[str, str]:
        """The rows of a push, as JSON."""
        table = table_of(number)
        home = partition_of("murmur2")
        expected: dict[tuple[str, int], set[str]] = {}
        for condition in CONDITIONS:
            for partition in range(PARTITIONS):
                expected[condition, partition] = {
                    key
                    for key, row in table.items()
                    if home(key.encode(), PARTITIONS) == partition and meets(condition, row)
                }
        self.by_push[number] = expected
        return {key: json.dumps(row) for key, row in table.items()}

    def check(self, backend: Backend, allowed: set[int]) -> tuple[set[int], set[str]]:
        """The pushes that the instance answers from, and the plans. Each answer has all rows of one
        of those that are allowed. There is none if the instance is not ready."""
        pushes: set[int] = set()
        plans: set[str] = set()
        for condition in CONDITIONS:
            for partition in range(PARTITIONS):
                path = f"/views/v/keys?limit=1000&partition={partition}&where={quote(condition)}"
                answer = backend.try_get(path)
                if answer is None or answer.status == 503:
                    continue
                assert answer.status == 200, answer
                page = answer.json()
                if page["next"] is not None:
                    continue  # it has ended after a second
                items = page["items"]
                [number] = {item["value"]["n"] for item in items}
                assert number in allowed
                keys = [item["key"] for item in items]
                assert len(keys) == len(set(keys))
                assert set(keys) == self.by_push[number][condition, partition], condition
                pushes.add(number)
                plans.add(answer.headers["Plan"])
        return pushes, plans


def test_a_kill_leaves_the_store_before_or_the_new_one(
    tmp_path: Path, deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    chance = random.Random(20130101)
    topic, pushes = make_topic(PARTITIONS), tmp_path / "pushes"
    pushes.mkdir()
    text = views_toml(v={"topic": topic, "push": str(pushes)}) + TABLES
    [view] = parse_views(text).views
    deployment = deploy(text)
    tables = Tables()

    def publish(number: int) -> str:
        pins = pin("v", broker.bootstrap_servers, str(deployment.views_path))
        id_ = push(pushes, view, pins, tables.add(number))
        writer.table(topic, {"live": {"dest": "LIVE", "n": number, "tags": []}})
        return id_

    def is_new() -> bool:
        """Whether all answers are from the last push. Every answer is found by an index."""
        pushes, plans = tables.check(backend, {number - 1, number})
        assert plans <= PLANS, plans
        return pushes == {number}

    def some_time(text: str, most: int) -> None:
        """Until the log has a text, and then for a random number of answers."""
        backend.wait_log(text)
        for _ in range(chance.randrange(most)):
            is_new()

    number = 1
    publish(number)
    backend = deployment.new().start()
    backend.wait(lambda: tables.check(backend, {1}) == ({1}, PLANS), "the indexes of the first")
    moments = [(READ, 2), (BEGUN, 4), (INSTALLED, 1), (BEGUN, 8)]
    unfinished = 0
    for number, (text, most) in zip(range(2, 8), cycle(moments), strict=False):
        id_ = publish(number)
        some_time(text.format(id_), most)
        begun, count = (backend.log().count(text.format(id_)) for text in (BEGUN, INSTALLED))
        backend.kill()
        unfinished += begun > count
        backend.launch()
        backend.wait(is_new, "the push")
    settle([backend])
    live = backend.get("/views/v/by/dest/LIVE")
    assert [item["value"]["n"] for item in live.json()["items"]] == [number]
    assert tables.check(backend, {number}) == ({number}, PLANS)
    assert unfinished > 1, unfinished
