"""Measures the CPU time that the topology of a large deployment takes in the group's leader, which
computes and encodes it, and in a worker of nginx, which reads it. Asks no server.

In a row, p50 is the CPU time. `more` has the bytes of the user data that each member of the group
gets, or of the document that nginx gets.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from backend.cluster.placement import Policy, place
from bench.plan import Plan
from bench.report import Row
from bench.stack import Stack
from bench.subject import Subject
from local.settings import REPOSITORY
from model.group.member_metadata import MemberMetadata
from model.topology import NOBODY, Epoch, Member, Topology
from model.views import View

_SCRIPT = Path(__file__).with_name("topology.lua")
CASES = ((10, 600), (20, 200), (100, 5_000), (200, 2_000), (1_000, 20_000), (2_000, 20_000))
"""Instances and partitions."""

VIEW = View(
    name="orders", topic="orders", path="/orders", key="string", value="json", partitioner="murmur2"
)
_POLICY = Policy(standby_replicas=1)


@dataclass(frozen=True, slots=True)
class Placed:
    """A topology, the leader's CPU time (ms) for it, and the bytes of the topology and of the
    metadata."""

    topology: Topology
    instances: int
    partitions: int
    ms: float
    size: int
    metadata_size: int


def steps(plan: Plan) -> int:
    return plan.rounds * len(CASES)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    rows: list[Row] = []
    for instances, partitions in CASES:
        size = f"{instances}-instances-{partitions}-partitions"
        leader, nginx = (
            Subject[Placed](f"leader-{size}"),
            Subject[dict[str, float]](f"nginx-{size}"),
        )
        members = after_losses(instances, partitions)
        for _ in range(plan.rounds):
            leader.measure(partial(_place, members, partitions))
            nginx.measure(partial(cost_of, leader.last.topology, stack.folder_of(".")))
            yield [*rows, *_rows(leader, nginx)]
        rows += _rows(leader, nginx)


def _place(members: list[MemberMetadata], partitions: int) -> Placed:
    began = time.process_time()
    topology = place(members, {VIEW.topic: partitions}, 10**12, _POLICY)
    encoded = topology.encode()
    ms = (time.process_time() - began) * 1000
    metadata = sum(len(member.encode()) for member in members)
    return Placed(topology, len(members), partitions, ms, len(encoded), metadata)


def _rows(leader: Subject[Placed], nginx: Subject[dict[str, float]]) -> list[Row]:
    placed = leader.last
    return [
        leader.row(
            p50_ms=lambda each: each.ms,
            more={
                "instances": lambda each: each.instances,
                "partitions": lambda each: each.partitions,
                "bytes": lambda each: each.size,
                "metadata_bytes": lambda each: each.metadata_size,
            },
        ),
        nginx.row(
            p50_ms=lambda each: each["parse_ms"] + each["build_ms"],
            cpu_us=itemgetter("lookup_us"),
            rss_mb=itemgetter("mb"),
            more={
                "instances": lambda _: placed.instances,
                "partitions": lambda _: placed.partitions,
                "bytes": itemgetter("bytes"),
            },
        ),
    ]


def after_losses(instances: int, partitions: int, view: View = VIEW) -> list[MemberMetadata]:
    """The members of a group that has lost a tenth of its members, at random. Without losses, the
    placement would be so regular that it needs few bytes."""
    members = [
        MemberMetadata(
            Member(f"instance-{n:04d}", f"10.0.{n // 250}.{n % 250}", 8080),
            MemberMetadata.views_of((view,)),
            {}, {}, Epoch(0, 0), n,
        )
        for n in range(instances + instances // 9)
    ]  # fmt: skip
    dice = random.Random(7)
    left = dice.sample(members, instances)
    topology = place(members, {view.topic: partitions}, 10**12, _POLICY)
    placed = topology.views[view.name]
    index_of = {member.id: n for n, member in enumerate(topology.members)}
    active: dict[int, list[int]] = {}
    standby: dict[int, list[int]] = {}
    for partition, index in enumerate(placed.active):
        if index != NOBODY:
            active.setdefault(index, []).append(partition)
        for other in placed.standbys[partition]:
            standby.setdefault(other, []).append(partition)
    ends = [dice.randrange(10_000_000) for _ in range(partitions)]
    found = []
    for member in left:
        index = index_of[member.member.id]
        own, others = active.get(index, []), standby.get(index, [])
        found.append(
            replace(
                member,
                positions={view.name: {partition: ends[partition] for partition in own + others}},
                active={view.name: tuple(own)},
                standby={view.name: tuple(others)},
                ready={view.name: (*own, *others)},
                epoch=topology.epoch,
            )
        )
    return found


def cost_of(topology: Topology, folder: Path) -> dict[str, Any]:
    """{"parse_ms", "build_ms", "mb", "lookup_us", "bytes"} of a worker of nginx."""
    text = orjson.dumps(topology.processors({}))
    file = folder / "processors.json"
    file.write_bytes(text)
    done = subprocess.run(
        ["luajit", str(_SCRIPT), str(REPOSITORY), str(file)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return {**json.loads(done.stdout), "bytes": len(text)}
