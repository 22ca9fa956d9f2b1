"""A drained instance gives its partitions to others, when they can answer for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from backend.cluster.placement import place
from model.group.member_metadata import MemberMetadata
from tests.support.in_process.examples import candidate
from tests.unit.backend.cluster.placed_views import GLOBAL, ONE, holding, ids, standbys, warming


def drained(metadata: MemberMetadata) -> MemberMetadata:
    return replace(metadata, drained=True)


def test_its_standbys_take_over() -> None:
    members = [
        drained(holding("b1", [0, 1])),
        holding("b2", [2], [0, 1]),
        holding("b3", [3], [0, 1, 2]),
    ]
    topology = place(members, {"orders": 4}, 5, ONE)
    assert Counter(ids(topology)) == {"b2": 2, "b3": 2}
    assert all(set(those) <= {"b2", "b3"} for those in standbys(topology))
    assert all(standbys(topology)), "the redundancy stays"
    assert warming(topology) == {}


def test_it_answers_until_others_have_caught_up() -> None:
    members = [drained(holding("b1", [0, 1])), candidate("b2"), candidate("b3")]
    topology = place(members, {"orders": 2}, 5)
    assert ids(topology) == ["b1", "b1"]
    assert set(warming(topology)) == {0, 1}
    assert set(warming(topology).values()) == {"b2", "b3"}


def test_it_gets_no_new_partitions() -> None:
    topology = place([drained(candidate("b1")), candidate("b2")], {"orders": 4}, 5, ONE)
    assert ids(topology) == ["b2"] * 4
    assert standbys(topology) == []


def test_if_all_are_drained_all_keep_their_partitions() -> None:
    members = [drained(holding("b1", [0, 1])), drained(holding("b2", [2, 3]))]
    assert ids(place(members, {"orders": 4}, 5)) == ["b1", "b1", "b2", "b2"]


def test_when_it_is_undrained_it_gets_its_share() -> None:
    members = [candidate("b1"), holding("b2", range(4))]
    topology = place([drained(members[0]), members[1]], {"orders": 4}, 5)
    assert (ids(topology), warming(topology)) == (["b2"] * 4, {})
    assert list(warming(place(members, {"orders": 4}, 5)).values()) == ["b1", "b1"]


@pytest.mark.parametrize("policy", [ONE, None])
def test_a_global_view_stays_on_all_others(policy: object) -> None:
    described = replace(candidate("b1", [GLOBAL]), drained=True)
    members = [described, candidate("b2", [GLOBAL]), candidate("b3", [GLOBAL])]
    topology = place(members, {GLOBAL.topic: 1}, 5, *([policy] if policy else []))  # type: ignore[arg-type]
    holders = {*ids(topology, GLOBAL.name), *standbys(topology, GLOBAL.name)[0]}
    assert holders == {"b2", "b3"}
