"""What requests get for a key whose newest record is not in the view's format."""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import Reads, encode_reads
from backend.wire.scan import KNOWS_UNREADABLE, ScanResponse
from backend.wire.scan_codec import ROWS, ScanRequest, decode_response, encode_request
from model.formats.codec import Codec
from model.records import ENTRY, unreadable_entry
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.requests import LOOPBACK
from tests.support.in_process.world import NDJSON, World, world
from tests.support.point_batch import decode_answers
from tests.unit.backend.unreadable.applied import put

OCTETS = "application/octet-stream"


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made


def key_on(of: World, instance: str) -> bytes:
    """A key whose partition the instance has."""
    keys = (b"k%d" % n for n in itertools.count())
    return next(key for key in keys if of.partition(key) % 2 == (instance == "b2"))


@pytest.mark.parametrize("holder", ["b1", "b2"])
def test_the_problem_of_a_point_read(orders: World, holder: str) -> None:
    key = key_on(orders, holder)
    put(orders, key, b"1")
    assert orders.ask(f"keys/{key.decode()}").json["value"] == 1
    partition, offset = put(orders, key, b'{"n":')
    for instance in ("b1", "b2"):
        answer = orders.ask(f"keys/{key.decode()}", instance)
        assert answer.status == 406
        assert answer.named[b"content-type"] == b"application/problem+json"
        assert b"retry-after" not in answer.named
        assert answer.named[b"partition"] == b"%d" % partition
        assert answer.named[b"offset"] == b"%d" % (offset + 1)
        problem = answer.json
        assert problem.pop("detail").endswith("accept application/octet-stream.")
        assert "JSON" in problem.pop("reason")
        assert problem == {
            "type": "urn:queryable:value-unreadable",
            "title": "Value unreadable",
            "status": 406,
            "code": "value-unreadable",
            "partition": partition,
            "offset": offset,
            "dead_letter": {
                "topic": "orders.dead-letter", "key": f"orders:{partition}:{offset}",
            },
        }  # fmt: skip


@pytest.mark.parametrize("holder", ["b1", "b2"])
def test_its_bytes(orders: World, holder: str) -> None:
    key = key_on(orders, holder)
    put(orders, key, b"\xff\0{")
    answer = orders.ask(f"keys/{key.decode()}", accept=OCTETS)
    assert (answer.status, answer.body) == (200, b"\xff\0{")
    assert answer.named[b"etag"]
    body = json.dumps({"query": key.decode()}).encode()
    answer = orders.ask("search", method="POST", body=body, accept=OCTETS)
    assert (answer.status, answer.body) == (200, b"\xff\0{")


def test_it_is_counted_as_refused(orders: World) -> None:
    key = key_on(orders, "b1")
    put(orders, key, b"{")
    counts = orders.instances["b1"].reads.counts
    before = (counts.found, counts.missed, counts.refused)
    orders.ask(f"keys/{key.decode()}")
    counts = orders.instances["b1"].context.telemetry.counts["orders"]
    assert (counts.found, counts.missed, counts.refused) == (*before[:2], before[2] + 1)


def test_a_value_that_can_be_read_later_needs_no_rebuild(orders: World) -> None:
    """A later version reads more than the one that has applied the record."""
    key = key_on(orders, "b1")
    partition = orders.partition(key)
    opened = orders.store_partitions[partition]
    batch = opened.store.new_batch()
    batch.put(ENTRY + key, unreadable_entry(7, 3, b'{"n":5}'))
    put(orders, key, b"{")  # so that the partition has unreadable entries
    opened.store.write(batch, 4)
    name = key.decode()
    assert orders.ask(f"keys/{name}").json == {"key": name, "value": {"n": 5}}
    assert f"-{partition}-3-json" in orders.ask(f"keys/{name}").named[b"etag"].decode()
    assert orders.batch([name]).json["items"] == [{"key": name, "status": 200, "value": {"n": 5}}]
    for instance in ("b1", "b2"):
        assert orders.ask("keys", instance).json["items"] == [{"key": name, "value": {"n": 5}}]
        assert orders.ask("count?exact=true", instance).json == {"count": 1, "exact": True}
        assert orders.ask("top?by=n", instance).json["items"][0]["value"] == {"n": 5}


