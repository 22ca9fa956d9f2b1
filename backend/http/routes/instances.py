"""Commands for one instance: drain, undrain, rebuild a partition. Any instance accepts a command,
and passes it on to the instance that it is for."""

from __future__ import annotations

import asyncio

from backend.admin.topology import Peers
from backend.cluster.liveness import DRAINING
from backend.cluster.peer_client import PeerClient
from backend.http.request import Request
from backend.http.routes.members import Allowed, members
from backend.instance.context import InstanceContext
from backend.wire.answer import MARK, Answer, Header, json_answer
from model.problems import Conflict, NotFound, Unavailable
from model.progress import ANSWERABLE

_PASSED_ON = (b"content-type", b"x-request-id")
_ASKED_AT_ONCE = 16


class InstanceCommands:
    """The handlers of `POST /admin/instances/{instance}/…`."""

    def __init__(self, context: InstanceContext, peer_client: PeerClient) -> None:
        self._context = context
        self._peers = Peers(context.cluster.signer, context.certificates)
        self._peer_client = peer_client

    async def drain(self, request: Request) -> Answer:
        """Lets other instances take over the partitions of the instance, which answers until they
        can. Raises Conflict if no other instance takes part: then the instance would get all of
        them again."""
        return await self._set_drained(request, True)

    async def undrain(self, request: Request) -> Answer:
        """Gives the instance its share of the partitions again."""
        return await self._set_drained(request, False)

    async def _set_drained(self, request: Request, drained: bool) -> Answer:
        members(request, {})
        if (answer := await self._answer_of_other(request)) is not None:
            return answer
        context = self._context
        if drained and not await self._other_takes_part():
            raise Conflict(
                "last-instance",
                "No other instance could take over the partitions: all others are drained or do "
                "not answer, or there are none.",
            )
        if context.group.drained is not drained:
            context.group.drained = drained
            context.member.rejoin()
        return json_answer({"instance": context.group.me.id, "drained": drained})

    async def rebuild(self, request: Request) -> Answer:
        """Deletes a store partition of the instance, and builds it again: from another instance, or
        from the topic. Raises Conflict if no other instance can answer meanwhile, unless
        `force`."""
        context = self._context
        allowed: dict[str, Allowed] = {
            "view": tuple(context.views),
            "partition": range(1 << 31),
            "force": None,
        }
        asked = members(request, allowed, ("view", "partition"))
        view, partition = asked["view"], asked["partition"]
        request.details.update(asked)
        if (answer := await self._answer_of_other(request)) is not None:
            return answer
        if context.store_partitions.get(view, partition) is None:
            raise NotFound(
                "partition-not-here",
                f"Instance {context.group.me.id} has no partition {partition} of view {view} open.",
            )
        if not asked.get("force", False) and not await self._others_answer(view, partition):
            raise Conflict(
                "last-replica",
                f"No other instance answers for partition {partition} of view {view}: until it is "
                'rebuilt, reads of it would get 503. To rebuild it nevertheless: "force": true.',
            )
        context.ingest_loop.rebuild(view, partition)
        return json_answer({"instance": context.group.me.id, "view": view, "partition": partition})

    async def _other_takes_part(self) -> bool:
        """Whether another instance answers that is neither drained nor stopping."""
        me = self._context.group.me
        others = [member for member in self._context.group.topology.members if member.id != me.id]
        for first in range(0, len(others), _ASKED_AT_ONCE):
            asked = others[first : first + _ASKED_AT_ONCE]
            statuses = await asyncio.to_thread(self._peers.ask, asked)
            if any(s.get("drained") is False and s["state"] != DRAINING for s in statuses):
                return True
        return False

    async def _others_answer(self, view: str, partition: int) -> bool:
        others = self._context.group.others(view, partition)
        statuses = await asyncio.to_thread(self._peers.ask, others)
        return any(
            (p["view"], p["partition"], p["state"]) == (view, partition, ANSWERABLE)
            for status in statuses
            for p in status.get("partitions", ())
        )

    async def _answer_of_other(self, request: Request) -> Answer | None:
        """The answer of the instance in the path; None if that is this instance."""
        id_, me = request.more["instance"], self._context.group.me.id
        request.details["target"] = id_
        if id_ == me:
            return None
        members = self._context.group.topology.members
        matching = [member for member in members if member.id == id_]
        if not matching:
            known = ", ".join(sorted(member.id for member in members))
            raise NotFound(
                "instance-not-found", f"Instance {id_} is not in the topology. It has: {known}."
            )
        if request.header(MARK) is not None:
            raise Unavailable("owner-unreachable", f"Another program answers for instance {id_}.")
        headers: list[Header] = [header for header in request.headers if header[0] in _PASSED_ON]
        return await self._peer_client.forward(
            matching[0], request.method, request.target, headers, request.body
        )
