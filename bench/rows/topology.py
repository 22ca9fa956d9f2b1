"""Measures the CPU time that the topology of a large deployment takes in the group's leader, which
computes and encodes it, and in a worker of nginx, which reads it. Asks no server.

A row has the CPU time as its p50. `more` has the bytes: of the user data that each member of the
group gets, and of the document that nginx gets.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from backend.cluster.placement import Policy, place
from bench.plan import Plan
from bench.report import Row
from bench.stack import Stack
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


def steps(plan: Plan) -> int:
    return plan.rounds * len(CASES)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    return [
        row
        for instances, partitions in CASES
        for row in _rows(stack.folder_of("."), plan.rounds, instances, partitions, step)
    ]


def _rows(
    folder: Path, rounds: int, instances: int, partitions: int, step: Callable[[], None]
) -> list[Row]:
    members = after_losses(instances, partitions)
    leader, nginx = [], []
    for _ in range(rounds):
        began = time.process_time()
        topology = place(members, {VIEW.topic: partitions}, 10**12, _POLICY)
        encoded = topology.encode()
        leader.append((time.process_time() - began) * 1000)
        nginx.append(cost_of(topology, folder))
        step()
    size = f"{instances}-instances-{partitions}-partitions"
    more = {"instances": instances, "partitions": partitions}
    metadata = sum(len(member.encode()) for member in members)
    of_nginx = {name: median(each[name] for each in nginx) for name in nginx[0]}
    return [
        Row(
            f"leader-{size}",
            p50_ms=median(leader),
            more={**more, "bytes": len(encoded), "metadata_bytes": metadata},
        ),
        Row(
            f"nginx-{size}",
            p50_ms=of_nginx["parse_ms"] + of_nginx["build_ms"],
            cpu_us=of_nginx["lookup_us"],
            rss_mb=of_nginx["mb"],
            more={**more, "bytes": of_nginx["bytes"]},
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
