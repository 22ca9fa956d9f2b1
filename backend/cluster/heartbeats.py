"""Heartbeats between instances that share partitions.

While an instance answers, it gets a heartbeat in every second interval. After one that it misses,
it gets one in each interval, until it answers again.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from backend.cluster.liveness import DRAINING, Heartbeat, Peers
from backend.cluster.lost_instances import LostInstances
from backend.wire.answer import JSON, Answer, problem_answer
from model.problems import Forbidden, Unavailable
from model.topology import Member, Topology

PATH = b"/internal/heartbeat"
_LEAVING_TIMEOUT = 2.0  # s; nobody asks an instance again that has left
_TIMEOUT = 0.9
"""For an answer, in intervals. It ends before the next interval, in which the instance is asked
again."""


class Instance(Protocol):
    """The part of an instance that heartbeats need."""

    peers: Peers
    lost: LostInstances

    @property
    def group(self) -> str: ...
    @property
    def me(self) -> Member: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def state(self) -> str: ...
    @property
    def dead(self) -> set[str]: ...


class Posts(Protocol):
    """PeerPosts, which sends heartbeats."""

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Answer: ...
    async def close(self) -> None: ...


class Heartbeats:
    """Sends heartbeats and answers those of other instances. Runs in the event loop."""

    def __init__(self, instance: Instance, posts: Posts, interval: float) -> None:
        """`posts` is closed by `stop`. `interval`: s between the heartbeats that an instance
        misses."""
        self._instance = instance
        self._posts = posts
        self._interval = interval
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._topology: Topology | None = None
        self._neighbours: list[Member] = []
        self._task: asyncio.Task[None] | None = None
        self._repeat_at = 0.0  # when the second interval begins, by the loop's clock
        self._repeat: asyncio.TimerHandle | None = None
        self._last_at = 0

    def start(self) -> None:
        """In the event loop."""
        self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def stop(self) -> None:
        tasks = [*self._in_flight.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        if self._repeat is not None:
            self._repeat.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._posts.close()

    def beat(self) -> None:
        """Send a heartbeat to all neighbours without one in flight; also called when this
        instance's state changes."""
        self._send(self._current_neighbours())

    def beat_again(self) -> None:
        """Send a heartbeat to the neighbours that have missed the last one."""
        peers = self._instance.peers
        self._send([each for each in self._current_neighbours() if peers.has_missed(each.id)])

    def _current_neighbours(self) -> list[Member]:
        topology = self._instance.topology
        if topology is not self._topology:
            self._topology = topology
            self._neighbours = topology.neighbours(self._instance.me.id)
            self._instance.peers.keep(member.id for member in self._neighbours)
        return self._neighbours

    def beat_all(self) -> None:
        """Send a heartbeat to every instance in the topology, so that all know that this one is
        stopping on purpose."""
        self.beat()
        me = self._instance.me
        self._send([member for member in self._instance.topology.members if member.id != me.id])

    def _send(self, members: list[Member]) -> None:
        for member in members:
            if member.id not in self._in_flight:
                task = asyncio.create_task(self._send_one(member), name=f"heartbeat-{member.id}")
                self._in_flight[member.id] = task
                task.add_done_callback(lambda _, id_=member.id: self._in_flight.pop(id_, None))  # type: ignore[misc]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._repeat_at = loop.time() + self._interval
            self.beat()
            await asyncio.sleep(2 * self._interval)

    def _repeat_soon(self) -> None:
        """Call `beat_again` when the second interval begins. At the end of that one, all neighbours
        get a heartbeat anyway."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._repeat_at:
            if self._repeat is not None:
                self._repeat.cancel()
            self._repeat = loop.call_at(self._repeat_at, self.beat_again)

    async def _send_one(self, member: Member) -> None:
        instance, started = self._instance, time.monotonic()
        # unique, so that a late answer to an earlier heartbeat does not match
        self._last_at = max(time.time_ns() // 1_000_000, self._last_at + 1)
        sent = Heartbeat(instance.group, instance.me.id, member.id, instance.state, self._last_at)
        reply: Heartbeat | None = None
        try:
            is_leaving = sent.state == DRAINING
            timeout = _LEAVING_TIMEOUT if is_leaving else _TIMEOUT * self._interval
            answer = await self._posts.post(member, PATH, sent.encode(), timeout)
            if answer.status == 200:
                reply = Heartbeat.decode(answer.body)
        except Unavailable:
            pass
        expected = (sent.group, member.id, sent.at)
        if reply is not None and (reply.group, reply.sender, reply.at) == expected:
            self._record(member.id, reply.state)
        elif time.monotonic() - started < 3 * self._interval:
            # after a longer time this instance itself was stalled, and the other may be alive
            instance.peers.missed(member.id)
            self._repeat_soon()
            if member.id in instance.dead:
                instance.lost.dead(member)

    def _record(self, id_: str, state: str) -> None:
        self._instance.peers.heard(id_, state)
        if state == DRAINING:
            self._instance.lost.leaving(id_)
        else:
            self._instance.lost.alive(id_)

    def answer(self, body: bytes) -> Answer:
        """The answer to a heartbeat of another member; 403 if it is for another group or
        instance."""
        instance = self._instance
        received = Heartbeat.decode(body)
        if received is None or (received.group, received.receiver) != (
            instance.group,
            instance.me.id,
        ):
            problem = Forbidden(
                "not-a-member", "The heartbeat is not for this instance of this group."
            )
            return problem_answer(problem)
        self._record(received.sender, received.state)
        reply = Heartbeat(
            instance.group, instance.me.id, received.sender, instance.state, received.at
        )
        return Answer(200, [JSON], reply.encode())
