"""Keys whose partition has changed because partitions were added to the topic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.ingest.metadata import topic_metadata
from tests.support.examples import examples
from tests.support.in_process.cluster import Cluster
from tests.support.reference.tables import Record
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere
from tests.unit.backend.queries.scans.grown_topic import (
    KEYS,
    Producer,
    ask,
    check_all,
    grown,
    just_added,
    moves,
    partition,
    place_all,
)


@pytest.mark.slow
def test_keys_are_answered_from_both_partitions(tmp_path: Path) -> None:
    with grown(tmp_path) as (made, _, current):
        moving = [key for key in KEYS if moves(key, 3, 5)]
        assert 12 < len(moving) < len(KEYS)
        expected: dict[bytes, int | None] = dict.fromkeys(KEYS, 1)
        check_all(made, expected)
        for at, key in enumerate(moving[:4], 100):
            current.send(key, b'{"n":2}', at)
            expected[key] = 2
        current.send(moving[4], None, 110)
        current.send(b"new", b'{"n":3}', 111)
        made.settle()
        check_all(made, expected | {moving[4]: None, b"new": 3, b"missing": None})


@pytest.mark.slow
def test_a_producer_that_does_not_know_the_new_partitions(tmp_path: Path) -> None:
    with grown(tmp_path) as (made, late, current):
        written, deleted, older = [key for key in KEYS if moves(key, 3, 5)][:3]
        for at, (key, first, then) in enumerate(
            [(written, current, late), (deleted, current, late), (older, late, current)]
        ):
            first.send(key, b'{"n":2}', 100 + at)
            then.send(key, None if key == deleted else b'{"n":3}', 200 + at)
        made.settle()
        expected: dict[bytes, int | None] = dict.fromkeys(KEYS, 1)
        check_all(made, expected | {written: 3, deleted: None, older: 3})


@pytest.mark.slow
def test_two_records_in_one_millisecond(tmp_path: Path) -> None:
    """A producer writes a key, learns of the new partitions, and writes it again."""
    with grown(tmp_path) as (made, late, current):
        moving = [key for key in KEYS if moves(key, 3, 5)]
        for key in moving:
            late.send(key, b'{"n":2}', 100)
            current.send(key, b'{"n":3}', 100)
        made.settle()
        expected: dict[bytes, int | None] = dict.fromkeys(KEYS, 1)
        check_all(made, expected | dict.fromkeys(moving, 3))


@pytest.mark.slow
def test_partitions_are_added_twice(tmp_path: Path) -> None:
    """A key may be in the same partition of three and of seven, but in another one of five."""
    with grown(tmp_path) as (made, _, current):
        there_and_back = [key for key in KEYS if moves(key, 3, 5) and not moves(key, 3, 7)]
        assert there_and_back
        expected: dict[bytes, int | None] = dict.fromkeys(KEYS, 1)
        for at, key in enumerate(KEYS, 100):
            current.send(key, b'{"n":2}', at)
            expected[key] = 2
        made.settle()
        made.add_partitions(2)
        place_all(made)
        made.settle()
        check_all(made, expected)
        current.knows = 7
        for at, key in enumerate(KEYS[::2], 200):
            # a delete in the first partition of a key is newer than its value in the second one
            current.send(key, None, at)
            expected[key] = None
        made.settle()
        check_all(made, expected)
        assert not made.mispartitioned


@settings(max_examples=examples(15))
@given(data=st.data())
@pytest.mark.slow
def test_whatever_producers_do(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with cluster(tmp_path_factory.mktemp("grown")) as made:
        producers = [Producer(made), Producer(made), Producer(made)]
        expected: dict[bytes, int | None] = dict.fromkeys(KEYS[:8])
        steps = st.sampled_from(["write"] * 12 + ["delete"] * 4 + ["learn"] * 2 + ["add", "turn"])
        for at in range(data.draw(st.integers(1, 60))):
            step = data.draw(steps)
            producer = data.draw(st.sampled_from(producers))
            if step == "add" and len(made.logs) < 9:
                made.add_partitions(data.draw(st.integers(1, 3)))
                place_all(made)
                made.settle()
            elif step == "learn":
                producer.knows = len(made.logs)
            elif step == "turn":
                made.turn(data.draw(st.sampled_from(sorted(made.nodes))), 2)
            else:
                key = data.draw(st.sampled_from(KEYS[:8]))
                expected[key] = None if step == "delete" else at
                producer.send(key, None if step == "delete" else b'{"n":%d}' % at, at)
        made.settle()
        check_all(made, expected)


REFUSED = {"too-far-behind", "too-stale", "not-up-to-offset"}


def refusals(of: Cluster, id_: str, key: bytes) -> set[int | str]:
    """Of requests with bounds that only the new partition of the key can meet: 200, or the code."""
    former, current = partition(key, 3), partition(key, 5)
    assert ask(of, id_, key, f"?min_offset={former}:0").status == 200
    bounds = ("max_lag=1000", "max_staleness=1m", f"min_offset={former}:0,{current}:0")
    answers = [ask(of, id_, key, f"?{bound}") for bound in bounds]
    return {200 if answer.status == 200 else answer.json()["code"] for answer in answers}


def test_answers_right_after_the_addition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the new partitions are placed and opened, keys are answered as of the addition."""
    with just_added(tmp_path) as (made, producer):
        [key, *_] = [each for each in KEYS if partition(each, 5) > 2]
        producer.send(key, b'{"n":2}', 100)
        for id_ in made.nodes:
            made.turn(id_)  # it learns of the new partitions
        for id_ in made.nodes:
            answer = ask(made, id_, key)
            assert (answer.status, answer.json()["value"]) == (200, {"n": 1})
            assert (answer.headers["lag"], answer.headers["staleness"]) == ("unknown", "unknown")
            assert refusals(made, id_, key) == REFUSED
            page = made.ask(id_, "GET", "/views/orders/keys?limit=1000")
            assert (page.status, page.headers["lag"]) == (200, "unknown")
            assert len(page.json()["items"]) == len(KEYS)
        place_all(made)  # placed, but not open
        for id_ in made.nodes:
            answer = ask(made, id_, key)
            assert (answer.status, answer.json()["value"]) == (200, {"n": 1})
            assert answer.headers["lag"] == "unknown"
            assert refusals(made, id_, key) == REFUSED
        made.settle()
        for id_ in made.nodes:
            answer = ask(made, id_, key)
            assert (answer.status, answer.json()["value"]) == (200, {"n": 2})
            assert answer.headers["lag"] == "0"
            assert refusals(made, id_, key) == {200}
        # from now on, an answer without the new partition would be older than one that was given
        made.place([0, 1, 2, -1, -1])
        made.settle()
        assert {ask(made, id_, key).status for id_ in made.nodes} == {503}
        place_all(made)
        made.settle()
        assert {ask(made, id_, key).status for id_ in made.nodes} == {200}
        # partitions that are not placed within seconds
        made.add_partitions(1)
        for id_ in made.nodes:
            made.turn(id_)
        monkeypatch.setattr(topic_metadata, "_JUST_ADDED", 0)
        moving = next(each for each in KEYS if partition(each, 5) != partition(each, 6))
        assert {ask(made, id_, moving).json()["code"] for id_ in made.nodes} == {"repartitioned"}


