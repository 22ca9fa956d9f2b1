"""Batches, over the partitions of two instances."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.queries import batch as batches
from backend.queries.key_bodies import parse_batch
from model.formats.avro.schema import AvroSchema
from model.formats.schemas import SchemaNotYet
from model.limits import MAX_BATCH_BYTES
from model.problems import StoreError
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import World, world


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made


def test_in_the_order_asked(orders: World) -> None:
    orders.put_all({b"%d" % n: b'{"n":%d}' % n for n in range(50)})
    assert orders.batch(["keys", "keys"]).json["items"] == [{"key": "keys", "status": 404}] * 2
    asked = [*map(str, reversed(range(0, 50, 7))), "none", "7", ""]
    for instance in ("b1", "b2"):
        said = orders.batch(asked, instance)
        assert said.status == 200
        assert said.named[b"content-type"] == b"application/json"
        assert said.json["items"] == [
            {"key": key, "status": 200, "value": {"n": int(key)}}
            if key.isdigit()
            else {"key": key, "status": 404}
            for key in asked
        ]
    assert orders.peers.asked[-2:] == [("b2", b"/internal/batch"), ("b1", b"/internal/batch")]
    assert orders.batch([]).json == {"items": []}


def test_an_instance_of_an_older_version_does_not_know_a_parameter(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.put_all({b"%d" % n: b"1" for n in range(20)})
    keys = [str(n) for n in range(20)]
    known = batches._options_of
    monkeypatch.setattr(batches, "_options_of", lambda query: known(query + b"&newer=1"))
    items = orders.batch(keys, query="?timestamps=true").json["items"]
    refused = [item for item in items if item["status"] == 503]
    assert {item["status"] for item in items} == {200, 503}, "the keys that are here are read"
    assert {item["code"] for item in refused} == {"older-version"}


class LateSchemas(FakeSchemas):
    """Has its schemas from the third time on that they are asked for."""

    asked = 0

    def schema(self, schema_id: int) -> AvroSchema:
        self.asked += 1
        if self.asked < 3:
            raise SchemaNotYet(schema_id, self)
        return super().schema(schema_id)


@pytest.mark.parametrize("owner", ["b1", "b2"])
def test_a_batch_waits_for_a_schema(tmp_path: Path, owner: str) -> None:
    """As after a restart: the entries are there, and their schema is being fetched."""
    of = replace(view(value="avro", value_schema="confluent"), schemas=LateSchemas(id7="int"))
    with world(tmp_path, of, wait_timeout=10) as made:
        theirs = made.instances[owner]
        keys = [f"{n}" for n in range(20) if made.owner(made.partition(b"%d" % n)) is theirs]
        made.put_all({key.encode(): framed(7, "int", int(key)) for key in keys})
        assert made.batch(keys).json["items"] == [
            {"key": key, "status": 200, "value": int(key)} for key in keys
        ]
    with world(tmp_path / "no-wait", replace(of, schemas=FakeSchemas())) as made:
        made.put(b"1", framed(7, "int", 1))
        [item] = made.batch(["1"]).json["items"]
        assert (item["status"], item["code"]) == (503, "schema-unavailable")


def test_values_are_passed_on_as_they_are(orders: World) -> None:
    for n in range(20):
        orders.put(b"%d" % n, b'{ "n" :1.0,\n"t": "\\u0041" }')
    body = orders.batch([str(n) for n in range(20)]).body
    assert body.count(b'"value":{ "n" :1.0,\n"t": "\\u0041" }}') == 20


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("int32", {struct.pack(">i", n): n for n in (0, -1, 2**31 - 1, -(2**31))}),
        ("int64", {struct.pack(">q", n): n for n in (0, -1, 2**63 - 1, -(2**63))}),
        ("float64", {struct.pack(">d", n): n for n in (0.0, -1.5, 1e300, 5e-324)}
         | {struct.pack(">d", float("inf")): "Infinity"}),
        ("uuid", {b"00000000-0000-0000-0000-00000000000a": "00000000-0000-0000-0000-00000000000a"}),
        ("bytes", {b"\xff\0": "_wA", b"": ""}),
        ("string", {"é\0".encode(): "é\0"}),
        ("json", {b'{"a": [1,{}], "b":"]}"}': {"a": [1, {}], "b": "]}"}, b"1.0": 1.0, b"[]": []}),
    ],
)  # fmt: skip
def test_key_formats(tmp_path: Path, kind: str, keys: dict[bytes, Any]) -> None:
    with world(tmp_path, view(key=kind)) as made:
        made.put_all(dict.fromkeys(keys, b"1"))
        if kind == "json":
            body = b'{ "keys" : [%b ]\n}' % b" ,\n".join(keys)
            said = made.batch(body)
        else:
            said = made.batch(list(keys.values()))
        assert said.json["items"] == [
            {"key": key, "status": 200, "value": 1} for key in keys.values()
        ]


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("int64", "1"), ("int64", 1.0), ("int64", True), ("int64", None), ("int32", 2**31),
        ("float64", "1"), ("float64", True), ("uuid", "x"), ("uuid", 1),
        ("string", 1), ("string", ["a"]), ("bytes", "+"), ("bytes", "a"), ("string", {}),
    ],
)  # fmt: skip
def test_a_key_of_another_format_fails_alone(tmp_path: Path, kind: str, key: Any) -> None:
    good = {"int32": 1, "int64": 1, "float64": 1.5, "string": "a", "bytes": "YQ"}
    good["uuid"] = "00000000-0000-0000-0000-00000000000A"
    with world(tmp_path, view(key=kind)) as made:
        items = made.batch([good[kind], key, good[kind]]).json["items"]
        assert [item["status"] for item in items] == [404, 400, 404]
        assert items[1] == {"key": key, "status": 400, "code": "key-undecodable"}


@pytest.mark.parametrize("kind", ["int64", "float64", "uuid", "string", "bytes"])
@pytest.mark.parametrize("levels", [255, 1000, 1022])
def test_a_nested_key_fails_alone(tmp_path: Path, kind: str, levels: int) -> None:
    """It made the whole batch 500."""
    key = b"[" * levels + b"]" * levels
    good = {"int64": b"1", "float64": b"1.5", "bytes": b'"YQ"', "string": b'"a"'}
    good["uuid"] = b'"00000000-0000-0000-0000-00000000000a"'
    with world(tmp_path, view(key=kind)) as made:
        said = made.batch(b'{"keys":[%b,%b]}' % (good[kind], key))
    assert said.status == 200, said.body
    assert said.body == (
        b'{"items":[{"key":%b,"status":404},{"key":%b,"status":400,"code":"key-undecodable"}]}'
        % (good[kind], key)
    )


def test_a_key_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS, max_key_bytes=10) as made:
        items = made.batch(["x" * 10, "x" * 11]).json["items"]
        assert [(item["status"], item.get("code")) for item in items] == [
            (404, None),
            (414, "key-too-long"),
        ]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"{", b'{"keys":1}', b'{"keys":["a"],"more":1}', b'{"keys":["a"]',
        b'{"k\\u0065ys":["a"]}', b'{"keys":["a"],"keys":["b"]}', b'{"keys":["a"],"keys":[]}',
        b'{"keys":[' + b"[" * 2000 + b"]" * 2000 + b"]}",
    ],
)  # fmt: skip
def test_a_body_that_is_no_batch(orders: World, body: bytes) -> None:
    assert orders.code("batch", 400, method="POST", body=body) == "bad-request"


def test_bounds(orders: World) -> None:
    assert len(orders.batch(["a"] * 1000).json["items"]) == 1000
    body = orjson.dumps({"keys": ["a"] * 1001})
    assert orders.code("batch", 400, method="POST", body=body) == "too-many-keys"
    large = b'{"keys":[]}' + b" " * MAX_BATCH_BYTES
    assert orders.code("batch", 400, method="POST", body=large) == "body-too-large"
    assert orders.ask("batch", method="POST", body=large[:MAX_BATCH_BYTES]).status == 200
    assert orders.code("batch?limit=1", 400, method="POST") == "unknown-parameter"
    assert orders.code("batch?stale=maybe", 400, method="POST") == "bad-parameter"


def test_one_unavailable_partition_fails_its_keys_only(orders: World) -> None:
    keys = [b"%d" % n for n in range(40)]
    orders.put_all(dict.fromkeys(keys, b"1"))
    orders.store_partitions[3].progress.answerable = False
    orders.store_partitions[2].progress.answerable = False
    for instance in ("b1", "b2"):
        items = orders.batch([key.decode() for key in keys], instance).json["items"]
        for key, item in zip(keys, items, strict=True):
            if orders.partition(key) >= 2:
                assert item == {"key": key.decode(), "status": 503, "code": "catching-up"}
            else:
                assert item == {"key": key.decode(), "status": 200, "value": 1}


def test_a_damaged_partition_fails_its_keys_only(orders: World) -> None:
    """Of its own keys those that cannot be read: each is looked at alone."""
    keys = [b"%d" % n for n in range(40)]
    orders.put_all(dict.fromkeys(keys, b"1"))
    damaged = {key for key in keys if orders.partition(key) == 2 and int(key) % 3}
    store = orders.store_partitions[2].store
    read, layout = store.get, orders.view.layout

    def get(key: bytes) -> bytes | None:
        if key in map(layout.stored_key, damaged):
            raise StoreError("Corruption", damaged=True)
        return read(key)

    store.get = get  # type: ignore[method-assign]
    store.get_many = lambda keys: [get(key) for key in keys]  # type: ignore[method-assign]
    items = orders.batch([key.decode() for key in keys]).json["items"]
    for key, item in zip(keys, items, strict=True):
        if key in damaged:
            assert item == {"key": key.decode(), "status": 503, "code": "store-damaged"}
        else:
            assert item == {"key": key.decode(), "status": 200, "value": 1}
    assert orders.store_partitions[2].damaged


def test_what_has_expired_is_not_there(tmp_path: Path) -> None:
    with world(tmp_path, view(retention=10)) as made:  # type: ignore[arg-type]
        for n in range(30):
            made.put(b"%d" % n, b"%d" % n, timestamp=n)
        for store_partition in made.store_partitions.values():
            store_partition.store.stream_time = 29
        for instance in ("b1", "b2"):
            items = made.batch([str(n) for n in range(30)], instance).json["items"]
            assert [item["status"] for item in items] == [404] * 19 + [200] * 11


def test_each_key_is_counted_once(orders: World) -> None:
    orders.put_all({b"%d" % n: b"1" for n in range(30)})
    orders.store_partitions[3].progress.answerable = False
    orders.batch([*map(str, range(40)), 7])
    counts = [instance.context.telemetry.counts["orders"] for instance in orders.instances.values()]
    catching_up = sum(orders.partition(b"%d" % n) == 3 for n in range(40))
    assert counts[0].forwarded == sum(orders.partition(b"%d" % n) % 2 for n in range(40))
    assert sum(each.found + each.missed for each in counts) == 40 - catching_up
    assert sum(each.missed for each in counts) == sum(
        orders.partition(b"%d" % n) != 3 for n in range(30, 40)
    )
    assert [each.unavailable for each in counts] == [0, catching_up]
    assert [each.refused for each in counts] == [1, 0]


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32", "fnv1a"])
def test_every_partitioner_and_every_length(tmp_path: Path, partitioner: str) -> None:
    """Keys whose partitions are told together are where a record of the key alone went."""
    with world(tmp_path, view(partitioner=partitioner)) as made:
        keys = ["", "é", *("k" * n for n in range(1, 200, 7))]
        made.put_all({key.encode(): b"%d" % n for n, key in enumerate(keys)})
        for instance in ("b1", "b2"):
            items = made.batch(keys, instance).json["items"]
            assert [item.get("value") for item in items] == list(range(len(keys)))


def test_versions(tmp_path: Path) -> None:
    with world(tmp_path, view(store="versioned")) as made:
        for n in range(20):
            made.put(b"%d" % n, b"1", timestamp=1)
            made.put(b"%d" % n, b"2" if n % 3 else None, timestamp=2)
        for instance in ("b1", "b2"):
            items = made.batch([str(n) for n in range(20)], instance).json["items"]
            assert [item.get("value") for item in items] == [
                2 if n % 3 else None for n in range(20)
            ]


def test_an_owner_that_does_not_answer_fails_its_keys_only(orders: World) -> None:
    keys = [b"%d" % n for n in range(40)]
    orders.put_all(dict.fromkeys(keys, b"1"))
    orders.peers.down = {"b2"}
    items = orders.batch([key.decode() for key in keys]).json["items"]
    for key, item in zip(keys, items, strict=True):
        if orders.partition(key) % 2:
            assert item == {"key": key.decode(), "status": 503, "code": "owner-unreachable"}
        else:
            assert item["status"] == 200


def test_what_has_moved_is_asked_for_once_more(tmp_path: Path) -> None:
    """b2 has let go of partition 3, and b1 has it a moment later."""
    with world(tmp_path, ORDERS, wait_timeout=5) as made:
        keys = [b"%d" % n for n in range(40)]
        made.put_all(dict.fromkeys(keys, b"1"))
        made.instances["b2"].context.store_partitions.remove(made.store_partitions[3])
        made.instances["b2"].place(0, 1, 0, 0)
        body = orjson.dumps({"keys": [key.decode() for key in keys]})

        async def ask() -> Any:
            asked = asyncio.ensure_future(made.request("b1", "POST", "/views/orders/batch", body))
            while not made.peers.asked:
                await asyncio.sleep(0)
            made.instances["b1"].context.store_partitions.add(made.store_partitions[3])
            return await asked

        said = asyncio.run(ask())
        assert {item["status"] for item in said.json["items"]} == {200}


@pytest.mark.parametrize("partitioner", ["none", "murmur2"])
def test_keys_that_may_be_anywhere_are_asked_of_all(tmp_path: Path, partitioner: str) -> None:
    with world(tmp_path, view(partitioner=partitioner)) as made:
        for n in range(12):
            made.put(b"%d" % n, b'{"n":1}', partition=n % 4, timestamp=n)
            made.put(b"%d" % n, b'{"n":2}', partition=(n + 1) % 4, timestamp=n - 1 + n % 2 * 2)
        for store_partition in made.store_partitions.values():
            store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
        made.place(0, 1, 0, 1, mispartitioned=True)
        for instance in ("b1", "b2"):
            items = made.batch([*map(str, range(12)), "none"], instance).json["items"]
            assert [item["status"] for item in items] == [200] * 12 + [404]
            if partitioner == "none":
                assert [item["value"]["n"] for item in items[:12]] == [1, 2] * 6


def test_keys_do_not_wait_for_an_unavailable_partition_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 1,000 keys, it took 27 s: clients had given up."""
    monkeypatch.setattr(batches, "_SECONDS", 0.01)
    with world(tmp_path, view(partitioner="none")) as made:
        made.store_partitions[3].progress.answerable = False
        for count in (40, 400, 4_000):  # a fast machine answers few of them in time
            items = made.batch([str(n) for n in range(count)]).json["items"]
            assert {item["status"] for item in items} == {503}
            assert {item["code"] for item in items} <= {"catching-up", "took-too-long"}
            if items[-1]["code"] == "took-too-long":
                break
        else:
            pytest.fail("each of 4,000 keys was looked for")


def test_a_windowed_view_has_no_points(tmp_path: Path) -> None:
    with world(tmp_path, view(store="window")) as made:
        said = made.batch(["a"])
        assert (said.status, said.json["code"]) == (400, "wrong-store")
        assert "/views/orders/windows" in said.json["detail"]


documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(st.lists(documents, max_size=6), st.sampled_from(["", " ", "\n\t"]))
def test_each_key_as_it_was_written(keys: list[Any], space: str) -> None:
    written = [orjson.dumps(key, option=orjson.OPT_INDENT_2 if space else 0) for key in keys]
    between = f"{space},{space}".encode()
    body = b'%b{"keys":[%b]}' % (space.encode(), between.join(written))
    assert parse_batch(body, exact=True) == list(zip(keys, written, strict=True))
