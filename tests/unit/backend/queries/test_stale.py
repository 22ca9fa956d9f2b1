"""Whose answers will do for questions about whole views and batches: `stale=allow|never`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.wire.answer import Answer
from model.problems import BadRequest
from model.topology import ACTIVE, STANDBY
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, PARTITIONS, Said, World, numbered, world
from tests.support.reference.questions import HISTORY
from tests.support.reference.whole_views import WHOLE_VIEWS

ENTRIES = numbered(60)
WHOLE = ("keys?limit=1000", "count?", *WHOLE_VIEWS.values())
STANDBYS = {"standbys": ((1,), (0,), (1,), (0,))}


@pytest.fixture
def paired(tmp_path: Path) -> Iterator[World]:
    """Each of two instances stands by for the other, with the same entries."""
    with world(tmp_path, ORDERS) as made:
        made.put_all(ENTRIES)
        made.place(0, 1, 0, 1, **STANDBYS)
        for partition in range(PARTITIONS):
            of = {k: v for k, v in ENTRIES.items() if made.partition(k) == partition}
            standby = made.instances["b1" if partition % 2 else "b2"]
            standby.hold(partition, of).role = STANDBY
        yield made


def asked(of: World, stale: str, instance: str = "b1") -> dict[str, tuple[int, str]]:
    """Status and code of each question about the whole view; of a batch, of its items."""
    found = {}
    for target in WHOLE:
        for accept in ("*/*", NDJSON):
            said = of.ask(f"{target}&{stale}", instance, accept=accept)
            found[f"{target} {accept}"] = (said.status, _code(said, accept))
    said = of.batch(list(map(bytes.decode, ENTRIES)), instance, f"?{stale}" if stale else "")
    items = {(item["status"], item.get("code", "")) for item in said.json["items"]}
    [found["batch"]] = items - {(200, "")} or items
    return found


def _code(said: Said, accept: str) -> str:
    return "" if said.status == 200 else str(said.json["code"])


@pytest.mark.slow
def test_the_active_alone_or_nobody(paired: World) -> None:
    for stale in ("", "stale=allow", "stale=never"):
        for instance in ("b1", "b2"):
            assert set(asked(paired, stale, instance).values()) == {(200, "")}, stale
    paired.peers.down = {"b2"}
    for stale in ("", "stale=allow"):
        assert set(asked(paired, stale).values()) == {(200, "")}, "b1 stands by"
    assert set(asked(paired, "stale=never").values()) == {(503, "owner-unreachable")}


def test_a_batch_fails_in_the_keys_of_the_active_that_does_not_answer(paired: World) -> None:
    paired.peers.down = {"b2"}
    for key, item in zip(
        ENTRIES,
        paired.batch(list(map(bytes.decode, ENTRIES)), query="?stale=never").json["items"],
        strict=True,
    ):
        assert item["status"] == (503 if paired.partition(key) % 2 else 200)


@pytest.mark.parametrize("asker", ["b1", "b2"])
def test_the_map_of_the_asker_may_be_old(paired: World, asker: str) -> None:
    """Whoever is asked as the active, and is not, says so."""
    paired.store_partitions[1].role = STANDBY
    assert set(asked(paired, "", asker).values()) == {(200, "")}
    assert set(asked(paired, "stale=never", asker).values()) == {(503, "not-active")}


def test_the_active_that_is_being_read_in(paired: World) -> None:
    paired.store_partitions[1].progress.answerable = False
    for stale, expected in {
        "": (200, ""), "stale=allow": (200, ""), "stale=never": (503, "catching-up"),
    }.items():  # fmt: skip
        for asker in ("b1", "b2"):
            assert set(asked(paired, stale, asker).values()) == {expected}, (stale, asker)


def test_nobody_is_active(paired: World) -> None:
    paired.place(0, -1, 0, 1, **STANDBYS)
    for target in WHOLE:
        assert paired.code(f"{target}&stale=never", 503) == "nobody"
        assert paired.ask(target).status == 200


@pytest.mark.parametrize("target", [WHOLE[0], *WHOLE[2:]])
@pytest.mark.parametrize("partition", [0, 1])
def test_who_is_active_no_more_when_it_has_read_does_not_answer(
    paired: World, target: str, partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_partition = paired.store_partitions[partition]
    scan = store_partition.store.scan

    def scan_and_step_down(*bounds: Any) -> Any:
        yield from scan(*bounds)
        store_partition.role = STANDBY

    monkeypatch.setattr(store_partition.store, "scan", scan_and_step_down)
    assert paired.code(f"{target}&stale=never", 503) == "not-active"
    store_partition.role = ACTIVE
    assert paired.ask(target).status == 200


def test_keys_that_may_be_in_any_partition(tmp_path: Path) -> None:
    with world(tmp_path, view(partitioner="none")) as made:
        made.put_all(ENTRIES)
        made.place(0, 1, 0, 1, **STANDBYS)
        for partition in (1, 3):
            made.instances["b1"].hold(partition).role = STANDBY
        assert set(asked(made, "stale=never").values()) == {(200, "")}
        made.peers.down = {"b2"}
        said = made.batch(["key-00001"], query="?stale=never")
        assert said.json["items"] == [
            {"key": "key-00001", "status": 503, "code": "owner-unreachable"}
        ]
        assert made.batch(["key-00001"]).json["items"][0]["status"] in (200, 404)


@pytest.mark.parametrize("store", HISTORY)
def test_histories_of_all_partitions(tmp_path: Path, store: str) -> None:
    of = view(store=store, partitioner="none")
    cluster = Cluster(tmp_path, of, instances=2, partitions=2)
    cluster.place([1, 1], [[0], [0]])
    cluster.settle()
    paths = [f"/views/orders/keys/a/{HISTORY[store]}?limit=9"]
    if store == "versioned":
        paths += ["/views/orders/keys/a?as_of=0", "/views/orders/keys/a?encoding=text"]
    try:
        for path in paths:
            assert cluster.ask("b1", "GET", f"{path}&stale=never").status in (200, 404)
        cluster.stop("b2")
        for path in paths:
            assert cluster.ask("b1", "GET", path).status in (200, 404)
            never = cluster.ask("b1", "GET", f"{path}&stale=never")
            assert (never.status, never.json()["code"]) == (503, "owner-unreachable")
    finally:
        cluster.close()


def test_an_instance_that_does_not_understand_the_question(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One from before it: it refuses what it does not know."""
    orders.put_all(ENTRIES)
    refused = BadRequest("bad-request", "The body is not a question.")

    async def forward(*_: Any, **__: Any) -> Answer:
        return Answer(refused.status, [], refused.body())

    monkeypatch.setattr(orders.peers, "forward", forward)
    assert set(asked(orders, "stale=never").values()) == {(503, "older-version")}


def test_what_a_batch_asks_of_another_instance(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance from before it has no view of such a name, and refuses."""
    bodies: list[bytes] = []
    forward = orders.peers.forward

    async def note(*question: Any, **more: Any) -> Answer:
        bodies.append(question[-1])
        return await forward(*question, **more)

    monkeypatch.setattr(orders.peers, "forward", note)
    for query in ("", "?stale=never"):
        orders.batch(list(map(bytes.decode, ENTRIES)), query=query)
    plain, never = bodies
    assert b"orders" in plain
    assert b"?" not in plain
    assert b"orders?stale=never" in never
