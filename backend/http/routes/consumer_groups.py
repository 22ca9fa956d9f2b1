"""The consumer groups that deployments have left behind."""

from __future__ import annotations

import asyncio

from backend.http.request import Request
from backend.http.routes.document_threads import DocumentThreads
from backend.http.routes.members import members
from backend.pipelines.unused_groups import UnusedGroups
from backend.wire.answer import Answer, json_answer


class GroupRoutes:
    """The handlers of `GET /admin/groups` and `POST /admin/groups/{group}/delete`."""

    def __init__(self, groups: UnusedGroups, threads: DocumentThreads) -> None:
        self._threads = threads
        self._groups = groups

    async def groups(self, _: Request) -> Answer:
        groups = await self._threads.run(self._groups.all)
        return json_answer({"groups": [{"group": group} for group in groups]})

    async def delete(self, request: Request) -> Answer:
        """Deletes a group that has no members and no offsets. Raises Conflict for any other
        group."""
        members(request, {})
        group = request.more["group"]
        request.details["group"] = group
        await asyncio.to_thread(self._groups.delete, group)
        return json_answer({"group": group, "deleted": True})
