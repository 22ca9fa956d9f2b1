"""Which other instances are alive: heartbeats between those that hold the same partitions.

An instance that is dead for this one is asked last, not never: it may be this one that is cut off.
Heartbeats are signed (HMAC-SHA256) with the secret of the map, which only members of the group
have, so nobody else can call an instance dead or alive, and a program that took a dead one's port
is not taken for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from backend.wire.signing import sign, verified

STARTING = "starting"
RUNNING = "running"
DRAINING = "draining"
DEAD = "dead"

MISSED_BY_THE_DEAD = 4  # heartbeats in a row
_SUSPECT_FOR = 1.0  # s after a request failed, or until it is heard again


@dataclass
class _Peer:
    state: str = RUNNING
    missed: int = 0


class Peers:
    """What this instance thinks of others. Used by the event loop; Flask reads it."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change()` is called when the state of one is another."""
        self._peers: dict[str, _Peer] = {}
        self._suspected: dict[
            str, float
        ] = {}  # id -> since when; also those it shares nothing with
        self.on_change = on_change

    def keep(self, ids: Iterable[str]) -> None:
        """These are the ones to look after; of others nothing is known any more."""
        self._peers = {id_: self._peers.get(id_, _Peer()) for id_ in ids}

    def heard(self, id_: str, state: str) -> None:
        """It is alive, and says what it does."""
        peer = self._peers.get(id_)
        if peer is not None:
            peer.missed = 0
            self._suspected.pop(id_, None)
            self._turn(peer, state)

    def missed(self, id_: str) -> None:
        """It has not answered a heartbeat."""
        peer = self._peers.get(id_)
        if peer is not None:
            peer.missed += 1
            if peer.missed >= MISSED_BY_THE_DEAD:
                self._turn(peer, DEAD)

    def failed(self, id_: str) -> None:
        """It has not answered a request: others are asked first for a while."""
        now = time.monotonic()
        if id_ not in self._suspected:
            # of those that are gone from the map, nothing is kept
            self._suspected = {k: v for k, v in self._suspected.items() if now - v < _SUSPECT_FOR}
        self._suspected[id_] = now

    def seems_dead(self, id_: str) -> bool:
        peer = self._peers.get(id_)
        if peer is not None and peer.state == DEAD:
            return True
        suspected = self._suspected.get(id_)
        return suspected is not None and time.monotonic() - suspected < _SUSPECT_FOR

    def states(self) -> dict[str, str]:
        """id -> state, of those that are known."""
        return {id_: peer.state for id_, peer in list(self._peers.items())}

    def _turn(self, peer: _Peer, state: str) -> None:
        if peer.state != state:
            peer.state = state
            self.on_change()


@dataclass(frozen=True)
class Heartbeat:
    """What one instance says to another, and gets back from it: who it is, and what it does."""

    sender: str
    receiver: str
    state: str
    at: int  # ms, of the one that asks, and different each time: the answer repeats it

    def sign(self, secret: str) -> bytes:
        """As it is sent: a signed JSON list."""
        return sign(orjson.dumps([self.sender, self.receiver, self.state, self.at]), secret)

    @staticmethod
    def verify(sent: bytes, secret: str) -> Heartbeat | None:
        """None if it is not of a member of this group."""
        text = verified(sent, secret)
        if text is None:
            return None
        try:
            sender, receiver, state, at = orjson.loads(text)
        except (ValueError, TypeError):
            return None
        if not all(type(name) is str for name in (sender, receiver, state)) or type(at) is not int:
            return None
        return Heartbeat(sender, receiver, state, at)
