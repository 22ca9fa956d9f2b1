"""GET /metrics/targets: where Prometheus scrapes the instances, for its HTTP service discovery.

An instance that is lost stays in the list for an hour: Prometheus forgets a target that is not
listed, and then no alert says that it is down. nginx passes the list on, and adds its own metrics
(proxy/telemetry/targets.lua). Source: https://prometheus.io/docs/prometheus/latest/http_sd/
"""

from __future__ import annotations

from typing import Any

from backend.cluster.group_state import GroupState


def targets_document(group: GroupState) -> list[dict[str, Any]]:
    """One entry for each instance of the topology, and for each lost one."""
    members = {loss.member.id: loss.member for loss in group.lost.all()}
    members |= {member.id: member for member in group.topology.members}
    return [
        {
            "targets": [f"{member.host}:{member.port}"],
            "labels": {
                "__scheme__": member.scheme,
                "__metrics_path__": "/metrics",
                "queryable_instance": member.id,
            },
        }
        for member in members.values()
    ]
