"""Bounds of reads while some instances do not know yet that partitions were added."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backend.queries.scans.any_partition import cluster
from tests.backend.queries.scans.grown_topic import KEYS, ask, grown, partition

_REFUSED = (503, "not-up-to-offset")


def test_an_offset_in_an_old_partition_that_is_the_new_one_of_the_key(tmp_path: Path) -> None:
    """Partitions are added for the second time, and the key moves to one that existed before."""
    with grown(tmp_path) as (made, _, current):
        made.add_partitions(1)
        current.knows = 6
        [key, *_] = [
            each
            for each in KEYS
            if partition(each, 6) not in (5, partition(each, 3), partition(each, 5))
        ]
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
