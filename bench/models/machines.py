"""A model of 10, 100 and 1,000 machines, from the rows of one run.

Each machine is like the machine of the run, with as many workers of nginx and one backend per core.
Each backend has as many keys as in the run. Reads are limited by the CPU (`read_cost`). The group's
record on the broker has the metadata of each instance and a reference to the topology; if it
exceeds the broker's `message.max.bytes`, this setting must be raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.models.read_cost import Model, batch_share, fit, nginx_workers, points_of

MACHINES = (10, 100, 1_000)
BATCH = 8  # reads in one request to a backend
_REFERENCE_BYTES = 350  # of an instance in the group's record, in addition to its metadata


@dataclass(frozen=True, slots=True)
class Placement:
    """The cost of a topology with `instances` instances: the leader's CPU (ms) for a rebalance, the
    bytes of all their metadata, and the memory (MB) of a worker of nginx."""

    instances: int
    leader_ms: float
    metadata_bytes: int
    nginx_mb: float


@dataclass(frozen=True, slots=True)
class Size:
    """A deployment. `alone`: reads/s if each read is a request of its own to a backend. `together`:
    reads/s if BATCH reads are in one request, which needs `connections` for each machine.
    `placement`: the placement of as many instances as backends, or a few more; None if the run has
    not measured it."""

    machines: int
    backends: int
    alone: float
    together: float
    connections: float
    placement: Placement | None

    @property
    def record_bytes(self) -> int | None:
        """The size of the group's record, if the topology is sent by reference."""
        if self.placement is None:
            return None
        of_one = self.placement.metadata_bytes / self.placement.instances + _REFERENCE_BYTES
        return round(self.backends * of_one)


def sizes(document: Mapping[str, Any]) -> list[Size]:
    """The model for `MACHINES`, from results.json; ValueError if rows are missing."""
    found, share = fit(points_of(document)), batch_share(document)
    cores, keys = document["machine"]["cores"], document["options"]["records"]
    workers, placements = nginx_workers(document), _placements(document)
    return [
        _size(machines, found, share, cores, workers, keys, placements) for machines in MACHINES
    ]


def _size(
    machines: int,
    found: Model,
    share: float,
    cores: int,
    workers: int,
    keys: float,
    placements: list[Placement],
) -> Size:
    backends = machines * cores
    return Size(
        machines,
        backends,
        alone=backends / found.cpu_us(1, keys) * 1e6,
        together=backends / found.cpu_us(BATCH, keys) * 1e6,
        connections=BATCH * workers * backends / share,
        placement=next((each for each in placements if each.instances >= backends), None),
    )


def _placements(document: Mapping[str, Any]) -> list[Placement]:
    """The placements from the rows `leader-…` and `nginx-…`, sorted by the number of instances."""
    rows = {row["name"]: row for row in document["rows"]}
    found = []
    for name, row in rows.items():
        of_nginx = rows.get(name.replace("leader-", "nginx-", 1))
        if name.startswith("leader-") and of_nginx is not None:
            more = row["more"]
            found.append(
                Placement(
                    more["instances"], row["p50_ms"], more["metadata_bytes"], of_nginx["rss_mb"]
                )
            )
    return sorted(found, key=lambda each: each.instances)


def table(document: Mapping[str, Any]) -> list[list[str]]:
    """The header and the lines; ValueError if rows are missing."""
    header = [
        "machines", "backends", "reads/s", f"reads/s, {BATCH} in a request", "connections for that",
        "rebalance", "nginx", "group's record",
    ]  # fmt: skip
    return [header, *(_line(size) for size in sizes(document))]


def _line(size: Size) -> list[str]:
    placed = size.placement
    return [
        f"{size.machines:,}",
        f"{size.backends:,}",
        f"{size.alone / 1e6:,.2f} million",
        f"{size.together / 1e6:,.2f} million",
        f"{size.connections:,.0f} a machine",
        "" if placed is None else f"{placed.leader_ms:,.0f} ms",
        "" if placed is None else f"{placed.nginx_mb:,.1f} MB",
        "" if size.record_bytes is None else f"{size.record_bytes / 1e6:,.2f} MB",
    ]
