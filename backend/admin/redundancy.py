"""Which partitions have enough replicas that can answer, as far as this instance knows without a
request.

It knows its own store partitions. Other instances with the same partitions report theirs in the
answers to heartbeats. The documents of the admin page and the metrics know more: they ask all
instances.
"""

from __future__ import annotations

import time
from typing import Any

from backend.cluster.liveness import PartitionReport
from backend.instance.context import InstanceContext
from model.topology import ACTIVE, STANDBY, Topology

_FRESH_FOR = 0.2  # s: less than between two heartbeats to one instance


class OwnReport:
    """What this instance reports of its partitions. Used in one thread."""

    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._topology: Topology | None = None
        self._held: dict[str, tuple[int, ...]] = {}
        self._made_at = 0.0
        self._report = PartitionReport("", {})

    def __call__(self) -> PartitionReport:
        """The report, which is up to 0.2 s old if the topology is still the same."""
        now, topology = time.monotonic(), self._context.group.topology
        if topology is not self._topology:
            self._held = _held(self._context, topology)
            self._topology = topology
        elif now - self._made_at < _FRESH_FOR:
            return self._report
        self._made_at = now
        self._report = _report(self._context, topology, self._held)
        return self._report


def _held(context: InstanceContext, topology: Topology) -> dict[str, tuple[int, ...]]:
    """View -> the partitions for which the topology has this instance as active or standby."""
    held = {}
    for view in topology.views:
        roles = topology.roles_of(context.group.me.id, view)
        held[view] = (*roles[ACTIVE], *roles[STANDBY])
    return held


def _report(
    context: InstanceContext, topology: Topology, held: dict[str, tuple[int, ...]]
) -> PartitionReport:
    unanswerable = {}
    for view, partitions in held.items():
        opened = context.store_partitions.for_view(view) if view in context.views else {}
        cannot = tuple(
            partition
            for partition in partitions
            if (open_partition := opened.get(partition)) is None
            or not open_partition.progress.answerable
        )
        if cannot:
            unanswerable[view] = cannot
    return PartitionReport(str(topology.epoch), unanswerable)


def redundancy(context: InstanceContext) -> dict[str, Any]:
    """The redundancy of the whole deployment, for /health/ready.

    `wanted` is what QUERYABLE_STANDBY_REPLICAS says; a kind of store may want more. `below`: the
    partitions that fewer instances can answer for. `unknown`: the partitions for which this is not
    known, because an instance does not exchange heartbeats with this one, or reports for another
    topology. Readiness does not depend on it: an instance stays in service when others are lost.
    """
    group, topology = context.group, context.group.topology
    epoch, dead, me = str(topology.epoch), group.dead, group.me.id
    reports = group.peers.reports()
    reports[me] = _report(context, topology, _held(context, topology))
    below = unknown = 0
    for name, placed in topology.views.items():
        target = group.replica_target(name)
        for partition in range(placed.partitions):
            able = perhaps = 0
            for member in topology.holders_of(name, partition):
                report = reports.get(member.id)
                if member.id in dead:
                    continue
                if report is None or report.epoch != epoch:
                    perhaps += 1
                elif report.can_answer(name, partition):
                    able += 1
            below += able + perhaps < target
            unknown += able < target <= able + perhaps
    return {
        "wanted": 1 + context.settings.standby_replicas,
        "below": below,
        "unknown": unknown,
        "lost": [instance.member.id for instance in group.lost.all()],
    }
