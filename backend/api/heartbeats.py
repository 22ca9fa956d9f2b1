"""Asking the holders of the same partitions, four times a second, whether they are alive."""

from __future__ import annotations

import asyncio
import time

from backend.api.answer import Answer, problem_answer
from backend.api.forwarding import Forwarder
from backend.api.peers import DRAINING, Heartbeat
from backend.api.serving import Serving
from backend.core.errors import Forbidden, Unavailable
from backend.core.topology import Member, Topology

PATH = b"/internal/heartbeat"


class Heartbeats:
    """Sends them, and answers those of others. Lives in the event loop."""

    def __init__(self, serving: Serving, forwarder: Forwarder) -> None:
        self._serving = serving
        self._forwarder = forwarder
        self._interval = serving.settings.heartbeat_interval
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._topology: Topology | None = None
        self._neighbours: list[Member] = []
        self._task: asyncio.Task[None] | None = None
        self._last_at = 0

    def start(self) -> None:
        """In the event loop."""
        self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def stop(self) -> None:
        tasks = [*self._under_way.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def beat(self) -> None:
        """One to everybody who has answered the last: also to say at once that the state is
        another."""
        topology = self._serving.topology
        if topology is not self._topology:
            self._topology = topology
            self._neighbours = topology.neighbours(self._serving.me.id)
            self._serving.peers.keep(member.id for member in self._neighbours)
        self._send(self._neighbours)

    def beat_all(self) -> None:
        """To every instance of the map: they shall know that this one goes of its own accord."""
        self.beat()
        me = self._serving.me
        self._send([member for member in self._serving.topology.members if member.id != me.id])

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
        serving, began = self._serving, time.monotonic()
        # no two are alike, so that the answer to an earlier one is never taken for this one's
        self._last_at = max(time.time_ns() // 1_000_000, self._last_at + 1)
        sent = Heartbeat(serving.me.id, member.id, serving.state, self._last_at)
        secret = serving.topology.secret
        answered: Heartbeat | None = None
        try:
            answer = await self._forwarder.forward(
                member, "POST", PATH, [], sent.sign(secret), timeout=self._interval
            )
            if answer.status == 200:
                answered = Heartbeat.verify(answer.body, secret)
        except Unavailable:
            pass
        if answered is not None and (answered.sender, answered.at) == (member.id, sent.at):
            self._heard(member.id, answered.state)
        elif time.monotonic() - began < 3 * self._interval:
            # it took longer only if this instance itself stood still: that says nothing of others
            serving.peers.missed(member.id)
            if member.id in serving.dead:
                serving.lost.dead(member)

    def _heard(self, id_: str, state: str) -> None:
        self._serving.peers.heard(id_, state)
        if state == DRAINING:
            self._serving.lost.leaving(id_)
        else:
            self._serving.lost.alive(id_)

    def answer(self, body: bytes) -> Answer:
        """To a heartbeat of another member; 403 to anybody else."""
        serving = self._serving
        secret = serving.topology.secret
        heard = Heartbeat.verify(body, secret)
        if heard is None or heard.receiver != serving.me.id:
            problem = Forbidden("not-a-member", "This is no heartbeat of this instance's group.")
            return problem_answer(problem)
        self._heard(heard.sender, heard.state)
        reply = Heartbeat(serving.me.id, heard.sender, serving.state, heard.at)
        return Answer(200, [(b"content-type", b"application/octet-stream")], reply.sign(secret))
