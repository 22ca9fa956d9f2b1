"""Who stands by, who warms up, who takes over: by table, and simulated."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from backend.cluster.placement import Policy, place
from model.topology import NOBODY, Epoch, MemberMetadata, Topology
from model.views import View
from tests.support.in_process.examples import ORDERS, candidate, view

ONE = Policy(standby_replicas=1, acceptable_recovery_lag=100)


GLOBAL = view("orders", store="global")


def ids(topology: Topology, name: str = "orders") -> list[str | None]:
    placed = topology.views[name]
    return [None if i == NOBODY else topology.members[i].id for i in placed.active]


def standbys(topology: Topology, name: str = "orders") -> list[list[str]]:
    return [[topology.members[i].id for i in those] for those in topology.views[name].standbys]


def warming(topology: Topology, name: str = "orders") -> dict[int, str]:
    return {p: topology.members[i].id for p, i in topology.views[name].warming}


def holding(
    id_: str,
    active: Iterable[int] = (),
    standby: Iterable[int] = (),
    behind: int = 0,
    ready: bool = True,
    rack: str = "",
    of: View = ORDERS,
) -> MemberMetadata:
    """A member that holds these, each `behind` offset 1000."""
    both = (*active, *standby)
    return candidate(
        id_,
        [of],
        active={"orders": tuple(active)},
        standby={"orders": tuple(standby)},
        positions={"orders": dict.fromkeys(both, 1000 - behind)},
        ready={"orders": both if ready else ()},
        rack=rack,
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
    # where it warms up there is nobody left to stand by
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


# A simulation


@dataclass
class Instance:
    """What one instance has: positions, and what it can answer for."""

    positions: dict[str, dict[int, int]] = field(default_factory=dict)
    ready: dict[str, set[int]] = field(default_factory=dict)
    rack: str = ""


class Simulation:
    """A group whose members join, crash, fall behind and catch up."""

    def __init__(
        self,
        dice: random.Random,
        counts: dict[str, int],
        policy: Policy,
        global_views: Iterable[str] = (),
    ) -> None:
        """`global_views`: views of kind global."""
        self.dice = dice
        self.global_views = frozenset(global_views)
        self.views = [
            view(name, store="global" if name in self.global_views else "key-value")
            for name in counts
        ]
        self.counts = counts
        self.policy = policy
        self.instances: dict[str, Instance] = {}
        self.topology = Topology()
        self.end = 1_000

    def candidates(self) -> list[MemberMetadata]:
        found = []
        roles = self.roles()
        for id_, instance in self.instances.items():
            found.append(
                candidate(
                    id_,
                    self.views,
                    active=roles.get(id_, {}).get("topicPartitions"),
                    standby=roles.get(id_, {}).get("standbyPartitions"),
                    positions=instance.positions,
                    ready=instance.ready,
                    epoch=self.topology.epoch,
                    rack=instance.rack,
                )
            )
        return found

    def wanted(self, name: str) -> int:
        """How many standbys a partition shall have, once all is warm."""
        most = len(self.instances) - 1
        return most if name in self.global_views else min(self.policy.standby_replicas, most)

    def roles(self) -> dict[str, dict[str, dict[str, list[int]]]]:
        """Instance -> role, as /processors names it -> view -> partitions."""
        return {each["id"]: each for each in self.topology.processors({})["processors"]}

    def rebalance(self) -> Topology:
        """The next map, held against what must be true of any; then its members follow it."""
        before, members = self.topology, self.candidates()
        after = place(members, self.counts, 5, self.policy)
        self.check(before, after, members)
        self.follow(after)
        return after

    def follow(self, after: Topology) -> None:
        """Every instance holds what the map gives it."""
        self.topology = after
        roles = self.roles()
        for id_, instance in self.instances.items():
            for name in self.counts:
                held = {p for role, of in roles[id_].items() if "P" in role for p in of[name]}
                known = instance.positions.get(name, {})
                instance.positions[name] = {p: known.get(p, 0) for p in held}
                instance.ready[name] = instance.ready.get(name, set()) & held

    def check(self, before: Topology, after: Topology, members: list[MemberMetadata]) -> None:
        assert after.epoch > before.epoch
        by_id = {c.member.id: c for c in members}
        lag = self.policy.acceptable_recovery_lag
        for name, count in self.counts.items():
            actives = ids(after, name)
            assert len(actives) == count
            assert set(actives) <= set(by_id)
            had = ids(before, name) if name in before.views else [None] * count
            ready = [set[str]() for _ in range(count)]
            best = [-1] * count
            for c in members:
                for p, position in c.positions.get(name, {}).items():
                    best[p] = max(best[p], position)
            for c in members:
                for p in c.ready.get(name, ()):
                    if best[p] - c.positions[name][p] <= lag:
                        ready[p].add(c.member.id)
            rooms = Counter(actives)
            warm = warming(after, name)
            for p, id_ in enumerate(actives):
                assert id_ is not None
                if ready[p]:
                    assert id_ in ready[p], f"{name}-{p} is unanswerable, and need not be"
                if p in warm:
                    assert warm[p] != id_
                    assert warm[p] not in ready[p]
                    rooms[id_] -= 1
                    rooms[warm[p]] += 1
                those = (*standbys(after, name)[p], id_) if after.views[name].standbys else (id_,)
                assert len(set(those)) == len(those)
                assert warm.get(p) not in those
                assert len(those) - 1 >= min(self.wanted(name), len(members) - 1 - (p in warm))
            of_each = [rooms[id_] for id_ in by_id]
            assert max(of_each) - min(of_each) <= 1, "what shall be, when all is warm, is even"
            if before.members:
                wished = [warm.get(p, a) for p, a in enumerate(actives)]
                has, shall = Counter(had), Counter(wished)
                kept = Counter(i for i, wish in zip(had, wished, strict=True) if i == wish)
                for id_ in by_id:
                    assert kept[id_] == min(has[id_], shall[id_]), "only what must moves"

    def settle(self) -> None:
        """All catch up; joining again, as they do then, ends with everything where it shall be."""
        for _ in range(4):
            for instance in self.instances.values():
                for name, positions in instance.positions.items():
                    instance.positions[name] = dict.fromkeys(positions, self.end)
                    instance.ready[name] = set(positions)
            before = self.topology.views
            self.rebalance()
            if self.topology.views == before:
                break
        else:
            raise AssertionError("it does not come to rest")
        totals, standing = Counter[str](), Counter[str]()
        for name, count in self.counts.items():
            assert not self.topology.views[name].warming
            found = Counter(id_ for id_ in ids(self.topology, name) if id_)
            totals.update(found)
            those = Counter(id_ for each in standbys(self.topology, name) for id_ in each)
            standing.update(those)
            assert sum(those.values()) == self.wanted(name) * count
            if not any(i.rack for i in self.instances.values()):
                assert spread(those, self.instances) <= 1
        assert spread(totals, self.instances) <= 1

    def step(self) -> None:
        dice = self.dice
        kind = dice.random()
        if kind < 0.35 or not self.instances:
            rack = dice.choice(("", "r1", "r2")) if self.dice.random() < 0.2 else ""
            self.instances[f"b{dice.randrange(10**6)}"] = Instance(rack=rack)
        elif kind < 0.55 and len(self.instances) > 1:
            del self.instances[dice.choice(list(self.instances))]
        else:
            self.end += dice.randrange(300)
            for instance in self.instances.values():
                for name, positions in instance.positions.items():
                    for p in list(positions):
                        if dice.random() < 0.5:
                            positions[p] = self.end
                            instance.ready.setdefault(name, set()).add(p)
                        elif dice.random() < 0.1:
                            positions[p] = 0  # rebuilt
                            instance.ready.get(name, set()).discard(p)
        if self.instances:
            self.rebalance()


def spread(found: Counter[str], members: Iterable[str]) -> int:
    of_each = [found[id_] for id_ in members]
    return max(of_each) - min(of_each)


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_histories(block: int) -> None:
    """A hundred each; most are small, for there the corners are."""
    for seed in range(block * 100, block * 100 + 100):
        dice = random.Random(seed)
        counts = {f"v{i}": dice.randrange(0, 9) for i in range(dice.randint(1, 3))}
        policy = Policy(dice.choice((0, 1, 1, 1, 2)), 100)
        global_views = [name for name in counts if seed % 3 == 0 and dice.random() < 0.5]
        simulation = Simulation(dice, counts, policy, global_views)
        for _ in range(dice.randint(2, 12)):
            simulation.step()
        if simulation.instances:
            simulation.settle()


def test_the_largest(capsys: pytest.CaptureFixture[str]) -> None:
    """500 instances, 5,000 partitions: printed are the time of a placement and the map's size."""
    dice = random.Random(1)
    counts = {f"view-{i}": 500 for i in range(10)}
    simulation = Simulation(dice, counts, ONE)
    for i in range(499):
        simulation.instances[f"instance-{i}"] = Instance()
    simulation.follow(place(simulation.candidates(), counts, 5, ONE))
    for instance in simulation.instances.values():
        instance.ready = {name: set(of) for name, of in instance.positions.items()}
    del simulation.instances["instance-7"]
    simulation.instances["instance-499"] = simulation.instances["instance-500"] = Instance()
    members = simulation.candidates()
    began = time.perf_counter()
    topology = place(members, counts, 5, ONE)
    took = time.perf_counter() - began
    simulation.check(simulation.topology, topology, members)
    size = len(topology.encode())
    with capsys.disabled():
        print(f"\n500 instances, 5,000 partitions: placed in {took:.2f} s, the map {size:,} bytes")
    assert topology.epoch > Epoch(0, 0)


@pytest.mark.parametrize("ready", [1.0, 0.5])
def test_a_global_view_keeps_the_topology_small(ready: float) -> None:
    """50 instances with 1,000 partitions each, of which they can answer for a share; one joins."""
    dice = random.Random(1)
    simulation = Simulation(dice, {"v": 1_000}, ONE, ["v"])
    for n in range(50):
        simulation.instances[f"instance-{n}"] = Instance()
    simulation.rebalance()
    for instance in simulation.instances.values():
        # as reported by fifty instances, each at another moment
        positions = {p: simulation.end - dice.randrange(50) for p in range(1_000)}
        instance.positions["v"] = positions
        instance.ready["v"] = {p for p in positions if dice.random() < ready}
    simulation.instances["instance-50"] = Instance()
    topology = simulation.rebalance()
    assert min(len(those) for those in standbys(topology, "v")) >= 49
    topology.encode(copies=51)  # TopologyError if the group's record would be too large
