"""Scans while not all partitions can answer: 503 for the whole, never a part of it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.wire.answer import Answer
from backend.wire.scan_codec import decode_request
from model.problems import StoreError
from model.topology import NO_MEMBER
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World, numbered, world


def test_a_partition_that_catches_up_makes_all_of_it_unavailable(orders: World) -> None:
    orders.put_all(numbered(50))
    orders.store_partitions[3].progress.answerable = False
    for target in ("keys", "count", "count?exact=true", "top?by=n"):
        for instance in ("b1", "b2"):
            said = orders.ask(target, instance)
            assert (said.status, said.json["code"]) == (503, "catching-up"), target
            assert said.json["partition"] == 3
            assert said.named[b"retry-after"] == b"1"
            allowed = f"{target}{'&' if '?' in target else '?'}stale=allow"
            assert orders.ask(allowed, instance).status == 200
    assert orders.code("keys", 503, accept=NDJSON) == "catching-up"


def test_an_owner_that_does_not_answer(orders: World) -> None:
    orders.put_all(numbered(50))
    orders.peers.down = {"b2"}
    assert orders.code("keys", 503) == "owner-unreachable"
    assert orders.code("keys", 503, accept=NDJSON) == "owner-unreachable"


@pytest.mark.parametrize(
    "target",
    ["keys?where=n>1", "count?where=n>1", "top?by=n&where=n>1", "keys?select=n",
     "count?exact=true&max_examined=99"],
)  # fmt: skip
def test_an_owner_of_an_older_version_does_not_know_a_part_of_the_request(
    orders: World, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/system/upgrades/test_indexes.py does it with the last release."""
    orders.put_all(numbered(50))
    newer = re.compile(rb'"(where|select|max_examined)"')

    def decode_as_older(body: bytes) -> Any:
        return decode_request(newer.sub(rb'"unknown_\1"', body))

    monkeypatch.setattr("backend.http.routes.internal.decode_request", decode_as_older)
    streams = [{"accept": NDJSON}] if target.startswith("keys") else []
    for more in ({}, *streams):
        said = orders.ask(target, **more)
        assert (said.status, said.json["code"]) == (503, "older-version")
        assert said.named[b"retry-after"] == b"1"
        assert b"retry-elsewhere" not in said.named
        assert "during a rolling upgrade" in said.json["detail"]
    assert orders.ask("keys").status == 200


@pytest.mark.parametrize("status", [400, 404, 500])
def test_an_owner_that_answers_something_else(orders: World, status: int) -> None:
    async def refuse(*_: Any, **__: Any) -> Answer:
        return Answer(status, [], b'{"code":"bad-parameter"}')

    orders.peers.forward = refuse  # type: ignore[method-assign]
    assert orders.code("keys", 503) == "owner-unreachable"


def test_only_what_failed_is_asked_again(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS, wait_timeout=0.2) as made:
        made.put_all(numbered(50))
        made.peers.down = {"b2"}

        async def ask() -> Any:
            asked = asyncio.ensure_future(made.request("b1", "GET", "/views/orders/keys"))
            while len(made.peers.asked) < 2:
                await asyncio.sleep(0)
            made.peers.down = set()
            return await asked

        said = asyncio.run(ask())
        assert [item["key"].encode() for item in said.json["items"]] == list(numbered(50))


def test_a_partition_that_nobody_holds(orders: World) -> None:
    orders.place(0, 1, 0, NO_MEMBER)
    orders.instances["b2"].context.store_partitions.remove(orders.store_partitions[3])
    assert orders.code("keys", 503) == "nobody"


def test_a_partition_that_moved_before_the_map_says_so(orders: World) -> None:
    orders.instances["b2"].context.store_partitions.remove(orders.store_partitions[3])
    orders.place(0, 1, 0, 0)
    orders.instances["b2"].place(0, 1, 0, 1)
    assert orders.code("keys", 503) == "catching-up", "b1 opens it"
    orders.instances["b1"].place(0, 1, 0, 1)
    orders.instances["b2"].place(0, 1, 0, 0)
    assert orders.code("keys", 503) == "not-here"


def test_a_store_that_was_closed_is_missing(orders: World) -> None:
    orders.put_all(numbered(50))
    orders.store_partitions[1].store.close()
    for instance in ("b1", "b2"):
        assert orders.code("keys", 503, instance=instance) == "not-here"
        assert orders.code("count?exact=true", 503, instance=instance) == "not-here"


@pytest.mark.parametrize("entries", [800, 8000])  # in one turn of the event loop, in several
@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("target", ["keys?limit=1000", "count?exact=true", "top?by=n"])
def test_a_store_that_is_let_go_under_the_scan(
    orders: World, partition: int, target: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What RocksDB still gives of it then may be old already."""
    orders.put_all(numbered(entries))
    store_partition, context = orders.store_partitions[partition], orders.owner(partition).context
    store, scan = store_partition.store, store_partition.store.scan

    def scan_then_close(*bounds: Any) -> Any:
        for number, found in enumerate(scan(*bounds)):
            if number == 100:
                context.store_partitions.remove(store_partition)
                store.close()
            yield found

    monkeypatch.setattr(store, "scan", scan_then_close)
    assert orders.code(target, 503) in ("catching-up", "not-here")


@pytest.mark.parametrize("is_damage", [True, False])
def test_a_store_that_cannot_be_read(
    orders: World, monkeypatch: pytest.MonkeyPatch, is_damage: bool
) -> None:
    def damaged(*_: Any) -> Any:
        yield b"\x01key", b"\0" * 16 + b"1"
        raise StoreError("block checksum mismatch", damaged=is_damage)

    orders.put_all(numbered(50))
    monkeypatch.setattr(orders.store_partitions[1].store, "scan", damaged)
    said = orders.ask("keys")
    assert (said.status, said.json["code"]) == (503, "store-damaged")
    assert b"checksum" not in said.body
    marked = orders.store_partitions[1].damaged is not None
    assert marked is is_damage, "ingest rebuilds it"


@pytest.mark.parametrize("told_by", ["map", "metadata of b1"])
def test_after_partitions_were_added(orders: World, told_by: str) -> None:
    """The stores do not have the tombstones of keys that moved, or some partitions are missing."""
    if told_by == "map":
        orders.place(0, 1, 0, 1, partition_counts=(3, 4))
    else:
        ends = dict.fromkeys(range(6), 0)
        metadata_poller = orders.instances[told_by[-2:]].context.metadata_poller
        metadata_poller.latest["orders"] = TopicMetadata("topic-1", 6, ends, ends, None, 0)
    for target in ("keys", "count?exact=true", "top?by=n"):
        assert orders.code(target, 503) == "repartitioned"


def test_another_definition_of_the_view(orders: World) -> None:
    context = orders.instances["b2"].context
    context.views["orders"] = replace(ORDERS, retention=5)
    assert orders.code("keys", 503) == "not-here"