def whole(of: World, keys: list[bytes]) -> list[Any]:
    """What b1 sends to a proxy for these keys of one partition: None must be sent separately."""
    partition = of.partition(keys[0])
    words = b"orders string murmur2 4 %d" % partition
    groups = [Reads(words, [ENTRY + key for key in keys])]
    answer = of.routers["b1"].fast_path.reads_now(
        PlainPost(None, encode_reads([], groups)), LOOPBACK
    )
    assert answer.status == 200
    [(_, _, _, sizes, entries)] = decode_answers(answer.body, groups).keys
    left = iter(entries)
    alone, absent = 0xFFFF_FFFF, 0xFFFF_FFFE
    return [None if size == alone else 404 if size == absent else next(left)[16:] for size in sizes]


def test_the_proxy_asks_for_it_separately(orders: World) -> None:
    keys = [b"k%d" % n for n in range(200) if orders.partition(b"k%d" % n) == 0][:4]
    good, bad, missing, other = keys
    put(orders, good, b"1")
    put(orders, bad, b"{")
    put(orders, other, b"2")
    assert whole(orders, [good, other]) == [b"1", b"2"]
    assert whole(orders, [good, bad, missing, other]) == [b"1", None, 404, b"2"]
    assert whole(orders, [bad]) == [None]


def test_the_others_of_a_batch_are_answered(orders: World) -> None:
    keys = [b"k%d" % n for n in range(40)]
    for n, key in enumerate(keys):
        put(orders, key, b"{" if n % 10 == 0 else b"%d" % n)
    for instance in ("b1", "b2"):
        items = orders.batch([key.decode() for key in keys], instance).json["items"]
        for n, (key, item) in enumerate(zip(keys, items, strict=True)):
            if n % 10:
                assert item == {"key": key.decode(), "status": 200, "value": n}
                continue
            assert (item["status"], item["code"]) == (406, "value-unreadable")
            assert item["unreadable"]["partition"] == orders.partition(key)


def test_lists_name_it(orders: World) -> None:
    placed = {}
    for n in range(20):
        placed[n] = put(orders, b"k%02d" % n, b"[" if n == 7 else b'{"n":%d}' % n)
    partition, offset = placed[7]
    for instance in ("b1", "b2"):
        lines = orders.ask("keys", instance, accept=NDJSON).body.splitlines()
        for items in (orders.ask("keys", instance).json["items"], list(map(json.loads, lines))):
            assert [item["key"] for item in items] == [f"k{n:02}" for n in range(20)]
            unreadable = items[7]["unreadable"]
            assert unreadable.pop("reason")
            assert items[7] == {
                "key": "k07", "unreadable": {"partition": partition, "offset": offset},
            }  # fmt: skip
        count = orders.ask("count?exact=true", instance).json
        assert count == {"count": 20, "exact": True, "unreadable": 1}
        top = orders.ask("top?by=n&limit=30", instance).json
        assert (top["items"][0]["key"], top["unreadable"]) == ("k19", 1)
        assert len(top["items"]) == 19
        sums = orders.ask("aggregate?value=n", instance).json
        assert (sums["items"][0]["sum"], sums["items"][0]["entries"]) == (190 - 7, 19)
        assert sums["unreadable"] == 1


@pytest.mark.parametrize("store", ["window", "session"])
def test_windows_and_sessions(tmp_path: Path, store: str) -> None:
    with world(tmp_path, view(store=store, window_size=10)) as of:
        times = struct.pack(">qi", 100, 0) if store == "window" else struct.pack(">qq", 120, 100)
        key = b"k" + times
        partition, offset = put(of, key, b"{")
        for target in (f"keys/k/{store}s", f"{store}s"):
            for instance in ("b1", "b2"):
                [item] = of.ask(target, instance).json["items"]
                assert item["unreadable"].pop("reason")
                assert item["unreadable"] == {"partition": partition, "offset": offset}
                assert item["start"] == 100
                assert "value" not in item


