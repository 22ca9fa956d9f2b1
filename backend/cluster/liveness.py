"""Liveness of other instances, from heartbeats between instances that share partitions.

Dead instances are tried last, but they are tried: perhaps the network of this instance has failed.
Heartbeats and their answers are signed if there is a cluster secret. So no other program can report
an instance as dead or alive, or answer on the port of a dead one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

STARTING = "starting"
RUNNING = "running"
DRAINING = "draining"
DEAD = "dead"

MISSED_BEFORE_DEAD = 4  # missed heartbeats in a row after which an instance is dead
_SUSPECT_FOR = 1.0  # s after a failed request, or until the next heartbeat


@dataclass
class _Peer:
    state: str = RUNNING
    missed: int = 0


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

    def heard(self, id_: str, state: str) -> None:
        """Record a heartbeat with the instance's state."""
        peer = self._peers.get(id_)
        if peer is not None:
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

    def _set_state(self, peer: _Peer, state: str) -> None:
        if peer.state != state:
            peer.state = state
            self.on_change()


@dataclass(frozen=True)
class Heartbeat:
    """A heartbeat and its answer: consumer group, sender, receiver, and the sender's state."""

    group: str
    sender: str
    receiver: str
    state: str
    at: int  # ms, unique per sender; the answer repeats it

    def encode(self) -> bytes:
        """A JSON list."""
        return orjson.dumps([self.group, self.sender, self.receiver, self.state, self.at])

    @staticmethod
    def decode(body: bytes) -> Heartbeat | None:
        """The inverse of `encode`; None if the body is malformed."""
        try:
            *names, sent_at = orjson.loads(body)
            group, sender, receiver, state = names
        except (ValueError, TypeError):
            return None
        if not all(type(name) is str for name in names) or type(sent_at) is not int:
            return None
        return Heartbeat(group, sender, receiver, state, sent_at)