def test_a_store_that_may_lack_tombstones_is_not_read(tmp_path: Path) -> None:
    """An older version did not keep the tombstones of new partitions."""
    with grown(tmp_path) as (made, _, current):
        key = next(each for each in KEYS if partition(each, 5) == 4)
        current.send(key, b'{"n":2}', 100)
        made.settle()
        for node in made.nodes.values():
            for each in node.store_partitions.all():
                if each.partition > 2:
                    assert each.metadata.earlier_counts == (3,)
                    each.metadata = replace(each.metadata, earlier_counts=())
        assert {ask(made, id_, key).json()["code"] for id_ in made.nodes} == {"repartitioned"}
        assert {code for _, found in everywhere(made, "keys") for code in [found["code"]]} == {
            "repartitioned"
        }


def test_a_history_right_after_the_addition_has_an_unknown_lag(tmp_path: Path) -> None:
    with cluster(tmp_path, store="window") as made:
        home = made.home(KEYS[0])
        made.write(Record(0, KEYS[0], (10, 0), b"1", 10), home)
        made.settle()
        made.add_partitions(2)
        for id_ in made.nodes:
            made.turn(id_)
        for id_ in made.nodes:
            answer = made.ask(id_, "GET", "/views/orders/keys/key%200/windows")
            assert (answer.status, answer.headers["lag"]) == (200, "unknown")


