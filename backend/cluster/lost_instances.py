"""Instances that disappeared in the last hour, so that operators see lost redundancy.

An instance that stops on purpose first sends "draining" to all others. If it leaves the topology or
misses heartbeats without that, it counts as lost until it is back.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from model.topology import Member, Topology

KEEP_FOR = 3600.0  # s
_REORDERED = 1.0  # s in which a heartbeat from before "draining" may still arrive
MAX_INSTANCES = 64  # the oldest are dropped


@dataclass(frozen=True)
class LostInstance:
    """An instance that is lost. `lost_at`: when the loss was detected, ms."""

    member: Member
    lost_at: int

    def document(self) -> dict[str, Any]:
        member = self.member
        return {
            "id": member.id,
            "host": member.host,
            "port": member.port,
            "lost_at": self.lost_at,
        }


class LostInstances:
    """Losses that this instance has detected. Written by the event loop and the member thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: dict[str, LostInstance] = {}
        self._leaving: dict[str, float] = {}  # id -> when it said that it leaves: s, monotonic
        self._current: set[str] | None = None  # ids in the topology; None before the first

    def leaving(self, id_: str) -> None:
        """Record that the instance is stopping on purpose."""
        with self._lock:
            self._leaving[id_] = time.monotonic()
            self._lost.pop(id_, None)

    def dead(self, member: Member) -> None:
        """Record that the instance misses heartbeats. A heartbeat that was in flight when the
        instance left the topology does not count: at that time, it was already known whether the
        instance had announced that it would leave."""
        with self._lock:
            if self._current is None or member.id in self._current:
                self._add(member)

    def _add(self, member: Member) -> None:
        if member.id in self._leaving or member.id in self._lost:
            return
        self._lost[member.id] = LostInstance(member, time.time_ns() // 1_000_000)
        while len(self._lost) > MAX_INSTANCES:
            del self._lost[next(iter(self._lost))]

    def alive(self, id_: str) -> None:
        """Record that the instance is alive."""
        with self._lock:
            self._lost.pop(id_, None)
            if time.monotonic() - self._leaving.get(id_, 0.0) > _REORDERED:
                self._leaving.pop(id_, None)

    def apply_topology(self, before: Topology, topology: Topology, me: str, dead: set[str]) -> None:
        """Compare two topologies. `dead`: ids of instances that miss heartbeats."""
        previous = {member.id for member in before.members}
        current = {member.id for member in topology.members}
        with self._lock:
            self._current = current
            for member in before.members:
                if member.id not in current and member.id != me:
                    self._add(member)
            # a stopping instance stays in the topology for a while
            for id_ in self._leaving.keys() - (current & previous):
                del self._leaving[id_]
            for id_ in current - dead - self._leaving.keys():
                self._lost.pop(id_, None)

    def all(self) -> list[LostInstance]:
        """The losses of the last hour, oldest first."""
        oldest = time.time_ns() // 1_000_000 - KEEP_FOR * 1000
        with self._lock:
            self._lost = {i: lost for i, lost in self._lost.items() if lost.lost_at >= oldest}
            return list(self._lost.values())
