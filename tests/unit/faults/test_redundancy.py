from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.faults.redundancy import missing

VIEW = "v"


def processors() -> dict[str, Any]:
    """Three instances, three partitions, each with a standby."""
    document = {
        "epoch": "1-1",
        "views": {VIEW: {"partitions": 3}},
        "processors": [
            {
                "id": f"b{n}",
                "state": "running",
                "topicPartitions": {VIEW: [n]},
                "standbyPartitions": {VIEW: [(n + 1) % 3]},
                "warmingPartitions": {VIEW: []},
            }
            for n in range(3)
        ],
    }
    return {f"b{n}": copy.deepcopy(document) for n in range(3)}


def instances() -> dict[str, Any]:
    return {
        f"b{n}": {
            "partitions": [
                {"view": VIEW, "partition": p, "state": "answerable"} for p in (n, (n + 1) % 3)
            ]
        }
        for n in range(3)
    }


def test_complete_redundancy() -> None:
    assert missing(VIEW, 3, 2, processors(), instances()) == ""
    assert missing(VIEW, 3, 1, processors(), instances()) == ""


def test_two_live_instances_need_two_replicas() -> None:
    maps = processors()
    for document in maps.values():
        for p in document["processors"]:
            p["topicPartitions"][VIEW] = {"b0": [0, 1, 2]}.get(p["id"], [])
            p["standbyPartitions"][VIEW] = {"b1": [0, 1, 2]}.get(p["id"], [])
        document["processors"].pop()
    held = {
        id_: {
            "partitions": [{"view": VIEW, "partition": p, "state": "answerable"} for p in range(3)]
        }
        for id_ in ("b0", "b1")
    }
    del maps["b2"]
    assert missing(VIEW, 3, 3, maps, held) == ""
    held["b1"]["partitions"].pop()
    assert missing(VIEW, 3, 3, maps, held) == "partition 2 is not answerable at b1"


def broken(what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    maps, held = processors(), instances()
    first = maps["b0"]["processors"][0]
    if what == "does not answer":
        held["b1"] = None
    elif what == "different topologies":
        maps["b2"]["epoch"] = "1-2"
    elif what == "are live":
        del maps["b2"], held["b2"]
    elif what == "b0 is draining":
        first["state"] = "draining"
    elif what == "b0 is warming up":
        first["warmingPartitions"][VIEW] = [2]
    elif what == "3 partitions of 4":
        pass
    elif what == "has 0 actives":
        first["topicPartitions"][VIEW] = []
    elif what == "has 2 actives":
        first["topicPartitions"][VIEW] = [0, 1]
    elif what == "has 0 standbys":
        first["standbyPartitions"] = {}
    elif what == "partition 1 is not answerable at b0":
        held["b0"]["partitions"][1]["state"] = "catching-up"
    return maps, held


@pytest.mark.parametrize(
    "what",
    [
        "does not answer",
        "different topologies",
        "are live",
        "b0 is draining",
        "b0 is warming up",
        "3 partitions of 4",
        "has 0 actives",
        "has 2 actives",
        "has 0 standbys",
        "partition 1 is not answerable at b0",
    ],
)
def test_missing_redundancy(what: str) -> None:
    maps, held = broken(what)
    assert what in missing(VIEW, 4 if what.endswith("of 4") else 3, 2, maps, held)
