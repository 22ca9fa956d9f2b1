"""Placement in simulated deployments: instances join, leave, catch up and fall behind."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from backend.cluster.placement import Policy, place
from model.group.member_metadata import MemberMetadata
from model.topology import Epoch, Topology
from tests.support.in_process.examples import candidate, view
from tests.unit.backend.cluster.placed_views import ONE, ids, spread, standbys, warming


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
        """The number of standbys of a partition when no instance warms up."""
        most = len(self.instances) - 1
        return most if name in self.global_views else min(self.policy.standby_replicas, most)

    def roles(self) -> dict[str, dict[str, dict[str, list[int]]]]:
        """Instance -> role, as /processors names it -> view -> partitions."""
        return {each["id"]: each for each in self.topology.processors({})["processors"]}

    def rebalance(self) -> Topology:
        """Places again, checks the topology, and applies it to the instances."""
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


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_histories(block: int) -> None:
    """A hundred per block. Most are small, because edge cases are in small groups."""
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


@pytest.mark.slow
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
@pytest.mark.slow
def test_a_global_view_keeps_the_topology_small(ready: float) -> None:
    """50 instances with 1,000 partitions each, and a part of these answerable; one joins."""
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
    assert 51 * len(topology.encode()) < 800_000, "it fits the group's record"
