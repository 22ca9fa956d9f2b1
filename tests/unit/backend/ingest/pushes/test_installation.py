"""Pushes are installed in running, starting and new instances, and live records go on top."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.queries.point import ViewReads
from model.kinds.registry import KINDS
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.pushes import push
from tests.support.reference.tables import Record

B1, B2 = range(2)
PUSHED = {f"k{n}": f'{{"n": {n}}}' for n in range(40)}
VALUES = {key: json.loads(value) for key, value in PUSHED.items()}


@pytest.fixture
def cluster(tmp_path: Path, folder: Path) -> Iterator[Cluster]:
    """b1 is active for both partitions, b2 is standby."""
    made = Cluster(tmp_path, replace(ORDERS, push=str(folder)), instances=2, partitions=2)
    made.place([B1, B1], [[B2], [B2]])
    yield made
    made.close()


def write(cluster: Cluster, key: str, value: str | None) -> None:
    raw = key.encode()
    partition = cluster.home(raw)
    log = cluster.logs[partition]
    body = None if value is None else value.encode()
    cluster.write(Record(len(log), raw, (), body, 1_000 + len(log)), partition)


def ends(cluster: Cluster) -> list[int]:
    return [len(log) for log in cluster.logs]


def values(cluster: Cluster, instance: str, *keys: str) -> dict[str, Any]:
    """The value of each key, or the status of an answer without one."""
    found = {}
    for key in keys:
        answer = cluster.ask(instance, "GET", f"/orders/{key}")
        found[key] = json.loads(answer.body)["value"] if answer.status == 200 else answer.status
    return found


def settle(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.settle()


def pushes(cluster: Cluster, instance: str) -> set[str]:
    return {each.metadata.push for each in cluster.nodes[instance].store_partitions.all()}


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_a_push_replaces_the_view_and_live_records_go_on_top(
    cluster: Cluster, folder: Path, instance: str
) -> None:
    write(cluster, "old", '{"n": -1}')
    write(cluster, "k1", '{"n": -2}')
    settle(cluster)
    before = ends(cluster)
    # records after the offsets were pinned
    write(cluster, "k2", '{"live": 2}')
    write(cluster, "k3", None)
    id_ = push(folder, cluster.view, before, PUSHED)
    settle(cluster)
    write(cluster, "k4", '{"live": 4}')
    settle(cluster)

    assert pushes(cluster, instance) == {id_}
    assert values(cluster, instance, "old", "k1", "k2", "k3", "k4", "k5") == {
        "old": 404, "k1": {"n": 1}, "k2": {"live": 2}, "k3": 404, "k4": {"live": 4},
        "k5": {"n": 5},
    }  # fmt: skip
    for store_partition in cluster.nodes[instance].store_partitions.all():
        assert store_partition.progress.position == len(cluster.logs[store_partition.partition])
        assert store_partition.progress.answerable


def test_the_old_store_answers_until_the_push_has_its_position(
    cluster: Cluster, folder: Path
) -> None:
    """No answer goes back to the time when the offsets were pinned."""
    before = ends(cluster)
    for n in range(20):
        write(cluster, "k1", f'{{"live": {n}}}')
    settle(cluster)
    id_ = push(folder, cluster.view, before, PUSHED)
    for _ in range(40):
        cluster.turn("b1", most=1)
        assert values(cluster, "b1", "k1") == {"k1": {"live": 19}}
        if pushes(cluster, "b1") == {id_}:
            break
    assert pushes(cluster, "b1") == {id_}
    assert values(cluster, "b1", "k1", "k2") == {"k1": {"live": 19}, "k2": {"n": 2}}


def test_an_instance_without_a_store_starts_from_the_push(cluster: Cluster, folder: Path) -> None:
    write(cluster, "k1", '{"live": 1}')
    id_ = push(folder, cluster.view, ends(cluster), PUSHED)
    write(cluster, "k2", '{"live": 2}')
    settle(cluster)
    assert pushes(cluster, "b1") == {id_}
    assert values(cluster, "b1", "k1", "k2") == {"k1": {"n": 1}, "k2": {"live": 2}}


def test_a_push_is_installed_before_the_reopened_store_was_compared_with_the_log(
    cluster: Cluster, folder: Path
) -> None:
    """The store of the push need not be compared, and answers."""
    for n in range(10):
        write(cluster, f"k{n}", '{"old": 1}')
    settle(cluster)
    cluster.crash("b1")
    id_ = push(folder, cluster.view, ends(cluster), PUSHED)
    cluster.start("b1")
    for _ in range(40):
        cluster.turn("b1", most=0)  # its last record is not fetched
        if pushes(cluster, "b1") == {id_}:
            break
    assert pushes(cluster, "b1") == {id_}
    for store_partition in cluster.nodes["b1"].store_partitions.all():
        assert store_partition.progress.answerable
    assert values(cluster, "b1", "k1", "k2") == {"k1": {"n": 1}, "k2": {"n": 2}}


def test_a_restarted_instance_has_the_push_on_disk(cluster: Cluster, folder: Path) -> None:
    id_ = push(folder, cluster.view, ends(cluster), PUSHED)
    settle(cluster)
    cluster.crash("b1")
    for path in folder.iterdir():
        path.rename(path.with_name(f"gone-{path.name}"))
    cluster.start("b1")
    settle(cluster)
    assert pushes(cluster, "b1") == {id_}
    assert values(cluster, "b1", "k7", "nothing") == {"k7": {"n": 7}, "nothing": 404}


def test_a_newer_push_replaces_an_older_one(cluster: Cluster, folder: Path) -> None:
    first = push(folder, cluster.view, ends(cluster), PUSHED)
    settle(cluster)
    etag = cluster.ask("b1", "GET", "/orders/k1").headers["etag"]
    assert pushes(cluster, "b1") == {first}
    second = push(folder, cluster.view, ends(cluster), {"k1": '{"n": 100}'})
    settle(cluster)
    assert pushes(cluster, "b1") == {second}
    assert values(cluster, "b1", "k1", "k2") == {"k1": {"n": 100}, "k2": 404}
    again = cluster.ask("b1", "GET", "/orders/k1", headers={"If-None-Match": etag})
    assert again.status == 200, "the offsets are the same, but the value is another"


def test_only_one_store_of_a_partition_stays_on_disk(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    for n in range(3):
        push(folder, cluster.view, ends(cluster), {"k1": f'{{"n": {n}}}'})
        settle(cluster)
    assert values(cluster, "b1", "k1") == {"k1": {"n": 2}}
    cluster.stop("b1")
    cluster.start("b1")
    settle(cluster)
    assert values(cluster, "b1", "k1") == {"k1": {"n": 2}}
    assert sorted(path.name for path in (tmp_path / "b1" / "orders").iterdir()) == ["0", "1"]


def test_an_empty_partition_of_a_push_is_empty(cluster: Cluster, folder: Path) -> None:
    write(cluster, "k1", '{"live": 1}')
    write(cluster, "k2", '{"live": 2}')
    settle(cluster)
    one = next(key for key in PUSHED if key not in ("k1", "k2"))
    push(folder, cluster.view, ends(cluster), {one: "{}"})
    settle(cluster)
    assert values(cluster, "b1", "k1", "k2", one) == {"k1": 404, "k2": 404, one: {}}


def test_the_same_key_in_two_tasks_of_a_push_has_one_value_each(
    cluster: Cluster, folder: Path
) -> None:
    """Tasks write overlapping files, which are merged."""
    keys = sorted(PUSHED)
    tasks = [{key: PUSHED[key] for key in keys[n::3]} for n in range(3)]
    push(folder, cluster.view, ends(cluster), *tasks)
    settle(cluster)
    assert values(cluster, "b1", *keys) == VALUES


def test_a_stream_of_changes_ends_and_the_next_one_has_the_pushed_value(
    cluster: Cluster, folder: Path
) -> None:
    write(cluster, "k1", '{"live": 1}')
    settle(cluster)
    node, partition = cluster.nodes["b1"], cluster.home(b"k1")
    held = node.store_partitions.get("orders", partition)
    assert held is not None
    closed: list[object] = []
    held.listeners.add(b"k1", closed.append)
    push(folder, cluster.view, ends(cluster), PUSHED)
    settle(cluster)
    assert closed == [None], "the client reconnects"

    # the client has seen all records
    assert b'"value":{"n": 1}' in first_event(cluster, "k1", b"%d:0" % partition)


def first_event(cluster: Cluster, key: str, *seen: bytes | None) -> bytes:
    """The first event of a new stream of changes; `seen`: Last-Event-ID and View-Push."""
    last_id, last_push = [*seen, None, None][:2]

    async def first() -> bytes:
        reads = ViewReads(cluster.view, cluster.nodes["b1"].context)
        changes = Changes(reads, key.encode(), last_id, BacklogBudget(), last_push)
        events = changes.events()
        try:
            return await anext(events)
        finally:
            await events.aclose()

    return asyncio.run(first())


@pytest.mark.slow
def test_a_stream_of_changes_does_not_repeat_what_a_stream_of_the_same_push_has_sent(
    cluster: Cluster, folder: Path
) -> None:
    nothing = b": nothing new"
    partition = cluster.home(b"k1")
    first = push(folder, cluster.view, ends(cluster), PUSHED).encode()
    settle(cluster)
    last_id = b"%d:-1" % partition
    assert first_event(cluster, "k1").startswith(b"id: %b\nevent: value\n" % last_id)
    # records of other keys: the same value has another id now
    other = next(key for key in PUSHED if key != "k1" and cluster.home(key.encode()) == partition)
    for n in range(3):
        write(cluster, other, f'{{"live": {n}}}')
    settle(cluster)
    assert first_event(cluster, "k1").startswith(b"id: %d:2\n" % partition)
    assert first_event(cluster, "k1", last_id, first).startswith(nothing)
    assert b'{"n": 1}' in first_event(cluster, "k1", last_id), "a push may have changed it"
    # a record on top of the push is new, also with the same value
    write(cluster, "k1", PUSHED["k1"])
    settle(cluster)
    last_id = b"%d:3" % partition
    assert first_event(cluster, "k1", b"%d:2" % partition, first).startswith(b"id: %b\n" % last_id)
    assert first_event(cluster, "k1", last_id, first).startswith(nothing)
    # the client has seen a later record than this instance has: nothing is repeated
    assert first_event(cluster, "k1", b"%d:9" % partition, first).startswith(nothing)
    # another push has the same value at the same position
    second = push(folder, cluster.view, ends(cluster), PUSHED).encode()
    settle(cluster)
    assert first_event(cluster, "k1", last_id, first).startswith(b"id: %b\n" % last_id)
    assert first_event(cluster, "k1", last_id, second).startswith(nothing)


def test_a_store_that_cannot_be_opened_is_made_again_later(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster, "k1", '{"live": 1}')
    settle(cluster)

    def fail(*_: object) -> None:
        raise OSError("too many open files")

    node = cluster.nodes["b1"]
    monkeypatch.setattr(node.folder, "open_snapshot", fail)
    id_ = push(folder, cluster.view, ends(cluster), PUSHED)
    settle(cluster)
    assert values(cluster, "b1", "k1") == {"k1": {"live": 1}}
    [document] = node.pushes.documents(["orders"])
    assert {each["error"] for each in document["transfers"]} == {"OSError: too many open files"}
    assert all(each.retry_at > time.monotonic() for each in node.pushes.transfers.values())
    monkeypatch.undo()
    for transfer in node.pushes.transfers.values():
        transfer.retry_at = 0
    settle(cluster)
    assert pushes(cluster, "b1") == {id_}
    assert values(cluster, "b1", "k1") == {"k1": {"n": 1}}


def test_a_store_that_is_catching_up_is_deleted_if_the_partition_moves_away(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    before = ends(cluster)
    for n in range(20):
        write(cluster, "k1", f'{{"live": {n}}}')
    settle(cluster)
    push(folder, cluster.view, before, PUSHED)
    partition = cluster.home(b"k1")
    node = cluster.nodes["b1"]
    while node.store_partitions.candidate("orders", partition) is None:
        cluster.turn("b1", most=1)
    cluster.place([B2, B2])
    cluster.turn("b1")
    assert node.store_partitions.candidates() == []
    stored = {path.name for path in (tmp_path / "b1" / "orders").iterdir()}
    assert not any("copy" in name for name in stored if name.startswith(str(partition)))


@pytest.mark.slow
def test_an_instance_that_is_killed_after_the_installation_has_one_of_the_stores(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    push(folder, cluster.view, ends(cluster), PUSHED)
    settle(cluster)
    id_ = push(folder, cluster.view, ends(cluster), {"k1": '{"n": 100}'})
    settle(cluster)
    # both stores are on the disk, for reads that had begun
    assert len(list((tmp_path / "b1" / "orders").iterdir())) > 2
    pushes_of_b1 = cluster.nodes["b1"].ingest.lifecycle._pushes
    assert pushes_of_b1 is not None
    for retired in pushes_of_b1._retired:
        retired.store_partition.store.close()  # the end of a process closes them
    cluster.crash("b1")
    cluster.start("b1")
    assert {path.name for path in (tmp_path / "b1" / "orders").iterdir()} == {"0", "1"}
    settle(cluster)
    assert pushes(cluster, "b1") == {id_}
    assert values(cluster, "b1", "k1", "k2") == {"k1": {"n": 100}, "k2": 404}


def test_entries_of_a_push_expire_as_others_do(tmp_path: Path, folder: Path) -> None:
    view = replace(ORDERS, push=str(folder), retention=3_600_000)
    cluster = Cluster(tmp_path, view, instances=1, partitions=1)
    cluster.place([B1])
    settle(cluster)
    now = time.time_ns() // 1_000_000
    rows = {"old": "1", "new": "2", "future": "3"}
    push(folder, view, [0], rows, times=[now - 2 * 3_600_000, now - 60_000, now + 7_200_000])
    settle(cluster)
    assert values(cluster, "b1", *rows) == {"old": 404, "new": 2, "future": 3}
    held = cluster.nodes["b1"].store_partitions.get("orders", 0)
    assert held is not None
    stored = [key for key, _ in held.store.scan(b"\x01", b"\x02")]
    assert stored == [b"\x01future", b"\x01new"], "ingest has deleted what has expired"
    assert held.store.stream_time == now - 60_000, "a time in the future does not count yet"
    cluster.close()


@pytest.mark.parametrize("store", KINDS)
def test_a_push_gives_the_same_entries_as_records(tmp_path: Path, folder: Path, store: str) -> None:
    view = replace(ORDERS, push=str(folder), store=store)
    at = {"window": (60_000, 0), "session": (120_000, 60_000)}.get(store, ())
    records = [Record(n, b"k%d" % n, at, b"%d" % n, 1_000 + n) for n in range(5)]
    of_records = Cluster(tmp_path / "records", replace(view, push=None), 1, 1)
    pushed = Cluster(tmp_path / "pushed", view, 1, 1)
    for record in records:
        of_records.write(record, 0)
    rows = {record.record_key(view): record.value for record in records}
    push(folder, view, [0], rows, times=[record.timestamp for record in records])
    answers = []
    for cluster in (of_records, pushed):
        cluster.place([B1])
        settle(cluster)
        answers.append(cluster.ask("b1", "GET", f"/views/orders/{view.kind.resource}").body)
        cluster.close()
    assert len(json.loads(answers[0])["items"]) == 5
    assert answers[0] == answers[1]
