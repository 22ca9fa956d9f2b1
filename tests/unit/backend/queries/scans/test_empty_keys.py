"""The empty key of librdkafka's default partitioner: its records are in any partition, those of all
other keys are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere, put

KEYS = [b"key %d" % n for n in range(3)]
EMPTY = "keys/?encoding=base64url"


def one(of: Cluster, value: object) -> None:
    """Every instance answers this value for the empty key, and lists it once."""
    expected = {"key": "", "value": value}
    for status, document in everywhere(of, EMPTY):
        assert (status, document) == (200, expected)
    for status, page in everywhere(of, "keys"):
        assert status == 200
        assert [item for item in page["items"] if not item["key"]] == [expected]
        assert len(page["items"]) == len(KEYS) + 1
    counted = (200, {"count": len(KEYS) + 1, "exact": True})
    assert everywhere(of, "count?exact=true") == [counted] * len(of.nodes)
    for _, ranked in everywhere(of, "top?by=n"):
        assert [item for item in ranked["items"] if not item["key"]] == [expected]


def gone(of: Cluster) -> None:
    assert {status for status, _ in everywhere(of, EMPTY)} == {404}
    for _, page in everywhere(of, "keys"):
        assert [item["key"] for item in page["items"]] == [key.decode() for key in KEYS]
    counted = (200, {"count": len(KEYS), "exact": True})
    assert everywhere(of, "count?exact=true") == [counted] * len(of.nodes)


@pytest.mark.parametrize(("store", "last"), [("key-value", 0), ("key-value", 1), ("versioned", 2)])
def test_the_newest_record_counts_in_whichever_partition_it_lies(
    tmp_path: Path, store: str, last: int
) -> None:
    with cluster(tmp_path, partitioner="crc32", store=store) as made:
        for key in KEYS:
            put(made, made.home(key), key, b'{"n":1}', 10)
        gone(made)
        put(made, last, b"", b'{"n":0}', 11)
        one(made, {"n": 0})
        put(made, (last + 1) % 3, b"", b'{"n":5}', 13)
        put(made, (last + 2) % 3, b"", b'{"n":4}', 12)
        one(made, {"n": 5})
        put(made, last, b"", None, 14)
        gone(made)
        put(made, (last + 2) % 3, b"", b'{"n":6}', 15)
        one(made, {"n": 6})
        for id_ in made.nodes:
            made.stop(id_)
            made.start(id_)
            made.settle()
        one(made, {"n": 6})


def test_the_view_is_not_mispartitioned(tmp_path: Path) -> None:
    """Each other key is read from its partition alone, and can be followed."""
    with cluster(tmp_path, partitioner="crc32") as made:
        for key in KEYS:
            put(made, made.home(key), key, b'{"n":1}', 10)
        for partition in range(3):
            put(made, partition, b"", b'{"n":2}', 11)
        for node in made.nodes.values():
            registry = node.context.store_partitions
            assert registry.mispartitioned_views() == ()
        for key in KEYS:
            path = f"keys/{key.decode().replace(' ', '%20')}"
            for id_ in made.nodes:
                answer = made.ask(id_, "GET", f"/views/orders/{path}", b"", {})
                assert answer.status == 200
                # an answer from all partitions has no partition
                assert answer.headers["partition"] == str(made.home(key))


def test_another_key_in_a_wrong_partition_makes_it_mispartitioned(tmp_path: Path) -> None:
    with cluster(tmp_path, partitioner="crc32") as made:
        put(made, 1, b"", b'{"n":2}', 11)
        put(made, (made.home(KEYS[0]) + 1) % 3, KEYS[0], b'{"n":1}', 10)
        assert made.mispartitioned


@pytest.mark.parametrize("partitioner", ["murmur2", "fnv1a"])
def test_other_partitioners_place_the_empty_key(tmp_path: Path, partitioner: str) -> None:
    with cluster(tmp_path, partitioner=partitioner) as made:
        put(made, made.home(b""), b"", b'{"n":2}', 11)
        assert not made.mispartitioned
        put(made, (made.home(b"") + 1) % 3, b"", b'{"n":3}', 12)
        assert made.mispartitioned


def test_batches_have_the_empty_key(tmp_path: Path) -> None:
    with cluster(tmp_path, partitioner="crc32") as made:
        put(made, made.home(KEYS[0]), KEYS[0], b'{"n":1}', 10)
        put(made, 2, b"", b'{"n":2}', 11)
        for id_ in made.nodes:
            headers = {"content-type": "application/json"}
            body = b'{"keys":["key 0",""]}'
            answer = made.ask(id_, "POST", "/views/orders/batch", body, headers)
            assert answer.json()["items"] == [
                {"key": "key 0", "status": 200, "value": {"n": 1}},
                {"key": "", "status": 200, "value": {"n": 2}},
            ]
