"""Which instances are standbys, warm up and take over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from backend.cluster.placement import Policy, place
from tests.support.in_process.examples import candidate, view
from tests.unit.backend.cluster.placed_views import (
    GLOBAL,
    ONE,
    holding,
    ids,
    spread,
    standbys,
    warming,
)


def test_one_instance_has_no_standbys() -> None:
    topology = place([holding("b1", range(3))], {"orders": 3}, 5, ONE)
    assert standbys(topology) == []


def test_each_of_two_stands_by_for_the_other() -> None:
    topology = place([candidate("b1"), candidate("b2")], {"orders": 4}, 5, ONE)
    assert Counter(ids(topology)) == {"b1": 2, "b2": 2}
    for active, those in zip(ids(topology), standbys(topology), strict=True):
        assert those == [{"b1": "b2", "b2": "b1"}[active or ""]]


def test_the_standby_takes_over_and_another_stands_by() -> None:
    left = [holding("b2", [1], [0]), holding("b3", [2], [1])]
    topology = place(left, {"orders": 3}, 5, ONE)
    assert ids(topology) == ["b2", "b2", "b3"] or ids(topology) == ["b2", "b3", "b3"]
    assert all(
        those and those != [a] for a, those in zip(ids(topology), standbys(topology), strict=True)
    )
    assert warming(topology) == {}


def test_who_holds_it_stays_active_until_the_other_has_caught_up() -> None:
    members = [holding("b1", range(4)), candidate("b2")]
    topology = place(members, {"orders": 4}, 5, ONE)
    assert ids(topology) == ["b1"] * 4
    assert sorted(warming(topology).values()) == ["b2", "b2"]
    # a partition that warms up has no other instance as a standby
    assert standbys(topology) == [[] if p in warming(topology) else ["b2"] for p in range(4)]

    has = sorted(warming(topology))
    rest = [p for p in range(4) if p not in has]
    members = [holding("b1", range(4)), holding("b2", [], rest)]
    members[1] = candidate(
        "b2",
        standby={"orders": rest},
        positions={"orders": dict.fromkeys(range(4), 990)},
        ready={"orders": range(4)},
    )
    topology = place(members, {"orders": 4}, 5, ONE)
    assert Counter(ids(topology)) == {"b1": 2, "b2": 2}
    assert warming(topology) == {}
    assert all(standbys(topology))


def test_one_that_is_too_far_behind_warms_up_though_it_calls_itself_ready() -> None:
    members = [holding("b1", [0, 1]), holding("b2", [], [0, 1], behind=101)]
    topology = place(members, {"orders": 2}, 5, ONE)
    assert ids(topology) == ["b1", "b1"]
    assert len(warming(topology)) == 1
    members = [holding("b1", [0, 1]), holding("b2", [], [0, 1], behind=100)]
    assert Counter(ids(place(members, {"orders": 2}, 5, ONE))) == {"b1": 1, "b2": 1}


def test_what_can_be_taken_over_at_once_moves_first() -> None:
    members = [holding("b1", range(4)), holding("b2", [], [2, 3])]
    assert ids(place(members, {"orders": 4}, 5, ONE)) == ["b1", "b1", "b2", "b2"]


def test_an_active_that_is_rebuilt_gives_way_to_its_standby() -> None:
    rebuilt = candidate("b1", active={"orders": [0]}, positions={"orders": {0: 3}})
    topology = place([rebuilt, holding("b2", [1], [0])], {"orders": 2}, 5, ONE)
    assert ids(topology) == ["b2", "b2"]
    assert warming(topology) == {0: "b1"}


def test_nobody_is_ready_and_the_farthest_goes_on() -> None:
    members = [
        candidate("b1", active={"orders": [0, 1]}, positions={"orders": {0: 5000, 1: 5000}}),
        candidate("b2"),
    ]
    topology = place(members, {"orders": 2}, 5, ONE)
    assert ids(topology) == ["b1", "b1"]
    assert len(warming(topology)) == 1


def test_racks() -> None:
    members = [
        candidate(f"b{i}", rack=rack) for i, rack in enumerate(("r1", "r1", "r1", "r2", "r2", "r2"))
    ]
    rack = {c.member.id: c.member.rack for c in members}
    topology = place(members, {"orders": 12}, 5, ONE)
    for active, those in zip(ids(topology), standbys(topology), strict=True):
        assert active is not None
        assert rack[those[0]] != rack[active]
    assert set(Counter(those[0] for those in standbys(topology)).values()) == {2}
    # two standbys: one of them in the active's own rack, for there is no third
    topology = place(members, {"orders": 12}, 5, Policy(standby_replicas=2))
    for active, those in zip(ids(topology), standbys(topology), strict=True):
        assert {rack[i] for i in (active, *those) if i} == {"r1", "r2"}


def test_a_standby_in_the_rack_of_the_active_moves_to_another() -> None:
    members = [
        holding("b1", [0], rack="r1"),
        holding("b2", [1], [0], rack="r1"),
        holding("b3", [], [1], rack="r2"),
    ]
    topology = place(members, {"orders": 2}, 5, ONE)
    assert standbys(topology)[ids(topology).index("b1")] == ["b3"]


def test_a_global_view_has_all_others_as_standbys() -> None:
    members = [holding(f"b{n}", of=GLOBAL) for n in range(4)]
    topology = place(members, {"orders": 6}, 5, Policy(standby_replicas=0))
    assert spread(Counter(filter(None, ids(topology))), [f"b{n}" for n in range(4)]) <= 1
    for active, those in zip(ids(topology), standbys(topology), strict=True):
        assert sorted([*those, active or ""]) == ["b0", "b1", "b2", "b3"]


def test_a_global_view_is_only_where_its_definition_is() -> None:
    members = [holding("b0", of=GLOBAL), holding("b1", of=GLOBAL), holding("b2")]
    topology = place(members, {"orders": 2}, 5, ONE)
    assert {id_ for those in standbys(topology) for id_ in those} == {"b0", "b1"}


def test_one_that_joins_gets_all_and_becomes_active_once_it_has_caught_up() -> None:
    members = [
        holding("b0", [0, 1, 2], [3, 4, 5], of=GLOBAL),
        holding("b1", [3, 4, 5], [0, 1, 2], of=GLOBAL),
        holding("b2", of=GLOBAL),
    ]
    topology = place(members, {"orders": 6}, 5, ONE)
    assert ids(topology) == ["b0"] * 3 + ["b1"] * 3
    assert list(warming(topology).values()) == ["b2", "b2"]
    for partition, those in enumerate(standbys(topology)):
        # one that can answer comes first, and one that warms up is to be no standby
        assert those[0] in ("b0", "b1")
        assert those[1:] == ([] if partition in warming(topology) else ["b2"])
    members[2] = holding("b2", [], range(6), of=GLOBAL)
    topology = place(members, {"orders": 6}, 5, ONE)
    assert Counter(ids(topology)) == {"b0": 2, "b1": 2, "b2": 2}
    assert warming(topology) == {}


def test_the_standbys_of_a_global_view_leave_others_balanced() -> None:
    views = [replace(GLOBAL, name="a", topic="a"), view("b")]
    members = [candidate(f"b{n}", views) for n in range(5)]
    topology = place(members, {"a": 7, "b": 10}, 5, ONE)
    assert {len(those) for those in standbys(topology, "a")} == {4}
    assert set(Counter(i for those in standbys(topology, "b") for i in those).values()) == {2}
