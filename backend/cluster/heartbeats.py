"""Heartbeats between instances that share partitions, four times a second by default."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from backend.cluster.liveness import DRAINING, Heartbeat, Peers
from backend.cluster.lost_instances import LostInstances
from backend.cluster.peer_client import PeerClient
from backend.wire.answer import Answer, problem_answer
from model.problems import Forbidden, Unavailable
from model.topology import Member, Topology

PATH = b"/internal/heartbeat"


class Instance(Protocol):
    """The part of an instance that heartbeats need."""

    peers: Peers
    lost: LostInstances

    @property
    def me(self) -> Member: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def state(self) -> str: ...
    @property
    def dead(self) -> set[str]: ...


class Heartbeats:
    """Sends heartbeats and answers those of other instances. Runs in the event loop."""

    def __init__(self, instance: Instance, peer_client: PeerClient, interval: float) -> None:
        """`interval`: s between two heartbeats."""
        self._instance = instance
        self._peer_client = peer_client
        self._interval = interval
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._topology: Topology | None = None
        self._neighbours: list[Member] = []
        self._task: asyncio.Task[None] | None = None
        self._last_at = 0

    def start(self) -> None:
        """Call this in the event loop."""
        self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def stop(self) -> None:
        tasks = [*self._under_way.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def beat(self) -> None:
        """Send a heartbeat to all neighbours without one in flight; also called when this
        instance's state changes."""
        topology = self._instance.topology
        if topology is not self._topology:
            self._topology = topology
            self._neighbours = topology.neighbours(self._instance.me.id)
            self._instance.peers.keep(member.id for member in self._neighbours)
        self._send(self._neighbours)

    def beat_all(self) -> None:
        """Send a heartbeat to every instance in the topology, so that all know that this one is
        stopping on purpose."""
        self.beat()
        me = self._instance.me
        self._send([member for member in self._instance.topology.members if member.id != me.id])

    def _send(self, members: list[Member]) -> None:
        for member in members:
            if member.id not in self._under_way:
                task = asyncio.create_task(self._ask(member), name=f"heartbeat-{member.id}")
                self._under_way[member.id] = task
                task.add_done_callback(lambda _, id_=member.id: self._under_way.pop(id_, None))  # type: ignore[misc]

    async def _run(self) -> None:
        while True:
            self.beat()
            await asyncio.sleep(self._interval)

    async def _ask(self, member: Member) -> None:
        instance, began = self._instance, time.monotonic()
        # unique, so that a late answer to an earlier heartbeat is not taken for this one's
        self._last_at = max(time.time_ns() // 1_000_000, self._last_at + 1)
        sent = Heartbeat(instance.me.id, member.id, instance.state, self._last_at)
        secret = instance.topology.secret
        answered: Heartbeat | None = None
        try:
            answer = await self._peer_client.forward(
                member, "POST", PATH, [], sent.sign(secret), timeout=self._interval
            )
            if answer.status == 200:
                answered = Heartbeat.verify(answer.body, secret)
        except Unavailable:
            pass
        if answered is not None and (answered.sender, answered.at) == (member.id, sent.at):
            self._heard(member.id, answered.state)
        elif time.monotonic() - began < 3 * self._interval:
            # if it took longer, this instance was stalled, which says nothing about the others
            instance.peers.missed(member.id)
            if member.id in instance.dead:
                instance.lost.dead(member)

    def _heard(self, id_: str, state: str) -> None:
        self._instance.peers.heard(id_, state)
        if state == DRAINING:
            self._instance.lost.leaving(id_)
        else:
            self._instance.lost.alive(id_)

    def answer(self, body: bytes) -> Answer:
        """The answer to a heartbeat of another member; 403 for any other sender."""
        instance = self._instance
        secret = instance.topology.secret
        heard = Heartbeat.verify(body, secret)
        if heard is None or heard.receiver != instance.me.id:
            problem = Forbidden(
                "not-a-member",
                "The heartbeat is not signed by a member of this instance's group.",
            )
            return problem_answer(problem)
        self._heard(heard.sender, heard.state)
        reply = Heartbeat(instance.me.id, heard.sender, instance.state, heard.at)
        return Answer(200, [(b"content-type", b"application/octet-stream")], reply.sign(secret))
