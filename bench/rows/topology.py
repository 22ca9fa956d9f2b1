"""Measures the CPU time that the topology of a large deployment takes in the group's leader, which
computes and encodes it, and in a worker of nginx, which reads it. No server is started.

In a row, p50 is this CPU time. In the row of nginx, CPU is the time of a look-up. `bytes` in
results.json is the size of the user data that each member of the group gets, or of the document
that nginx gets.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson

from backend.cluster.placement import Policy, place
from bench.load import Measurement
from bench.plan import Plan
from bench.stack import Stack
from bench.subject import Subject
from local.settings import REPOSITORY
from model.group.member_metadata import MemberMetadata
from model.topology import NO_MEMBER, Epoch, Member
from model.views import View

_SCRIPT = Path(__file__).with_name("topology.lua")
CASES = ((10, 600), (20, 200), (100, 5_000), (200, 2_000), (1_000, 20_000), (2_000, 20_000))
"""Instances and partitions."""

VIEW = View(
    name="orders", topic="orders", path="/orders", key="string", value="json", partitioner="murmur2"
)
_POLICY = Policy(standby_replicas=1)


def topology(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    for instances, partitions in CASES:
        yield subjects(instances, partitions, stack.folder_of("processors.json"))


def subjects(instances: int, partitions: int, file: Path) -> list[Subject]:
    """The leader and a worker of nginx, which reads the leader's last topology from the file."""
    members = after_losses(instances, partitions)
    size = {"instances": instances, "partitions": partitions}
    metadata = sum(len(member.encode()) for member in members)

    def leader(_: int | None) -> Measurement:
        began = time.process_time()
        topology = place(members, {VIEW.topic: partitions}, 10**12, _POLICY)
        encoded = topology.encode()
        ms = (time.process_time() - began) * 1000
        file.write_bytes(orjson.dumps(topology.processors({})))
        values = {"p50_ms": ms, "bytes": len(encoded), "metadata_bytes": metadata}
        return Measurement({**size, **values})

    def nginx(_: int | None) -> Measurement:
        done = subprocess.run(
            ["luajit", str(_SCRIPT), str(REPOSITORY), str(file)],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return Measurement({**size, **json.loads(done.stdout), "bytes": file.stat().st_size})

    name = f"{instances}-instances-{partitions}-partitions"
    return [Subject(f"leader-{name}", leader), Subject(f"nginx-{name}", nginx)]


def after_losses(instances: int, partitions: int, view: View = VIEW) -> list[MemberMetadata]:
    """The members of a group that has lost a tenth of its members, at random. Without losses, the
    placement would be so regular that few bytes describe it."""
    members = [
        MemberMetadata(
            Member(f"instance-{n:04d}", f"10.0.{n // 250}.{n % 250}", 8080),
            MemberMetadata.views_of((view,)),
            {}, {}, Epoch(0, 0), n,
        )
        for n in range(instances + instances // 9)
    ]  # fmt: skip
    dice = random.Random(7)
    remaining = dice.sample(members, instances)
    topology = place(members, {view.topic: partitions}, 10**12, _POLICY)
    placed = topology.views[view.name]
    index_of = {member.id: n for n, member in enumerate(topology.members)}
    active: dict[int, list[int]] = {}
    standby: dict[int, list[int]] = {}
    for partition, index in enumerate(placed.active):
        if index != NO_MEMBER:
            active.setdefault(index, []).append(partition)
        for standby_index in placed.standbys[partition]:
            standby.setdefault(standby_index, []).append(partition)
    ends = [dice.randrange(10_000_000) for _ in range(partitions)]
    survivors = []
    for member in remaining:
        index = index_of[member.member.id]
        owned, copied = active.get(index, []), standby.get(index, [])
        survivors.append(
            replace(
                member,
                positions={view.name: {partition: ends[partition] for partition in owned + copied}},
                active={view.name: tuple(owned)},
                standby={view.name: tuple(copied)},
                ready={view.name: (*owned, *copied)},
                epoch=topology.epoch,
            )
        )
    return survivors
