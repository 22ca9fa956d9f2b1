"""The indexes of a push are built before it replaces a store, while records arrive."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from backend.ingest.indexes import work
from model.indexes.declaration import parse_indexes
from model.rows.declared_fields import parse_declared_fields
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.pushes import push
from tests.support.reference.tables import Record

FIELDS = parse_declared_fields({"dest": "string?", "delay": "int?"})
INDEXES = parse_indexes({"by-dest": ["dest"], "by-delay": ["delay", "dest"]}, FIELDS)
B1, B2 = range(2)
DESTS = ["ATL", "JFK", "ORD"]


def _one_slice_a_call(next_work: Any) -> Any:
    """There is no more work after each slice, until the next call of `IndexWork.run`."""
    ends = cycle((False, True))
    return lambda store_partition: None if next(ends) else next_work(store_partition)


@pytest.fixture
def cluster(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """b1 is active for both partitions, b2 is standby. A build takes many rounds."""
    monkeypatch.setattr(work, "_SLICE", 5)
    monkeypatch.setattr(work, "next_work", _one_slice_a_call(work.next_work))
    view = replace(ORDERS, push=str(folder), fields=FIELDS, indexes=INDEXES)
    made = Cluster(tmp_path, view, instances=2, partitions=2)
    made.place([B1, B1], [[B2], [B2]])
    yield made
    made.close()


def write(cluster: Cluster, key: str, row: Any) -> None:
    partition = cluster.home(key.encode())
    log = cluster.logs[partition]
    value = None if row is None else json.dumps(row).encode()
    cluster.write(Record(len(log), key.encode(), (), value, 1_000 + len(log)), partition)


def some_row(chance: random.Random) -> Any:
    return {"dest": chance.choice(DESTS), "delay": chance.randrange(4)}


def asked(cluster: Cluster, instance: str, where: str = "") -> tuple[dict[str, Any], str]:
    """The rows by key, and the plan."""
    condition = f"&where={quote(where)}" if where else ""
    answer = cluster.ask(instance, "GET", f"/views/orders/keys?limit=1000{condition}")
    assert answer.status == 200, answer
    items = json.loads(answer.body)["items"]
    return {item["key"]: item["value"] for item in items}, answer.headers["plan"]


def check(cluster: Cluster, instance: str) -> None:
    """Every answer has the rows that a scan of the same stores has, and comes from an index."""
    rows, _ = asked(cluster, instance)
    for dest in DESTS:
        expected = {key: row for key, row in rows.items() if row["dest"] == dest}
        assert asked(cluster, instance, f"dest = '{dest}'") == (expected, "index by-dest")
        late = {key: row for key, row in expected.items() if row["delay"] == 2}
        found = asked(cluster, instance, f"delay = 2 and dest = '{dest}'")
        assert found == (late, "index by-delay")


def ids(cluster: Cluster, instance: str) -> set[str]:
    return {each.metadata.push for each in cluster.nodes[instance].store_partitions.all()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_push_answers_with_all_its_index_keys(cluster: Cluster, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    cluster.settle()
    builds = 0
    for _ in range(3):
        pushed = {f"k{n}": json.dumps(some_row(chance)) for n in range(60)}
        before = [len(log) for log in cluster.logs]
        write(cluster, "k1", some_row(chance))
        id_ = push(folder, cluster.view, before, pushed)
        for _ in range(200):
            for instance in ("b1", "b2"):
                if chance.random() < 0.8:
                    cluster.turn(instance, most=3)
                check(cluster, instance)
                candidates = cluster.nodes[instance].store_partitions.candidates()
                for candidate in candidates:
                    assert candidate.indexes is not None
                    builds += candidate.indexes.is_building
            write(cluster, f"k{chance.randrange(80)}", chance.choice([None, some_row(chance)]))
            if ids(cluster, "b1") == ids(cluster, "b2") == {id_}:
                break
        assert ids(cluster, "b1") == ids(cluster, "b2") == {id_}, "it is never installed"
    assert builds > 10
