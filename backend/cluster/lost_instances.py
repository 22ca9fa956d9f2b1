"""Instances that vanished, remembered for an hour: a new map does not replace what was lost.

An instance that stops on purpose says "draining" to all others first. If it vanishes from the map
or misses its heartbeats without that, it is lost until it is back.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from model.topology import Member, Topology

KEPT = 3600.0  # s
MOST = 64  # instances; then the oldest are forgotten


@dataclass(frozen=True)
class LostInstance:
    """`lost_at`: when this was noticed, ms."""

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
    """What one instance has noticed. Told by the event loop and the member's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: dict[str, LostInstance] = {}
        self._leaving: set[str] = set()

    def leaving(self, id_: str) -> None:
        """It says that it is about to stop."""
        with self._lock:
            self._leaving.add(id_)
            self._lost.pop(id_, None)

    def dead(self, member: Member) -> None:
        """It misses its heartbeats, or has gone from the map."""
        with self._lock:
            if member.id in self._leaving or member.id in self._lost:
                return
            self._lost[member.id] = LostInstance(member, time.time_ns() // 1_000_000)
            while len(self._lost) > MOST:
                del self._lost[next(iter(self._lost))]

    def alive(self, id_: str) -> None:
        """It is there."""
        with self._lock:
            self._lost.pop(id_, None)
            self._leaving.discard(id_)

    def take_topology(self, before: Topology, topology: Topology, me: str, dead: set[str]) -> None:
        """A new map; `dead`: ids of those that miss their heartbeats."""
        known = {member.id for member in before.members}
        there = {member.id for member in topology.members}
        for member in before.members:
            if member.id not in there and member.id != me:
                self.dead(member)
        with self._lock:
            # one that is about to stop stays in the map for a while
            self._leaving &= there & known
            for id_ in there - dead - self._leaving:
                self._lost.pop(id_, None)

    def all(self) -> list[LostInstance]:
        """Those of the last hour, the oldest first."""
        oldest = time.time_ns() // 1_000_000 - KEPT * 1000
        with self._lock:
            self._lost = {i: each for i, each in self._lost.items() if each.lost_at >= oldest}
            return list(self._lost.values())
