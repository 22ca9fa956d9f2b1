"""GET /metrics/targets: where Prometheus scrapes the instances, for its HTTP service discovery.

nginx answers this path itself (proxy/telemetry/targets.lua), and adds its own metrics. Source:
https://prometheus.io/docs/prometheus/latest/http_sd/
"""

from __future__ import annotations

from typing import Any

from model.topology import Topology


def targets_document(topology: Topology) -> list[dict[str, Any]]:
    """One entry for each instance of the topology."""
    return [
        {
            "targets": [f"{member.host}:{member.port}"],
            "labels": {
                "__scheme__": member.scheme,
                "__metrics_path__": "/metrics",
                "queryable_instance": member.id,
            },
        }
        for member in topology.members
    ]
