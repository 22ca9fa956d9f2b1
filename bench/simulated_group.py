"""Members of a consumer group without an instance behind them. They speak the group's protocol with
a real broker, and fetch the topologies that the leader, a real instance, sends by reference.

Each member has its own connection: the broker answers a join when all members have joined, and
reads no other request of that connection meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import resource
import struct
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.topology_fetcher import MAX_SPREAD, PATH, SPREAD
from local.errors import LocalError
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import TopologyReference, decode_assignment

SESSION_TIMEOUT_S = 30.0
_REBALANCE_TIMEOUT_S = 90.0
_HEARTBEATS_S = (2.0, 4.0)  # between two heartbeats of a member, at random
_MAX_ANSWER_BYTES = 64 << 20
_REBALANCE_IN_PROGRESS = 27


class SimulatedMember:
    """One member: joins, sends heartbeats, joins again in each rebalance."""

    def __init__(self, metadata: MemberMetadata, topic: str, group: SimulatedGroup) -> None:
        self.leaves = False
        self.generation = -1  # of the topology that it has
        self.has_since = 0.0  # s, monotonic
        subscription = ConsumerProtocolSubscription(
            0, topics=[topic], user_data=metadata.encode()
        ).encode()
        self._protocols = [(TopologyAssignor.name, subscription)]
        self._group = group
        self._id = ""
        self._requests = 0
        self._fetch: asyncio.Task[None] | None = None

    async def run(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._group.port)
        try:
            while not self.leaves:
                await self._stay(await self._join())
            request = LeaveGroupRequest(group_id=self._group.id, member_id=self._id)
            await self._ask(request, 0, LeaveGroupResponse)
        finally:
            self._writer.close()

    async def _join(self) -> int:
        """Joins, and gets the topology; returns the generation."""
        joining = JoinGroupRequest(
            group_id=self._group.id,
            session_timeout_ms=int(SESSION_TIMEOUT_S * 1000),
            rebalance_timeout_ms=int(_REBALANCE_TIMEOUT_S * 1000),
            member_id=self._id,
            protocol_type="consumer",
            protocols=self._protocols,
        )
        joined = await self._ask(joining, 2, JoinGroupResponse)
        if joined.error_code or joined.leader == joined.member_id:
            raise LocalError(f"a simulated member leads, or its join failed: {joined.error_code}")
        self._id, generation = joined.member_id, int(joined.generation_id)
        member = {"group_id": self._group.id, "generation_id": generation, "member_id": self._id}
        synced = await self._ask(SyncGroupRequest(**member, assignments=[]), 0, SyncGroupResponse)
        if synced.error_code == _REBALANCE_IN_PROGRESS:
            return generation
        if synced.error_code:
            raise LocalError(f"a simulated member got no assignment: {synced.error_code}")
        user_data = ConsumerProtocolAssignment.decode(synced.assignment).user_data
        if self._fetch is not None:
            self._fetch.cancel()
        assigned = decode_assignment(user_data, generation)
        if isinstance(assigned, TopologyReference):
            self._fetch = asyncio.create_task(self._get(assigned, generation))
        else:
            self._has(generation, len(user_data))
        return generation

    async def _stay(self, generation: int) -> None:
        """Sends heartbeats until the group rebalances, or the member leaves."""
        member = {"group_id": self._group.id, "generation_id": generation, "member_id": self._id}
        while not self.leaves:
            await asyncio.sleep(random.uniform(*_HEARTBEATS_S))
            answer = await self._ask(HeartbeatRequest(**member), 0, HeartbeatResponse)
            if answer.error_code:
                return

    async def _get(self, reference: TopologyReference, generation: int) -> None:
        """Fetches the topology from the leader. Raises LocalError if the leader does not send
        it."""
        await asyncio.sleep(random.uniform(0, min(MAX_SPREAD, SPREAD * reference.instances)))
        began = time.monotonic()
        url, digest = reference.leader.origin + PATH, reference.digest.encode()
        async with self._group.http.post(url, data=digest) as response:
            encoded = await response.read()
        if not reference.refers_to(encoded):
            self._group.failed += 1
            return
        self._group.fetch_seconds.append(time.monotonic() - began)
        self._has(generation, len(encoded))

    def _has(self, generation: int, size: int) -> None:
        self.generation, self.has_since = generation, time.monotonic()
        self._group.topology_bytes = size

    async def _ask(self, request: Any, version: int, response: Any) -> Any:
        self._requests += 1
        request.with_header(correlation_id=self._requests, client_id="simulated-member")
        self._writer.write(request.encode(version=version, header=True, framed=True))
        await self._writer.drain()
        [size] = struct.unpack(">i", await self._reader.readexactly(4))
        if size > _MAX_ANSWER_BYTES:
            raise LocalError(f"the broker sends an answer of {size} bytes")
        return response.decode((await self._reader.readexactly(size))[4:], version=version)


class SimulatedGroup:
    """The simulated members of a group. Used in an event loop, as a context manager."""

    def __init__(self, id_: str, port: int, topic: str) -> None:
        """`port`: the broker's port."""
        self.id = id_
        self.port = port
        self.topology_bytes = 0
        self.fetch_seconds: list[float] = []
        self.failed = 0  # fetches
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        self._topic = topic
        self._members: list[SimulatedMember] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> SimulatedGroup:
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.http.close()

    async def join(self, metadata: Sequence[MemberMetadata], timeout: float) -> float:
        """Starts a member for each item of `metadata`; returns the seconds until all have the same
        topology."""
        self._members = [
            SimulatedMember(member_metadata, self._topic, self) for member_metadata in metadata
        ]
        began = time.monotonic()
        self._tasks = [asyncio.create_task(member.run()) for member in self._members]
        return await self._wait(began, timeout)

    async def leave(self, count: int, timeout: float) -> float:
        """Makes `count` members leave, at their next heartbeat; returns the seconds until all
        others have a newer topology."""
        self.fetch_seconds.clear()
        began = time.monotonic()
        leaving = random.sample(self._members, count)
        self._members = [member for member in self._members if member not in leaving]
        for member in leaving:
            member.leaves = True
        return await self._wait(began, timeout)

    async def _wait(self, began: float, timeout: float) -> float:
        while any(member.has_since < began for member in self._members) or (
            len({member.generation for member in self._members}) > 1
        ):
            for task in self._tasks:
                if task.done() and not task.cancelled() and (error := task.exception()):
                    raise LocalError(f"a simulated member has failed: {error!r}")
            if time.monotonic() - began > timeout:
                have = sum(member.has_since >= began for member in self._members)
                raise LocalError(f"{have} of {len(self._members)} members have a new topology")
            await asyncio.sleep(0.05)
        return max(member.has_since for member in self._members) - began
