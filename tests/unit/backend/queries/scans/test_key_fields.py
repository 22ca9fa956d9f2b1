"""Views whose keys are named by fields of documents: `key_fields`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.in_process.cluster import Cluster
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere, put

# the same key with and without Connect's schema, by another producer, and with spaces
SHAPES = (
    '{"order":%d,"line":%s}', '{"schema":{},"payload":{"order":%d,"line":%s}}',
    '{ "order": %d, "line": %s }',
)  # fmt: skip


def line(of: Cluster, partition: int, order: int, number: Any, value: Any, time: int) -> None:
    """Each partition has keys in another shape."""
    key = (SHAPES[partition] % (order, json.dumps(number))).encode()
    put(of, partition, key, None if value is None else json.dumps(value).encode(), time)


def same(of: Cluster, target: str) -> Any:
    """The document that every instance answers with 200."""
    [(status, document), *others] = everywhere(of, target)
    assert others == [(status, document)] * (len(of.nodes) - 1)
    assert status == 200, document
    return document


def listed(of: Cluster, query: str = "") -> list[str]:
    return [item["key"] for item in same(of, f"keys?{query}")["items"]]


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    fields = {"key": "json", "key_fields": ("order", "line"), "partitioner": "none"}
    with cluster(tmp_path, **fields) as made:
        yield made


def test_a_key_is_found_by_its_fields_and_its_newest_record_counts(lines: Cluster) -> None:
    for time, partition in enumerate((0, 2, 1)):
        line(lines, partition, 10, 2, {"n": partition}, 10 + time)
        assert same(lines, "keys/10,2") == {"key": "10,2", "value": {"n": partition}}
    line(lines, 2, 10, 2, {"n": 9}, 11)  # it is older than that in partition 1
    assert same(lines, "keys/10,2")["value"] == {"n": 1}
    assert same(lines, "count?exact=true")["count"] == 1
    line(lines, 0, 10, 2, None, 20)
    assert {status for status, _ in everywhere(lines, "keys/10,2")} == {404}
    assert listed(lines) == []


@pytest.mark.slow
def test_listed_keys_are_in_order_and_found_by_their_text(lines: Cluster) -> None:
    numbers = [2, 10, -1, "a,b", "a", "", None, "a/../b", "\0", '"']
    for at, number in enumerate(numbers):
        for order in (9, 10):
            line(lines, at % 3, order, number, {"n": at}, 10)
    keys = listed(lines)
    in_order = [None, -1, 2, 10, "", "\0", '"', "a", "a,b", "a/../b"]
    values = [numbers.index(number) for number in in_order]
    items = same(lines, "keys")["items"]
    assert [item["value"]["n"] for item in items] == values * 2
    assert [key.partition(",")[0] for key in keys] == ["9"] * 10 + ["10"] * 10
    for key, value in zip(keys, values * 2, strict=True):
        assert same(lines, f"keys/{quote(key, safe='')}") == {"key": key, "value": {"n": value}}
    assert listed(lines, "prefix=10") == keys[10:]
    assert listed(lines, "prefix=10,a") == ["10,a"]
    assert listed(lines, "from=10") == listed(lines, "from=9%2C%22z%22&order=asc") == keys[10:]
    assert listed(lines, "to=9&order=desc") == keys[9::-1]
    assert listed(lines, "from=9,2&to=9,10") == ["9,2", "9,10"]
    [first] = same(lines, "keys?limit=1")["items"]
    cursor = same(lines, "keys?limit=1")["next"]
    assert [first["key"], *listed(lines, f"cursor={cursor}")] == keys


def test_batches_bodies_and_record_bytes(lines: Cluster) -> None:
    line(lines, 1, 10, "a,b", {"n": 1}, 10)
    expected = [{"key": '10,"a,b"', "value": {"n": 1}}]
    for key in ('10,"a,b"', {"line": "a,b", "order": 10}):
        body = json.dumps({"keys": [key]}).encode()
        for id_ in lines.nodes:
            answer = lines.ask(id_, "POST", "/views/orders/batch", body, {})
            assert [{n: item[n] for n in ("key", "value")} for item in answer.json()["items"]] == (
                expected
            )


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("keys/10", 400, "key-undecodable"), ("keys/1,2,3", 400, "key-undecodable"),
        ("keys?prefix=1,2,3", 400, "bad-parameter"), ("keys?from=%22", 400, "bad-parameter"),
        ("keys/10,3", 404, "key-not-found"),
    ],
)  # fmt: skip
def test_what_is_no_key_says_why(lines: Cluster, target: str, status: int, code: str) -> None:
    for found, problem in everywhere(lines, target):
        assert (found, problem["code"]) == (status, code)
    if code == "key-undecodable":
        assert "order, line" in problem["detail"] or "2 fields" in problem["detail"]


@pytest.mark.parametrize("store", ["key-value", "global"])
def test_all_shapes_of_a_key_are_one_entry(tmp_path: Path, store: str) -> None:
    fields = {"key": "json", "key_fields": ("order", "line"), "partitioner": "none"}
    with cluster(tmp_path, store=store, **fields) as made:
        for time, partition in enumerate((0, 2, 1, 0)):
            line(made, partition, 1, "a", {"n": time}, 10 + time)
        assert same(made, "keys/1,a")["value"] == {"n": 3}
        assert same(made, "keys")["items"] == [{"key": "1,a", "value": {"n": 3}}]
        line(made, 2, 1, "a", None, 20)
        assert listed(made) == []


def test_a_record_without_the_fields_is_a_dead_letter(tmp_path: Path) -> None:
    fields = {"key": "json", "key_fields": ("id",), "partitioner": "none"}
    with cluster(tmp_path, store="versioned", **fields) as made:
        put(made, 0, b'{"id":1}', b"1", 10)
        put(made, 1, b'{ "id": 1 }', b"2", 20)
        put(made, 1, b'{"other":1}', b"3", 30)
        put(made, 1, b"\xff1", b"4", 30)
        assert listed(made) == ["1"]
        assert same(made, "keys/1")["value"] == 2
        assert same(made, "keys/1?as_of=15")["value"] == 1
        versions = same(made, "keys/1/versions")["items"]
        assert [each["value"] for each in versions] == [1, 2]
