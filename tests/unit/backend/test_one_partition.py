"""Pages and streams of one partition: together they are those of the view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.tables import Record

KEYS = sorted(f"k{n}" for n in range(30))
LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three partitions on two instances."""
    made = Cluster(tmp_path, ORDERS, instances=2, partitions=3)
    made.place([0, 1, 0])
    for key in KEYS:
        write(made, key, made.home(key.encode()))
    made.settle()
    yield made
    made.close()


def write(cluster: Cluster, key: str, partition: int) -> None:
    offset = len(cluster.logs[partition])
    cluster.write(Record(offset, key.encode(), (), b"1", 1_000), partition)


def stream(cluster: Cluster, partition: int) -> list[str]:
    answer = cluster.ask("b1", "GET", f"/views/orders/keys?partition={partition}", headers=LINES)
    assert answer.status == 200
    return [json.loads(line)["key"] for line in answer.body.splitlines()]


def pages(cluster: Cluster, partition: int) -> list[str]:
    found, cursor = list[str](), ""
    while True:
        path = f"/views/orders/keys?partition={partition}&limit=4{cursor}"
        document = json.loads(cluster.ask("b1", "GET", path).body)
        found += [item["key"] for item in document["items"]]
        if document["next"] is None:
            return found
        cursor = f"&cursor={document['next']}"


def test_each_partition_has_its_keys_in_order(cluster: Cluster) -> None:
    for partition in range(3):
        expected = [key for key in KEYS if cluster.home(key.encode()) == partition]
        assert stream(cluster, partition) == expected
        assert pages(cluster, partition) == expected


def test_a_cursor_of_one_partition_is_not_one_of_another(cluster: Cluster) -> None:
    first = cluster.ask("b1", "GET", "/views/orders/keys?partition=0&limit=1")
    cursor = json.loads(first.body)["next"]
    for partition in ("&partition=1", ""):
        path = f"/views/orders/keys?limit=1&cursor={cursor}{partition}"
        answer = cluster.ask("b1", "GET", path)
        assert (answer.status, json.loads(answer.body)["code"]) == (400, "cursor-invalid")


@pytest.mark.parametrize("partition", ["3", "-1", "x", "99999999999999999999"])
def test_a_partition_that_does_not_exist_is_refused(cluster: Cluster, partition: str) -> None:
    answer = cluster.ask("b1", "GET", f"/views/orders/keys?partition={partition}")
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "bad-parameter")


@pytest.mark.parametrize("headers", [{}, LINES], ids=["page", "stream"])
def test_one_partition_of_a_mispartitioned_view_is_refused(
    cluster: Cluster, headers: dict[str, str]
) -> None:
    """A key may have a newer entry in another partition."""
    write(cluster, "k1", (cluster.home(b"k1") + 1) % 3)
    cluster.settle()
    answer = cluster.ask("b1", "GET", "/views/orders/keys?partition=0", headers=headers)
    assert (answer.status, json.loads(answer.body)["code"]) == (503, "mis-partitioned")
    assert cluster.ask("b1", "GET", "/views/orders/keys", headers=headers).status == 200