def test_an_offset_in_a_partition_that_is_not_known_yet(tmp_path: Path) -> None:
    """A client has appended a record to a partition that was added a moment ago."""
    with cluster(tmp_path) as made:
        made.settle()
        made.add_partitions(2)
        key = next(each for each in KEYS if partition(each, 5) == 4)
        for id_ in made.nodes:  # before the first one polls
            answer = ask(made, id_, key, "?min_offset=4:0")
            assert (answer.status, answer.json()["code"]) == (503, "not-up-to-offset")
        place_all(made)
        made.settle()
        producer = Producer(made)
        producer.send(key, b'{"n":1}', 1)
        made.settle()
        # partitions are added again: the answer is without the newest one
        made.add_partitions(1)
        for id_ in made.nodes:
            made.turn(id_)
        moving = next(each for each in KEYS if moves(each, 3, 5) and partition(each, 6) == 5)
        for id_ in made.nodes:
            assert ask(made, id_, moving).status == 404
            assert ask(made, id_, moving).headers["lag"] == "unknown"
            assert ask(made, id_, moving, "?min_offset=5:0").json()["code"] == "not-up-to-offset"


def test_an_instance_with_an_older_topology_gets_no_incomplete_scan(tmp_path: Path) -> None:
    """It may be cut off from the broker, and would leave the new partitions out."""
    with cluster(tmp_path) as made:
        former = made.nodes["b1"].context.group.topology
        made.settle()
        made.add_partitions(2)
        place_all(made)
        made.settle()
        b1 = made.nodes["b1"].context
        b1.group.apply_topology(replace(former, epoch=b1.group.topology.epoch))
        b1.metadata_poller.latest.clear()
        answer = made.ask("b1", "GET", "/views/orders/keys")
        assert (answer.status, answer.json()["code"]) == (503, "repartitioned")


def test_bounds_of_a_moved_key(tmp_path: Path) -> None:
    """Each of its partitions must be within them."""
    with grown(tmp_path) as (made, _, current):
        key = next(each for each in KEYS if partition(each, 5) == 4)
        former = partition(key, 3)
        current.send(key, b'{"n":2}', 100)
        ends = len(made.logs[former]), len(made.logs[4])
        for node in made.nodes.values():
            node.metadata_poller.refresh()
            node.ingest.lifecycle.check_metadata()
        for id_ in made.nodes:
            assert ask(made, id_, key, "?max_lag=0").json()["code"] == "too-far-behind"
            assert ask(made, id_, key, "?min_offset=4:0").json()["code"] == "not-up-to-offset"
            assert ask(made, id_, key, "?max_lag=1&min_offset=1:99").status == 200
        made.settle()
        for id_ in made.nodes:
            bounds = (
                f"?max_lag=0&max_staleness=1m&min_offset={former}:{ends[0] - 1},4:{ends[1] - 1}"
            )
            assert ask(made, id_, key, bounds).json()["value"] == {"n": 2}
            beyond = f"?min_offset={former}:{ends[0]}"
            assert ask(made, id_, key, beyond).json()["code"] == "not-up-to-offset"


@pytest.mark.parametrize("resource", ["keys?partition=1", "count?exact=true"])
def test_one_partition_of_a_view_with_moved_keys(tmp_path: Path, resource: str) -> None:
    with grown(tmp_path) as (made, _, _):
        found = everywhere(made, resource)
        if resource.startswith("count"):
            assert found == [(200, {"count": len(KEYS), "exact": True})] * 3
        else:
            assert {(status, page["code"]) for status, page in found} == {(503, "mis-partitioned")}


def test_a_changelog_with_a_result_in_each_partition(tmp_path: Path) -> None:
    with grown(tmp_path, topic="app-store-changelog") as (made, _, current):
        once, twice = [key for key in KEYS if moves(key, 3, 5)][:2]
        current.send(twice, b'{"n":2}', 100)
        made.settle()
        assert {ask(made, id_, once).status for id_ in made.nodes} == {200}
        assert {ask(made, id_, twice).json()["code"] for id_ in made.nodes} == {"ambiguous-key"}
