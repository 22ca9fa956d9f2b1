"""Indexes of every kind of store: with retention, in memory, with values in Avro, and after
partitions were added to the topic."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from backend.ingest import expiry
from backend.ingest.indexes import work
from model.indexes.declaration import parse_indexes
from model.kinds.registry import KINDS
from model.rows.declared_fields import parse_declared_fields
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.cluster import Cluster
from tests.unit.backend.queries.scans.any_partition import cluster
from tests.unit.backend.queries.scans.grown_topic import Producer, place_all

FIELDS = parse_declared_fields({"dest": "string?", "delay": "int?", "tags": "strings?"})
INDEXES = parse_indexes(
    {"by-dest": ["dest"], "by-delay": ["delay", "dest"], "by-tags": ["tags", "dest"]}, FIELDS
)
DESTS = ["ATL", "JFK", "ORD"]
FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "dest", "type": "string"},
        {"name": "delay", "type": "int"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
INDEXED = [name for name, kind in KINDS.items() if not kind.has_versions]
AVRO = {"value": "avro", "value_schema": "confluent", "schemas": FakeSchemas(id7=FLIGHT)}
CONDITIONS: list[tuple[str, Callable[[Any], bool]]] = [
    *[(f"dest = '{dest}'", lambda row, dest=dest: row["dest"] == dest) for dest in DESTS],
    ("dest in ('ATL', 'ORD')", lambda row: row["dest"] in ("ATL", "ORD")),
    ("delay = 2 and dest = 'JFK'", lambda row: (row["delay"], row["dest"]) == (2, "JFK")),
    ("delay >= 2", lambda row: row["delay"] >= 2),
    ("delay is null", lambda row: False),
    ("contains(tags, 'a')", lambda row: "a" in row["tags"]),
    (
        "contains(tags, 'b') and dest = 'ORD'",
        lambda row: "b" in row["tags"] and row["dest"] == "ORD",
    ),
]


def asked(made: Cluster, instance: str, query: str, what: str = "") -> tuple[Any, str]:
    resource = what or made.view.kind.resource
    answer = made.ask(instance, "GET", f"/views/orders/{resource}?{query}")
    assert answer.status == 200, answer
    return json.loads(answer.body), answer.headers.get("plan", "")


def check(made: Cluster, chance: random.Random) -> set[str]:
    """An instance gives the rows of a query without a condition that meet it. The plans."""
    instance = chance.choice(list(made.nodes))
    rows = asked(made, instance, "limit=1000")[0]["items"]
    plans = set()
    for where, predicate in CONDITIONS:
        expected = [row for row in rows if predicate(row["value"])]
        order = chance.choice(("asc", "desc"))
        query = f"limit=1000&order={order}&where={quote(where)}"
        found, plan = asked(made, instance, query)
        assert found["items"] == (expected if order == "asc" else expected[::-1]), where
        plans.add(plan)
        count, _ = asked(made, instance, f"exact=true&where={quote(where)}", "count")
        assert count["count"] == len(expected), where
    return plans


def check_order(made: Cluster, chance: random.Random) -> None:
    """Rows are in the order of the fields of the index, then in that of a scan."""
    instance = chance.choice(list(made.nodes))
    rows = asked(made, instance, "limit=1000")[0]["items"]
    expected = sorted(rows, key=lambda row: (row["value"]["delay"], row["value"]["dest"]))
    found, plan = asked(made, instance, "limit=1000&order_by=delay")
    assert (found["items"], plan) == (expected, "index by-delay")
    found, _ = asked(made, instance, "limit=1000&order_by=delay&order=desc")
    assert found["items"] == expected[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("store", INDEXED)
@pytest.mark.parametrize(
    "fields",
    [{}, {"retention": 30}, {"persistence": "memory"}, AVRO],
    ids=["plain", "retention", "memory", "avro"],
)
def test_rows_are_those_of_a_scan(
    tmp_path: Path, store: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_FEW", 10)  # sweeps
    monkeypatch.setattr(expiry, "_BATCH_SIZE", 0)  # expired entries are still there
    chance = random.Random(f"{store} {sorted(fields)}")
    encode = to_avro if "schemas" in fields else to_json
    declared = {"fields": FIELDS, "indexes": INDEXES, "store": store, **fields}
    with cluster(tmp_path, **declared) as made:
        producer = Producer(made)
        plans: set[str] = set()
        for at in range(100):
            key = b"key %d" % chance.randrange(20)
            value = None if chance.random() < 0.2 else encode(chance)
            producer.send(key, value, at, since=at - chance.randrange(8))
            if chance.random() < 0.1:
                made.settle()
                plans |= check(made, chance)
                if at <= 70:
                    check_order(made, chance)
            if at == 70:
                made.settle()
                assert {plan for plan in plans if "index" in plan} == plans
                monkeypatch.setattr(expiry, "_BATCH_SIZE", 2)
                made.add_partitions(2)
                producer.knows = 5
                place_all(made)
        made.settle()
        check(made, chance)


def some_row(chance: random.Random) -> dict[str, Any]:
    tags = chance.choices("abc", k=chance.randrange(4))
    return {"dest": chance.choice(DESTS), "delay": chance.randrange(4), "tags": tags}


def to_json(chance: random.Random) -> bytes:
    return json.dumps(some_row(chance)).encode()


def to_avro(chance: random.Random) -> bytes:
    return framed(7, FLIGHT, some_row(chance))
