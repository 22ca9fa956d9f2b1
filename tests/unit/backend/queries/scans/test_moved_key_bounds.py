"""Bounds of reads while some instances do not know yet that partitions were added."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.unit.backend.queries.scans.any_partition import cluster
from tests.unit.backend.queries.scans.grown_topic import (
    KEYS,
    Producer,
    ask,
    grown,
    just_added,
    partition,
    place_all,
)

_REFUSED = (503, "not-up-to-offset")


def moved_to_an_old_partition(made: Cluster, current: Producer) -> bytes:
    """Adds a sixth partition, which the producer knows, and returns a key that moves by it to a
    partition that existed before."""
    made.add_partitions(1)
    current.knows = 6
    return next(
        each
        for each in KEYS
        if partition(each, 6) not in (5, partition(each, 3), partition(each, 5))
    )


def test_an_offset_in_an_old_partition_that_is_the_new_one_of_the_key(tmp_path: Path) -> None:
    """Partitions are added for the second time, and the key moves to one that existed before."""
    with grown(tmp_path) as (made, _, current):
        key = moved_to_an_old_partition(made, current)
        home = current.send(key, b'{"n":2}', 100)
        offset = len(made.logs[home]) - 1
        for id_ in made.nodes:
            made.turn(id_)
        for id_ in made.nodes:
            answer = ask(made, id_, key)
            assert (answer.status, answer.headers["lag"]) == (200, "unknown")
            bounded = ask(made, id_, key, f"?min_offset={home}:{offset}")
            assert (bounded.status, bounded.json()["code"]) == _REFUSED
        made.place([0, 1, 2, 0, 1, 2])
        made.settle()
        for id_ in made.nodes:
            answer = ask(made, id_, key, f"?min_offset={home}:{offset}")
            assert (answer.status, answer.json()["value"]) == (200, {"n": 2})


@pytest.mark.parametrize("fields", [{"partitioner": "none"}, {}])
def test_an_offset_in_a_new_partition_if_a_key_may_be_in_any(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    with cluster(tmp_path, **fields) as made:
        if not fields:
            made.mispartitioned = True
            made.place(made.active)
        made.settle()
        made.add_partitions(1)
        for id_ in made.nodes:
            made.turn(id_)
        for id_ in made.nodes:
            answer = ask(made, id_, KEYS[0])
            assert (answer.status, answer.headers["lag"]) == (404, "unknown")
            bounded = ask(made, id_, KEYS[0], "?min_offset=3:0")
            assert (bounded.status, bounded.json()["code"]) == _REFUSED


def cut_off(of: Cluster, *ids: str) -> None:
    """These instances get no metadata from the broker any more."""
    for id_ in ids:
        of.nodes[id_].metadata_poller.refresh = lambda: None  # type: ignore[method-assign]


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_an_offset_in_a_partition_that_is_not_known_to_be_the_keys(
    tmp_path: Path, is_cut_off: bool
) -> None:
    """Only one instance knows of the addition when a client has appended a record through it."""
    with just_added(tmp_path) as (made, producer):
        key = next(each for each in KEYS if partition(each, 5) in {0, 1, 2} - {partition(each, 3)})
        home = producer.send(key, b'{"n":2}', 100)
        knowing = f"b{home + 1}"
        made.nodes[knowing].metadata_poller.refresh()
        others = sorted({*made.nodes} - {knowing})
        if is_cut_off:
            cut_off(made, *others)
        bound = f"?min_offset={home}:{len(made.logs[home]) - 1}"
        for id_ in made.nodes:
            answer = ask(made, id_, key, bound)
            assert (answer.status, answer.json()["code"]) == _REFUSED
        made.turn(knowing)  # it applies the record
        for id_ in made.nodes:
            answer = ask(made, id_, key, bound)
            assert (answer.status, answer.json()["code"]) == _REFUSED
        place_all(made)
        made.settle()
        for id_ in made.nodes:
            answer = ask(made, id_, key, bound)
            assert (answer.status, answer.json()["value"]) == (200, {"n": 2})


def test_offsets_of_other_keys(tmp_path: Path) -> None:
    """A session sends the offsets of all partitions that it has seen."""
    with grown(tmp_path) as (made, _, current):
        bounds = ",".join(f"{n}:{len(log) - 1}" for n, log in enumerate(made.logs) if log)
        cut_off(made, *made.nodes)
        for id_ in made.nodes:
            for key in KEYS:
                answer = ask(made, id_, key, f"?min_offset={bounds}")
                assert (answer.status, answer.json().get("value")) == (200, {"n": 1})
        # a record that nobody has applied yet may be of any key
        [key, *_] = KEYS
        [other, *_] = [each for each in KEYS if partition(each, 5) not in (0, partition(key, 3))]
        home = current.send(other, b'{"n":2}', 100)
        assert home not in (partition(key, 3), partition(key, 5))
        bounds = f"?min_offset={home}:{len(made.logs[home]) - 1}"
        for id_ in made.nodes:
            answer = ask(made, id_, key, bounds)
            assert (answer.status, answer.json()["code"]) == _REFUSED
        for node in made.nodes.values():
            del node.metadata_poller.refresh  # the broker can be reached again
        for id_ in made.nodes:
            assert ask(made, id_, key, bounds).status == 200


def test_offsets_of_other_keys_at_an_instance_without_a_partition(tmp_path: Path) -> None:
    """Regression: it does not poll the topic, and answered 503 until it had a partition."""
    with grown(tmp_path) as (made, _, current):
        made.place([0, 1, 0, 1, 0])
        made.settle()
        cut_off(made, "b3")
        made.nodes["b3"].metadata_poller.latest.clear()
        bounds = ",".join(f"{n}:{len(log) - 1}" for n, log in enumerate(made.logs) if log)
        for key in KEYS:
            answer = ask(made, "b3", key, f"?min_offset={bounds}")
            assert (answer.status, answer.json().get("value")) == (200, {"n": 1})
        # partitions are added that b3 does not know, and the key moves to an old one
        key = moved_to_an_old_partition(made, current)
        home = current.send(key, b'{"n":2}', 100)
        for id_ in ("b1", "b2"):
            made.turn(id_)
        bounds = f"{home}:{len(made.logs[home]) - 1}"
        answer = ask(made, "b3", key, f"?min_offset={bounds}")
        assert (answer.status, answer.json()["code"]) == _REFUSED


def test_an_offset_of_a_record_that_shows_that_the_view_is_mispartitioned(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        producer = Producer(made)
        [key, *_] = KEYS
        home = producer.send(key, b'{"n":1}', 1)
        made.settle()
        stray = (home + 1) % 3
        producer.send_to(stray, key, b'{"n":2}', 2)
        node = made.nodes[f"b{stray + 1}"]
        node.turn(1)  # the topology does not say so yet
        answer = ask(made, node.member.id, key, f"?min_offset={stray}:0")
        assert (answer.status, answer.json()["value"]) == (200, {"n": 2})
