"""Liveness of other instances, from heartbeats between instances that share partitions.

Dead instances are tried last, but they are tried: perhaps the network of this instance has failed.
Heartbeats and their answers are signed if there is a cluster secret. So no other program can report
an instance as dead or alive, or answer on the port of a dead one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

STARTING = "starting"
RUNNING = "running"
DRAINING = "draining"
DEAD = "dead"

MISSED_BEFORE_DEAD = 4  # missed heartbeats in a row after which an instance is dead
_SUSPECT_FOR = 1.0  # s after a failed request, or until the next heartbeat


@dataclass(frozen=True)
class PartitionReport:
    """Which partitions an instance cannot answer for, of those that a topology gives it as active
    or standby. `epoch`: of this topology, as text. `unanswerable`: view -> partitions."""

    epoch: str
    unanswerable: Mapping[str, tuple[int, ...]]

    def can_answer(self, view: str, partition: int) -> bool:
        """Whether the instance answers for a partition that the topology gives it."""
        return partition not in self.unanswerable.get(view, ())

    @staticmethod
    def from_json(epoch: Any, unanswerable: Any) -> PartitionReport:
        """The report in these JSON values. Raises TypeError or ValueError if they are malformed."""
        partitions = {view: tuple(numbers) for view, numbers in dict(unanswerable).items()}
        if type(epoch) is not str or any(
            type(n) is not int for numbers in partitions.values() for n in numbers
        ):
            raise ValueError("malformed report")
        return PartitionReport(epoch, partitions)


@dataclass
class _Peer:
    state: str = RUNNING
    missed: int = 0
    report: PartitionReport | None = None


class Peers:
    """The states of other instances. The event loop writes them, and Flask's threads read them."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change()` is called when a state changes. Instances not tracked count as running."""
        self._peers: dict[str, _Peer] = {}
        # id -> time of the last failed request; also instances without shared partitions
        self._suspected: dict[str, float] = {}
        self.on_change = on_change

    def keep(self, ids: Iterable[str]) -> None:
        """Set the instances to track, and forget all others."""
        before = self._peers
        self._peers = {id_: before.get(id_, _Peer()) for id_ in ids}
        forgotten = before.keys() - self._peers.keys()
        if any(before[id_].state != RUNNING for id_ in forgotten):
            self.on_change()

    def heard(self, id_: str, state: str, report: PartitionReport | None = None) -> None:
        """Record a heartbeat with the instance's state. `report`: None if it has none."""
        peer = self._peers.get(id_)
        if peer is not None:
            peer.report = report or peer.report
            peer.missed = 0
            self._suspected.pop(id_, None)
            self._set_state(peer, state)

    def missed(self, id_: str) -> None:
        """Record a missed heartbeat."""
        peer = self._peers.get(id_)
        if peer is not None:
            peer.missed += 1
            if peer.missed >= MISSED_BEFORE_DEAD:
                self._set_state(peer, DEAD)

    def failed(self, id_: str) -> None:
        """Record a failed request: for a short time other instances are tried first."""
        now = time.monotonic()
        if id_ not in self._suspected:
            # drop expired entries, also of instances that left the topology
            self._suspected = {k: v for k, v in self._suspected.items() if now - v < _SUSPECT_FOR}
        self._suspected[id_] = now

    def is_suspect(self, id_: str) -> bool:
        """Whether the instance is dead, or a request to it has just failed."""
        peer = self._peers.get(id_)
        if peer is not None and peer.state == DEAD:
            return True
        suspected = self._suspected.get(id_)
        return suspected is not None and time.monotonic() - suspected < _SUSPECT_FOR

    def states(self) -> dict[str, str]:
        """id -> state, for all tracked instances."""
        return {id_: peer.state for id_, peer in list(self._peers.items())}

    def reports(self) -> dict[str, PartitionReport]:
        """id -> the last report, for all tracked instances that have sent one."""
        peers = list(self._peers.items())
        return {id_: peer.report for id_, peer in peers if peer.report is not None}

    def _set_state(self, peer: _Peer, state: str) -> None:
        if peer.state != state:
            peer.state = state
            self.on_change()


_ASKS = b"\n"
"""After a heartbeat: its answer may have a report. JSON ignores it, and so do instances of the
previous release, which accept no further fields in a heartbeat or its answer."""


@dataclass(frozen=True)
class Heartbeat:
    """A heartbeat and its answer: consumer group, sender, receiver, and the sender's state."""

    group: str
    sender: str
    receiver: str
    state: str
    at: int  # ms, unique per sender; the answer repeats it
    asks_for_report: bool = False  # of a heartbeat
    report: PartitionReport | None = None  # of an answer

    def encode(self) -> bytes:
        """A JSON list: these fields, and the epoch and the partitions of the report."""
        fields: list[Any] = [self.group, self.sender, self.receiver, self.state, self.at]
        if self.report is not None:
            fields += [self.report.epoch, self.report.unanswerable]
        return orjson.dumps(fields) + (_ASKS if self.asks_for_report else b"")

    @staticmethod
    def decode(body: bytes) -> Heartbeat | None:
        """The inverse of `encode`; None if the body is malformed."""
        try:
            group, sender, receiver, state, sent_at, *reported = orjson.loads(body)
            report = PartitionReport.from_json(*reported) if reported else None
        except (ValueError, TypeError):
            return None
        names = group, sender, receiver, state
        if not all(type(name) is str for name in names) or type(sent_at) is not int:
            return None
        asks = body.endswith(_ASKS)
        return Heartbeat(group, sender, receiver, state, sent_at, asks, report)