def test_versions(tmp_path: Path) -> None:
    with world(tmp_path, view(store="versioned")) as of:
        put(of, b"k", b"1", 10)
        partition, offset = put(of, b"k", b"{", 20)
        put(of, b"k", b"3", 30)
        for instance in ("b1", "b2"):
            items = of.ask("keys/k/versions", instance).json["items"]
            assert items[1]["unreadable"].pop("reason")
            assert items == [
                {"valid_from": 10, "valid_to": 20, "value": 1},
                {"valid_from": 20, "valid_to": 30,
                 "unreadable": {"partition": partition, "offset": offset}},
                {"valid_from": 30, "valid_to": None, "value": 3},
            ]  # fmt: skip
            assert of.ask("keys/k?as_of=19", instance).json["value"] == 1
            assert of.code("keys/k?as_of=25", 406, instance=instance) == "value-unreadable"
            assert of.ask("keys/k", instance).json["value"] == 3


# Instances of the version before


def scanned(of: World, *headers: tuple[bytes, bytes]) -> ScanResponse:
    """The answer of b2, which has partition 1, to another instance."""
    ask = ScanRequest("orders", ORDERS.hash, 4, ROWS, limit=10)
    answer = asyncio.run(
        of.request(
            "b2", "POST", "/internal/scan", encode_request(ask, [1], None), headers=headers,
        )
    )  # fmt: skip
    assert answer.status == 200, answer
    return decode_response(answer.body)


def test_an_older_instance_gets_no_rows_that_it_would_take_for_deletes(orders: World) -> None:
    key = key_on(orders, "b2")
    while orders.partition(key) != 1:
        key += b"x"
    put(orders, key, b"1")
    assert len(scanned(orders).rows) == 1
    put(orders, key, b"{")
    assert scanned(orders).missing == {1: "older-version"}
    [row] = scanned(orders, KNOWS_UNREADABLE).rows
    assert "unreadable" in json.loads(row[2])


# Values that are change events


def test_an_event_without_a_row_is_unreadable(tmp_path: Path) -> None:
    """Its bytes are JSON, so it must not be taken for a row."""
    event = b'{"op":"t","before":null,"after":null,"source":{},"ts_ms":1}'
    row = b'{"op":"u","before":null,"after":{"n":2},"source":{},"ts_ms":1}'
    with world(tmp_path, view(unwrap="debezium")) as of:
        put(of, b"k", row)
        assert of.ask("keys/k").json["value"] == {"n": 2}
        put(of, b"k", event)
        for instance in ("b1", "b2"):
            problem = of.ask("keys/k", instance)
            assert (problem.status, problem.json["code"]) == (406, "value-unreadable")
            assert "truncated" in problem.json["reason"]
            assert of.ask("keys/k", instance, accept=OCTETS).body == event
            [item] = of.ask("keys", instance).json["items"]
            assert "truncated" in item["unreadable"]["reason"]
        opened = of.store_partitions[of.partition(b"k")]
        batch = opened.store.new_batch()
        batch.put(ENTRY + b"k", unreadable_entry(7, 3, row))  # as an older version has refused it
        opened.store.write(batch, 4)
        assert of.ask("keys/k").json["value"] == {"n": 2}


class Odd(Codec):
    """A custom format whose errors have half of a surrogate pair."""

    def check(self, raw: bytes) -> None:
        raise ValueError(f"unknown code {raw.decode('utf-8', 'surrogateescape')}")

    def to_json(self, raw: bytes) -> bytes:
        raise AssertionError("it is never valid")


ODD = f"{__name__}:Odd"


def test_reasons_with_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    with world(tmp_path, view(value=ODD)) as made:
        put(made, b"k", b"\xff")
        assert made.ask("keys/k").json["reason"] == r"unknown code \udcff"
        [item] = made.ask("keys").json["items"]
        assert item["unreadable"]["reason"] == r"unknown code \udcff"
