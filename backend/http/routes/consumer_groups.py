"""The consumer groups that deployments have left behind."""

from __future__ import annotations

import asyncio

import orjson

from backend.http.request import Request
from backend.http.routes.members import members
from backend.instance_context import InstanceContext
from backend.wire.answer import JSON, Answer


class GroupRoutes:
    """The handlers of `GET /admin/groups` and `POST /admin/groups/{group}/delete`."""

    def __init__(self, context: InstanceContext) -> None:
        self._groups = context.unused_groups

    async def groups(self, _: Request) -> Answer:
        found = await asyncio.to_thread(self._groups.all)
        return _answer({"groups": [{"group": group} for group in found]})

    async def delete(self, request: Request) -> Answer:
        """Deletes a group that has no members and no offsets. Conflict for any other one."""
        members(request, {})
        group = request.more["group"]
        request.details["group"] = group
        await asyncio.to_thread(self._groups.delete, group)
        return _answer({"group": group, "deleted": True})


def _answer(document: object) -> Answer:
    return Answer(200, [JSON, (b"cache-control", b"no-store")], orjson.dumps(document))
