"""`Served-By` names those that read, in the role in which each did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.queries.served_by import MAX_NAMED, ServedBy, roles_said
from model.views import View
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.tables import Record
from tests.support.reference.whole_views import WHOLE_VIEWS

KEYS = [f"key-{n}" for n in range(40)]
WHOLE = (
    "keys?limit=1000",
    "count",
    *WHOLE_VIEWS.values(),
)
NEVER = "stale=never"


def filled(folder: Path, view: View = ORDERS) -> Cluster:
    cluster = Cluster(folder, view)
    for key in KEYS:
        partition = cluster.home(key.encode())
        offset = len(cluster.logs[partition])
        cluster.write(Record(offset, key.encode(), (), b'{"n":1}', 1), partition)
    # partition 0: b1, b2 stands by; 1: b2, b3; 2: b3, b1
    cluster.place([0, 1, 2], [[1], [2], [0]])
    cluster.settle()
    return cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = filled(tmp_path)
    yield made
    made.close()


def served_by(cluster: Cluster, asked: str, target: str, **more: object) -> str:
    answer = cluster.ask(asked, "GET", f"/views/orders/{target}", **more)  # type: ignore[arg-type]
    assert answer.status == 200, answer
    return answer.headers.get("served-by", "")


def batch(cluster: Cluster, asked: str, keys: list[str], query: str = "") -> str | None:
    body = json.dumps({"keys": keys}).encode()
    answer = cluster.ask(asked, "POST", f"/views/orders/batch{query}", body)
    assert answer.status == 200, answer
    return answer.headers.get("served-by")


@pytest.mark.parametrize("target", WHOLE)
def test_of_a_whole_view_all_that_read(cluster: Cluster, target: str) -> None:
    assert served_by(cluster, "b2", target) == "b2; active, b1; active, b3; active"
    cluster.stop("b2")
    # b3 is active for one partition and stands by for another
    assert served_by(cluster, "b1", target) == "b1; active, b3; standby, b3; active"


def test_of_a_stream_those_that_read_its_beginning(cluster: Cluster) -> None:
    cluster.stop("b3")
    lines = {"accept": "application/x-ndjson"}
    assert served_by(cluster, "b2", "keys", headers=lines) == "b2; active, b1; standby, b1; active"


def test_of_a_batch_those_that_had_its_keys(cluster: Cluster) -> None:
    homes = {key: cluster.home(key.encode()) for key in KEYS}
    of_first = [key for key in KEYS if homes[key] == 0]
    assert batch(cluster, "b1", of_first) == "b1; active"
    assert batch(cluster, "b2", of_first) == "b2; standby"
    assert batch(cluster, "b2", of_first, "?stale=never") == "b1; active"
    assert batch(cluster, "b3", of_first) == "b1; active"
    assert batch(cluster, "b3", KEYS) == "b3; standby, b3; active, b1; active"
    cluster.stop("b1")
    assert batch(cluster, "b3", KEYS) == "b3; standby, b3; active, b2; standby"
    assert batch(cluster, "b3", ["no such key"]) is not None
    assert batch(cluster, "b3", []) is None
    cluster.stop("b2")
    assert batch(cluster, "b3", of_first) is None  # 503 each


def test_of_a_key_that_may_be_anywhere_all(cluster: Cluster) -> None:
    cluster.mispartitioned = True
    cluster.stop("b2")
    cluster.place([0, 1, 2], [[1], [2], [0]])
    said = "b1; active, b3; standby, b3; active"
    assert served_by(cluster, "b1", "keys/key-1") == said
    assert batch(cluster, "b1", ["key-1", "key-2"]) == said


def test_of_a_history_that_may_be_anywhere_all(tmp_path: Path) -> None:
    versioned = replace(ORDERS, store="versioned", path=None)
    cluster = Cluster(tmp_path, versioned)
    try:
        cluster.mispartitioned = True
        cluster.place([0, 1, 2], [[1], [2], [0]])
        cluster.settle()
        cluster.stop("b2")
        said = "b1; active, b3; standby, b3; active"
        assert served_by(cluster, "b1", "keys/a/versions") == said
    finally:
        cluster.close()


def test_of_a_global_view_each_reads_alone(tmp_path: Path) -> None:
    cluster = filled(tmp_path, replace(ORDERS, store="global"))
    try:
        cluster.place([0, 1, 2], [[1, 2], [2, 0], [0, 1]])
        # b3 does not have partition 0 yet: for this it asks another instance, the active first
        key = next(key for key in KEYS if cluster.home(key.encode()) == 0)
        assert served_by(cluster, "b3", f"keys/{key}") == "b1; active"
        assert served_by(cluster, "b3", "keys") == "b3; standby, b3; active, b1; active"
        assert batch(cluster, "b3", KEYS) == "b3; standby, b3; active, b1; active"
        cluster.settle()
        for target in WHOLE:
            assert served_by(cluster, "b2", target) == "b2; standby, b2; active"
            answer = served_by(cluster, "b2", target + ("&" if "?" in target else "?") + NEVER)
            assert answer == "b2; active, b1; active, b3; active"
        assert batch(cluster, "b2", KEYS) == "b2; standby, b2; active"
        # the last one of three answers everything alone
        cluster.stop("b1")
        cluster.stop("b3")
        for target in WHOLE:
            assert served_by(cluster, "b2", target) == "b2; standby, b2; active"
        for key in KEYS:
            assert served_by(cluster, "b2", f"keys/{key}").startswith("b2; ")
    finally:
        cluster.close()


def test_of_many_not_all_are_named_but_all_are_counted() -> None:
    answerers = ServedBy()
    assert answerers.headers("b1") == []
    for n in range(40):
        answerers.add(f"b{n:02}", ["active"])
    answerers.add("b39", ["standby"])
    answerers.add("old", [""])
    [(_, value)] = answerers.headers("b07")
    named = value.decode().split(", ")
    assert named[:3] == ["b07; active", "b39; standby", "old"]
    assert len(named) == MAX_NAMED + 1
    assert named[-1] == f"+{42 - MAX_NAMED}"


def test_what_another_instance_says_is_a_role_or_nothing() -> None:
    answerers = ServedBy()
    answerers.add("b2", roles_said([(b"served-by", b"b2; active, b2;standby, b2; x\r\ny: z")]))
    answerers.add("b3", roles_said([(b"content-type", b"application/json")]))
    [(_, value)] = answerers.headers("b1")
    assert value == b"b2, b2; standby, b3, b2; active"
