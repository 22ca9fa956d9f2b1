"""Keys that may be in any partition: where a delete lies does not matter, nor where a history."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from model.partitioner import partition_of
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import view
from tests.support.reference.questions import BYTES
from tests.support.reference.tables import Record
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere, put

KEYS = [b"key %d" % n for n in range(6)]


def gone(of: Cluster, key: bytes, left: int) -> None:
    path = f"keys/{key.decode().replace(' ', '%20')}"
    assert {status for status, _ in everywhere(of, path)} == {404}
    for status, page in everywhere(of, "keys"):
        assert status == 200
        assert key.decode() not in [item["key"] for item in page["items"]]
        assert len(page["items"]) == left
    counted = (200, {"count": left, "exact": True})
    assert everywhere(of, "count?exact=true") == [counted] * len(of.nodes)
    for _, ranked in everywhere(of, "top?by=n"):
        assert len(ranked["items"]) == left


@pytest.mark.parametrize("store", ["key-value", "versioned"])
@pytest.mark.parametrize("of_deletes", [0, 1, 2])
def test_a_delete_counts_in_whichever_partition_it_lies(
    tmp_path: Path, of_deletes: int, store: str
) -> None:
    with cluster(tmp_path, store=store, partitioner="none") as made:
        for number, key in enumerate(KEYS):
            put(made, number % 3, key, b'{"n":1}', 10)
        put(made, of_deletes, KEYS[0], None, 11)
        gone(made, KEYS[0], 5)
        # an older delete deletes nothing
        put(made, of_deletes, KEYS[1], None, 9)
        if store == "versioned" or of_deletes != 1:
            assert everywhere(made, "keys/key%201")[0][0] == 200
        # nor does one that is over
        put(made, (of_deletes + 1) % 3, KEYS[0], b'{"n":2}', 12)
        for status, found in everywhere(made, "keys/key%200"):
            assert (status, found["value"]) == (200, {"n": 2})


@pytest.mark.slow
def test_once_a_record_strays_deletes_count_wherever_they_lie(tmp_path: Path) -> None:
    """Of a partitioner that says where a key belongs."""
    with cluster(tmp_path) as made:
        for key in KEYS:
            put(made, made.home(key), key, b'{"n":1}', 10)
        stray = (made.home(KEYS[0]) + 1) % 3
        # what makes it known is a delete in the wrong partition
        put(made, stray, KEYS[0], None, 11)
        assert made.mispartitioned
        gone(made, KEYS[0], 5)
        # a value in the wrong partition, deleted in the right one
        put(made, stray, KEYS[0], b'{"n":2}', 12)
        assert everywhere(made, "keys/key%200")[0][0] == 200
        put(made, made.home(KEYS[0]), KEYS[0], None, 13)
        gone(made, KEYS[0], 5)
        for id_ in made.nodes:
            made.stop(id_)
            made.start(id_)
            made.settle()
        gone(made, KEYS[0], 5)


@contextmanager
def new_deployment(folder: Path, instances: int) -> Iterator[tuple[Cluster, bytes]]:
    """Of a topic that had three partitions and has four. The key has moved from partition 1 to 3.
    Its value is at the end of partition 1. Nothing has been read yet."""
    made = Cluster(folder, view(), instances, partitions=4)
    moves = partition_of("murmur2")
    numbered = (b"key %d" % n for n in itertools.count())
    stays, moved = (
        next(key for key in numbered if (moves(key, 3), moves(key, 4)) == (1, home))
        for home in (1, 3)
    )
    for offset in range(5):
        made.write(Record(offset, stays, (), b'{"n":1}', 10), 1)
    made.write(Record(5, moved, (), b'{"n":1}', 10), 1)
    try:
        yield made, moved
    finally:
        made.close()


def test_a_new_deployment_keeps_tombstones_until_it_has_read_the_topic(tmp_path: Path) -> None:
    """It does not know that partitions were added until it has read a record in an old one."""
    with new_deployment(tmp_path, 3) as (made, key):
        made.write(Record(0, key, (), None, 20), 3)
        made.turn("b1")  # with partition 3
        assert not made.mispartitioned
        made.settle()
        assert made.mispartitioned
        gone(made, key, 1)


def test_a_delete_while_another_partition_is_read_for_the_first_time(tmp_path: Path) -> None:
    with new_deployment(tmp_path, 1) as (made, key):
        made.turn("b1", 1)
        assert made.nodes["b1"].store_partitions.for_view("orders")[3].progress.answerable
        made.write(Record(0, key, (), None, 20), 3)
        made.turn("b1", 1)
        assert not made.mispartitioned
        made.settle()
        assert made.mispartitioned
        gone(made, key, 1)


def test_record_bytes_of_mispartitioned_keys(tmp_path: Path) -> None:
    with cluster(tmp_path, partitioner="none") as made:
        put(made, 2, b"a", b'{ "n": 1 }', 10)
        for id_ in made.nodes:
            said = made.ask(id_, "GET", "/views/orders/keys/a", b"", {"accept": BYTES})
            assert (said.status, said.body) == (200, b'{ "n": 1 }')
            assert said.headers["content-type"] == BYTES
            missing = made.ask(id_, "GET", "/views/orders/keys/b", b"", {"accept": BYTES})
            assert (missing.status, missing.json()["code"]) == (404, "key-not-found")


def test_histories_over_all_partitions(tmp_path: Path) -> None:
    with cluster(tmp_path, store="window", partitioner="none", window_size=10) as made:
        for n in range(9):
            put(made, n % 3, b"a", b"%d" % n, 7, n * 10, 0)
        put(made, 0, b"a", None, 8, 40, 0)  # its value is in partition 1
        for id_ in made.nodes:
            starts: list[int] = []
            cursor = ""
            while True:
                target = f"/views/orders/keys/a/windows?from=10&order=desc&limit=3{cursor}"
                document = made.ask(id_, "GET", target).json()
                starts += [item["start"] for item in document["items"]]
                if document["next"] is None:
                    break
                cursor = f"&cursor={document['next']}"
            assert starts == [80, 70, 60, 50, 30, 20, 10]


def test_versions_over_all_partitions(tmp_path: Path) -> None:
    with cluster(tmp_path, store="versioned", partitioner="none", retention=50) as made:
        for n in range(6):
            put(made, n % 3, b"a", b"%d" % n if n != 3 else None, n * 10)
        expected = [(0, 10), (10, 20), (20, 30), (40, 50), (50, None)]
        for status, document in everywhere(made, "keys/a/versions"):
            assert status == 200
            found = [(item["valid_from"], item["valid_to"]) for item in document["items"]]
            assert found == expected
        for status, document in everywhere(made, "keys/a?as_of=25"):
            assert (status, document["value"], document["valid_to"]) == (200, 2, 30)
        assert {status for status, _ in everywhere(made, "keys/a?as_of=35")} == {404}
        # one partition's clock goes on: what the others had before is not in the answer any more
        put(made, 0, b"b", b"1", 100)
        assert {status for status, _ in everywhere(made, "keys/a?as_of=25")} == {410}
        assert {status for status, _ in everywhere(made, "keys/a?as_of=50")} == {200}


def test_a_delete_that_is_old_still_ends_a_version_elsewhere(tmp_path: Path) -> None:
    with cluster(tmp_path, store="versioned", partitioner="none", retention=50) as made:
        put(made, 0, b"a", b"1", 10)
        put(made, 1, b"a", None, 20)
        put(made, 1, b"b", b"1", 500)  # in that partition's past
        assert {status for status, _ in everywhere(made, "keys/a")} == {404}


def test_a_history_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.queries.scans.key_entries.MAX_ENTRIES", 3)
    with cluster(tmp_path, store="window", partitioner="none") as made:
        for n in range(5):
            put(made, n % 3, b"a", b"1", 7, n * 10, 0)
        for status, problem in everywhere(made, "keys/a/windows"):
            assert (status, problem["code"]) == (400, "too-many-entries")
        assert {status for status, _ in everywhere(made, "keys/a/windows?to=20")} == {200}


def test_changes_of_mispartitioned_keys_are_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, partitioner="none") as made:
        put(made, 2, b"a", b"1", 10)
        for status, problem in everywhere(made, "keys/a/changes"):
            assert (status, problem["code"]) == (503, "mis-partitioned")


def test_bounds_are_about_all_partitions(tmp_path: Path) -> None:
    """Of a key that may be in any partition."""
    with cluster(tmp_path, partitioner="none") as made:
        put(made, 2, b"a", b"1", 10)
        for bounds, code in (
            ("min_offset=2:0", None), ("min_offset=2:0,1:0", "not-up-to-offset"),
            ("max_lag=0&max_staleness=1m", None),
        ):  # fmt: skip
            for status, found in everywhere(made, f"keys/a?{bounds}"):
                assert (status, found.get("code")) == (200 if code is None else 503, code), bounds
        made.write(Record(1, b"b", (), b"1", 11), 2)
        for node in made.nodes.values():
            node.metadata_poller.refresh()
            node.ingest.lifecycle.check_metadata()
        for _, found in everywhere(made, "keys/a?max_lag=0"):
            assert found["code"] == "too-far-behind"


@pytest.mark.parametrize("store", ["window", "versioned"])
def test_bounds_of_a_history(tmp_path: Path, store: str) -> None:
    with cluster(tmp_path, store=store, partitioner="none") as made:
        put(made, 2, b"a", b"1", 10, *((10, 0) if store == "window" else ()))
        resource = f"keys/a/{store}s" if store == "window" else "keys/a/versions"
        for bounds, code in (("2:0", None), ("2:1", "not-up-to-offset")):
            for _, found in everywhere(made, f"{resource}?min_offset={bounds}"):
                assert found.get("code") == code


def test_what_others_answered_meanwhile_is_not_answered_at_once_after_a_crash(
    tmp_path: Path,
) -> None:
    """A restart within the acceptable lag is, but not where somebody else may have said more."""
    with cluster(tmp_path) as made:
        key = next(k for k in KEYS if made.home(k) == 0)
        put(made, 0, key, b"1", 10)
        for moved in (False, True):
            made.crash("b1")
            if moved:
                made.place([1, 1, 2])
                made.settle()
                put(made, 0, key, b"3", 12)
                assert everywhere(made, f"keys/{key.decode()}")[0][1]["value"] == 3
            else:
                made.write(Record(1, key, (), b"2", 11), 0)
            made.start("b1")
            made.place([0, 1, 2])
            made.turn("b1", 1)  # the last record that it had applied
            answer = made.ask("b1", "GET", f"/views/orders/keys/{key.decode()}")
            assert answer.status == (503 if moved else 200)
            # nor after it has ended once more on the way
            made.crash("b1")
            made.start("b1")
            made.turn("b1", 1)  # the last record that it had applied
            answer = made.ask("b1", "GET", f"/views/orders/keys/{key.decode()}")
            assert answer.status == (503 if moved else 200)
            made.settle()
            assert made.ask("b1", "GET", f"/views/orders/keys/{key.decode()}").status == 200


@pytest.mark.parametrize("partitioner", ["none", "murmur2"])
def test_an_exact_count_of_keys_in_any_partition_sends_no_values(
    tmp_path: Path, partitioner: str
) -> None:
    with cluster(tmp_path, partitioner=partitioner, value="bytes") as made:
        for number, key in enumerate(KEYS):
            put(made, number % 3, key, b"x" * 10_000, 10)
        sizes: list[int] = []
        forward = made.forward

        async def weighed(*args: Any, **options: Any) -> Any:
            answer = await forward(*args, **options)
            sizes.append(len(answer.body))
            return answer

        made.forward = weighed  # type: ignore[method-assign]
        assert everywhere(made, "count?exact=true") == [(200, {"count": 6, "exact": True})] * 3
        assert sizes
        assert max(sizes) < 1_000


def test_a_page_does_not_begin_after_a_delete_that_became_a_value(tmp_path: Path) -> None:
    """Regression: the cursor skipped the deletes after the last version of the page."""
    with cluster(tmp_path, store="versioned", partitioner="none", retention=1000) as made:
        for time, value in ((40, b"1"), (50, None), (80, b"3")):
            put(made, 0, b"a", value, time)
        first = dict(everywhere(made, "keys/a/versions?limit=1"))[200]
        assert [item["valid_from"] for item in first["items"]] == [40]
        put(made, 0, b"a", b"2", 50)
        for _, rest in everywhere(made, f"keys/a/versions?limit=1000&cursor={first['next']}"):
            assert [item["valid_from"] for item in rest["items"]] == [50, 80]
