"""Who holds which partition, as `GET /processors` says: for clients that ask owners directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.partitioner import PARTITIONERS, partition_of


def epoch_of(text: str) -> tuple[int, int]:
    """Epochs are ordered; (0, 0) of what is none."""
    ms, _, generation = text.partition("-")
    if not (ms.isdecimal() and generation.isdecimal()):
        return (0, 0)
    return int(ms), int(generation)


@dataclass(frozen=True, slots=True)
class _Placed:
    partitions: int
    partitioner: str
    holders: Mapping[int, tuple[str, ...]]
    """Base URLs by partition: the active, then the standbys."""


@dataclass(frozen=True, slots=True)
class Topology:
    """One map."""

    epoch: tuple[int, int]
    views: Mapping[str, _Placed]
    instances: tuple[str, ...]
    """Base URLs of all that are not dead."""

    document: Mapping[str, Any]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Topology:
        """KeyError, TypeError or ValueError where it is no such document."""
        bases = {each["id"]: f"http://{_host(each['host'])}:{each['port']}"
                 for each in said["processors"]}  # fmt: skip
        views = {}
        for name, view in said["views"].items():
            holders: dict[int, list[str]] = {p: [] for p in range(view["partitions"])}
            for kind in ("topicPartitions", "standbyPartitions"):
                for each in said["processors"]:
                    if each["state"] == "dead":
                        continue
                    for partition in each[kind].get(name, ()):
                        holders[partition].append(bases[each["id"]])
            views[name] = _Placed(
                view["partitions"],
                view["partitioner"],
                {partition: tuple(found) for partition, found in holders.items()},
            )
        alive = tuple(bases[each["id"]] for each in said["processors"] if each["state"] != "dead")
        return cls(epoch_of(said["epoch"]), views, alive, said)

    def holders(self, view: str, key: bytes | None) -> tuple[str, ...]:
        """Base URLs of who holds the key, in the order in which to ask; none if that is not
        known."""
        placed = self.views.get(view)
        if placed is None or key is None or placed.partitioner not in PARTITIONERS:
            return ()
        if not placed.partitions:
            return ()
        return placed.holders[partition_of(placed.partitioner)(key, placed.partitions)]


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
