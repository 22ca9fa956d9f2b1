"""Heartbeats between instances that share partitions.

Two such instances take turns in sending heartbeats, one in every second interval. If the other
instance does not send when it is scheduled, this instance sends a little later. An instance that
does not answer a heartbeat gets one in each interval, until it answers again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from backend.cluster.group_state import GroupState
from backend.cluster.liveness import DRAINING, Heartbeat, PartitionReport
from backend.wire.answer import JSON, Answer, problem_answer
from model.problems import Forbidden, Unavailable
from model.topology import Member, Topology

log = logging.getLogger(__name__)

PATH = b"/internal/heartbeat"
_LEAVING_TIMEOUT = 2.0  # s; longer, because the last heartbeat of an instance is not repeated
_TIMEOUT = 0.9
"""How long to wait for an answer, in intervals. The wait ends before the next interval, in which
the instance is asked again."""
_GRACE = 0.2
"""How late the other instance may send the heartbeat that it is scheduled to send, in intervals.
The network and a busy event loop take some time."""


class Posts(Protocol):
    """PeerPosts, which sends heartbeats."""

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Answer: ...
    async def close(self) -> None: ...


@dataclass
class _Neighbour:
    """An instance that shares partitions with this one. `sent_at`, `received_at`: when the last
    heartbeat was sent to it, and received from it (s, the loop's clock). `turn`: the timer that
    sends the next heartbeat; None while one is in flight."""

    member: Member
    sent_at: float = -math.inf
    received_at: float = -math.inf
    turn: asyncio.TimerHandle | None = None

    def schedule(self, at: float, send: Callable[[_Neighbour], None]) -> None:
        self.cancel()
        self.turn = asyncio.get_running_loop().call_at(at, send, self)

    def cancel(self) -> None:
        if self.turn is not None:
            self.turn.cancel()
            self.turn = None


class Heartbeats:
    """Sends heartbeats and answers those of other instances. Runs in the event loop."""

    def __init__(
        self,
        group: GroupState,
        posts: Posts,
        interval: float,
        report: Callable[[], PartitionReport] | None = None,
    ) -> None:
        """`posts` is closed by `stop`. `interval`: s between two heartbeats to an instance that
        does not answer. `report()`: what this instance tells others of its partitions; None:
        nothing."""
        self._group = group
        self._posts = posts
        self._interval = interval
        self._report = report
        self._in_flight: dict[str, asyncio.Task[None]] = {}  # by id of the receiver
        self._topology: Topology | None = None
        self._neighbours: dict[str, _Neighbour] = {}  # by id
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_at = 0

    def start(self) -> None:
        """Start to send heartbeats. Call this in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._group.on_topology.append(self._update_soon)
        self._update()

    async def stop(self) -> None:
        if self._loop is not None:
            self._group.on_topology.remove(self._update_soon)
            self._loop = None
        for neighbour in self._neighbours.values():
            neighbour.cancel()
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._posts.close()

    def beat(self) -> None:
        """Send a heartbeat to all neighbours without one in flight."""
        self._update()
        self._send(self._neighbours.values())

    def beat_all(self) -> None:
        """Send a heartbeat to every instance in the topology, so that all know that this one is
        stopping on purpose."""
        self.beat()
        me = self._group.me
        self._send(
            _Neighbour(member) for member in self._group.topology.members if member.id != me.id
        )

    def _update_soon(self) -> None:
        """Schedule `_update`. Any thread may call this."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._update)

    def _update(self) -> None:
        """Take the neighbours from the topology. New ones get a heartbeat immediately."""
        topology = self._group.topology
        if topology is self._topology:
            return
        self._topology = topology
        before = self._neighbours
        self._neighbours = {}
        for member in topology.neighbours(self._group.me.id):
            neighbour = before.get(member.id)
            if neighbour is None or neighbour.member != member:
                neighbour = _Neighbour(member)
            self._neighbours[member.id] = neighbour
        for id_, neighbour in before.items():
            if self._neighbours.get(id_) is not neighbour:
                neighbour.cancel()
        self._group.peers.keep(self._neighbours)
        if self._loop is not None:
            self._send(n for n in self._neighbours.values() if n.turn is None)

    def _send(self, neighbours: Iterable[_Neighbour]) -> None:
        for neighbour in neighbours:
            id_ = neighbour.member.id
            if id_ not in self._in_flight:
                neighbour.cancel()
                task = asyncio.create_task(self._run(neighbour), name=f"heartbeat-{id_}")
                self._in_flight[id_] = task

    def _take_turn(self, neighbour: _Neighbour) -> None:
        neighbour.turn = None
        self._send([neighbour])

    async def _run(self, neighbour: _Neighbour) -> None:
        """Send one heartbeat, then schedule the next one."""
        id_ = neighbour.member.id
        is_answered = False
        try:
            is_answered = await self._send_one(neighbour)
        except Exception:  # heartbeats must go on
            log.exception("heartbeat to instance %s", id_)
        finally:
            del self._in_flight[id_]
        current = self._neighbours.get(id_)
        if self._loop is None or current is None:
            return
        if current is not neighbour:  # another address now: its heartbeat has waited
            self._send([current])
        elif is_answered:
            self._exchanged(neighbour)
        else:
            neighbour.schedule(neighbour.sent_at + self._interval, self._take_turn)

    def _exchanged(self, neighbour: _Neighbour) -> None:
        """Schedule the next heartbeat, after one that was answered. The instance that did not send
        the last heartbeat sends the next one. If both have sent one, the instance with the lesser
        id sends the next one."""
        sent, received = neighbour.sent_at, neighbour.received_at
        grace = _GRACE * self._interval
        if abs(sent - received) < grace:
            is_mine = self._group.me.id < neighbour.member.id
        else:
            is_mine = sent < received
        at = max(sent, received) + 2 * self._interval
        neighbour.schedule(at if is_mine else at + grace, self._take_turn)

    async def _send_one(self, neighbour: _Neighbour) -> bool:
        """Send a heartbeat; return whether it was answered. The result does not count if the
        instance has another address by then."""
        group, member, started = self._group, neighbour.member, time.monotonic()
        neighbour.sent_at = asyncio.get_running_loop().time()
        # unique, so that a late answer to an earlier heartbeat does not match
        self._last_at = max(time.time_ns() // 1_000_000, self._last_at + 1)
        sent = Heartbeat(
            group.group_id,
            group.me.id,
            member.id,
            group.state,
            self._last_at,
            asks_for_report=True,
        )
        reply: Heartbeat | None = None
        try:
            is_leaving = sent.state == DRAINING
            timeout = _LEAVING_TIMEOUT if is_leaving else _TIMEOUT * self._interval
            answer = await self._posts.post(member, PATH, sent.encode(), timeout)
            if answer.status == 200:
                reply = Heartbeat.decode(answer.body)
        except Unavailable:
            pass
        if self._neighbours.get(member.id, neighbour) is not neighbour:
            return False
        expected = (sent.group, member.id, sent.at)
        if reply is not None and (reply.group, reply.sender, reply.at) == expected:
            self._record(member.id, reply)
            return True
        if time.monotonic() - started < 3 * self._interval:
            # after a longer time this instance itself was stalled, and the other may be alive
            group.peers.missed(member.id)
            if member.id in group.dead:
                group.lost.dead(member)
        return False

    def _record(self, id_: str, heartbeat: Heartbeat) -> None:
        self._group.peers.heard(id_, heartbeat.state, heartbeat.report)
        if heartbeat.state == DRAINING:
            self._group.lost.leaving(id_)
        else:
            self._group.lost.alive(id_)

    def _received(self, id_: str) -> None:
        neighbour = self._neighbours.get(id_)
        if neighbour is None or self._loop is None:
            return
        neighbour.received_at = self._loop.time()
        if id_ not in self._in_flight:  # else `_run` schedules the next heartbeat
            self._exchanged(neighbour)

    def answer(self, body: bytes) -> Answer:
        """The answer to a heartbeat of another member; 403 if it is for another group or
        instance."""
        group = self._group
        received = Heartbeat.decode(body)
        if received is None or (received.group, received.receiver) != (
            group.group_id,
            group.me.id,
        ):
            problem = Forbidden(
                "not-a-member", "The heartbeat is not for this instance of this group."
            )
            return problem_answer(problem)
        self._record(received.sender, received)
        self._received(received.sender)
        reply = Heartbeat(
            group.group_id,
            group.me.id,
            received.sender,
            group.state,
            received.at,
            report=self._report() if self._report and received.asks_for_report else None,
        )
        return Answer(200, [JSON], reply.encode())
