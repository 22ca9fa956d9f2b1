"""Versions of keys in any partition: only those that a span needs are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backend.queries.scans.scatter_gather import ScatterGather
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import view
from tests.support.in_process.world import world
from tests.support.reference.tables import Record
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere, put
from tests.unit.backend.queries.scans.grown_topic import KEYS, ask, grown, moves

MAX_ENTRIES = "backend.queries.scans.key_entries.MAX_ENTRIES"
TIMES = range(0, 400, 10)


def is_delete(time: int) -> bool:
    return time % 70 == 60


@contextmanager
def long_history(folder: Path, spread: bool = True, **fields: Any) -> Iterator[Cluster]:
    """Versions of one key from TIMES on: in three partitions, in no regular order, or in one."""
    with cluster(folder, store="versioned", partitioner="none", **fields) as made:
        for number, time in enumerate(TIMES):
            partition = number * number % 5 % 3 if spread else 1
            value = None if is_delete(time) else b"%d" % time
            made.write(Record(len(made.logs[partition]), b"a", (), value, time), partition)
            made.write(Record(len(made.logs[partition]), b"b", (), b"1", time), partition)
        made.settle()
        yield made


def expected(first: int | None, last: int | None) -> list[tuple[int, int | None]]:
    """When the versions of the key that are valid within a span are valid."""
    return [
        (start, end)
        for start, end in pairwise((*TIMES, None))
        if start is not None
        and not is_delete(start)
        and (last is None or start <= last)
        and (first is None or end is None or end > first)
    ]


def pages(of: Cluster, query: str) -> list[tuple[int, int | None]]:
    found: list[tuple[int, int | None]] = []
    cursor = ""
    while True:
        answer = of.ask("b1", "GET", f"/views/orders/keys/a/versions?limit=2{query}{cursor}")
        assert answer.status == 200, answer.body
        page = answer.json()
        found += [(item["valid_from"], item["valid_to"]) for item in page["items"]]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.parametrize("same_key", ["newest", "partial"])
def test_only_the_versions_of_a_span_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_key: str
) -> None:
    with long_history(tmp_path, spread=same_key == "newest", same_key=same_key) as made:
        monkeypatch.setattr(MAX_ENTRIES, 8)
        for status, problem in everywhere(made, "keys/a/versions"):
            assert (status, problem["code"]) == (400, "too-many-entries")
        for first, last in ((None, -1), (None, 35), (200, 230), (205, 205), (60, 69), (350, None)):
            bounds = "".join(
                f"&{name}={bound}"
                for name, bound in (("from", first), ("to", last))
                if bound is not None
            )
            assert pages(made, bounds) == expected(first, last), bounds
            assert pages(made, f"{bounds}&order=desc") == expected(first, last)[::-1], bounds


def test_only_two_versions_are_read_for_one_that_was_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with long_history(tmp_path) as made:
        monkeypatch.setattr(MAX_ENTRIES, 2)
        for time in (-1, *range(0, 410, 5)):
            answer = made.ask("b1", "GET", f"/views/orders/keys/a?as_of={time}")
            if valid := expected(time, time):
                assert answer.status == 200, time
                found = answer.json()
                assert [(found["valid_from"], found["valid_to"])] == valid
                assert found["value"] == valid[0][0]
            else:
                assert answer.status == 404, time


def test_expired_versions_of_a_long_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those from before the history are not known, wherever they are."""
    with long_history(tmp_path, retention=100) as made:
        put(made, 2, b"c", b"1", 420)
        monkeypatch.setattr(MAX_ENTRIES, 4)
        for as_of, status in ((300, 410), (315, 410), (320, 200), (325, 200), (342, 404)):
            assert {each for each, _ in everywhere(made, f"keys/a?as_of={as_of}")} == {status}
        assert pages(made, "&from=315&to=319") == []
        assert pages(made, "&from=310&to=335") == [(320, 330), (330, 340)]


def test_versions_that_are_not_read_make_a_key_ambiguous(tmp_path: Path) -> None:
    fields = {"same_key": "partial", "store": "versioned", "partitioner": "none"}
    with cluster(tmp_path, **fields) as made:
        for time in (10, 20, 30):
            put(made, 0, b"a", b"1", time)
        put(made, 1, b"a", None, 40)
        targets = [
            f"keys/a{below}"
            for below in ("?as_of=15", "/versions?from=15&to=16", "/versions?to=5", "/versions")
        ]
        for target in targets:
            assert {status for status, _ in everywhere(made, target)} == {200}, target
        put(made, 1, b"a", b"2", 50)
        for target in targets:
            found = {problem.get("code") for _, problem in everywhere(made, target)}
            assert found == {"ambiguous-key"}, target


def test_a_long_history_of_a_key_that_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with grown(tmp_path, store="versioned") as (made, late, current):
        key = next(each for each in KEYS[1:] if moves(each, 3, 5))
        for time in range(100, 200, 10):
            (late if time % 20 else current).send(key, b"%d" % time, time)
        made.settle()
        monkeypatch.setattr(MAX_ENTRIES, 4)
        for id_ in made.nodes:
            found = ask(made, id_, key, "?as_of=125").json()
            assert (found["value"], found["valid_from"], found["valid_to"]) == (120, 120, 130)
            items = ask(made, id_, key, "/versions?from=125&to=140").json()["items"]
            assert [item["valid_from"] for item in items] == [120, 130, 140]
            assert items[-1]["valid_to"] == 150


def test_a_version_that_disappears_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has expired, or a replica that is behind has answered then: older ones count."""
    of = view(store="versioned", partitioner="none")
    rows = ScatterGather.rows
    with world(tmp_path, of) as made:
        for time in (10, 20, 30):
            made.put(b"a", b"%d" % time, time, partition=time // 10)

        async def disappears(scatter_gather: Any, *arguments: Any, **more: Any) -> Any:
            query = arguments[1]
            async for step in rows(scatter_gather, *arguments, **more):
                if query.backwards:
                    store = made.store_partitions[2].store
                    batch = store.new_batch()
                    batch.delete(of.layout.stored_key(b"a", 20))
                    store.write(batch, made.offset)
                yield step

        monkeypatch.setattr(ScatterGather, "rows", disappears)
        found = made.ask("keys/a?as_of=25").json
        assert (found["value"], found["valid_from"], found["valid_to"]) == (10, 10, 30)
