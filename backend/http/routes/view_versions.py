"""The versions of a view: how far they are, and which one is current."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from backend.admin.completeness import MAX_PATIENCE, PATIENCE, wait_until_complete
from backend.admin.topology import Peers, statuses_of
from backend.admin.version_status import versions_status, why_no_rollback
from backend.http.parameters import PARAMETERS, parse_parameters
from backend.http.request import Request
from backend.http.routes.document_threads import DocumentThreads
from backend.http.routes.members import Allowed, members
from backend.instance.context import InstanceContext
from backend.wire.answer import Answer, json_answer
from model.machine.clock import boot_time
from model.pipelines.status import NEVER_POLLED, STOPPED, UNKNOWN
from model.problems import Conflict, NotFound, Unavailable
from model.view_versions import MAX_VERSION, VersionState, public_name
from model.views import View

_ROLLBACK_PATIENCE = 0.3  # s to wait for other instances: a rollback takes less than a second


class VersionRoutes:
    """The handlers of `/views/{view}/versions`, `…/switch`, `…/rollback` and `…/drop`."""

    def __init__(self, context: InstanceContext, threads: DocumentThreads) -> None:
        self._context = context
        self._threads = threads
        signer, certificates = context.cluster.signer, context.certificates
        self._peers = Peers(signer, certificates)
        self._hasty_peers = Peers(signer, certificates, _ROLLBACK_PATIENCE, _ROLLBACK_PATIENCE)

    async def versions(self, request: Request) -> Answer:
        parse_parameters(request.query, PARAMETERS["versions"])
        base = request.routed_view.base
        statuses = await self._threads.run(statuses_of, self._context, self._peers)
        return json_answer(versions_status(self._context, base, statuses))

    async def switch(self, request: Request) -> Answer:
        """Makes another version current. Raises Conflict unless it is complete on all instances."""
        asked = _members(request, ("version",), ("force", "max_lag", "wait"))
        state, view = self._asked(request, asked)
        if view.version == state.current:
            raise Conflict("version-is-current", f"{_name(view)} is the current version already.")
        if not asked.get("force", False):
            missing = await wait_until_complete(
                self._context,
                self._peers,
                [view],
                asked.get("max_lag"),
                asked.get("wait", PATIENCE),
            )
            if missing is not None:
                raise Conflict(
                    "version-not-ready",
                    f"{_name(view)} cannot become current: {missing.text}.",
                    **missing.document(),
                )
        return await self._change(view.base, state.switched_to(view.version))

    async def rollback(self, request: Request) -> Answer:
        """Makes the previous version current again. Raises Conflict if no instance could answer
        from it, or its job no longer runs."""
        asked = _members(request, (), ("force",))
        base = request.routed_view.base
        state = self._state(base)
        previous = None if state.previous is None else self._version(base, state.previous)
        if previous is None:
            raise Conflict(
                "no-previous-version",
                f"View {base} has no previous version to go back to. Name a version: switch.",
            )
        request.details["version"] = previous.version
        if not asked.get("force", False):
            statuses = await asyncio.to_thread(statuses_of, self._context, self._hasty_peers)
            if (why := why_no_rollback(self._context, previous, statuses)) is not None:
                raise Conflict("version-not-ready", f"{_name(previous)} cannot be current: {why}.")
        return await self._change(base, state.rolled_back())

    async def drop(self, request: Request) -> Answer:
        """Removes a version that is not current: its stores on all instances and, if the request
        says so, its topic."""
        asked = _members(request, ("version",), ("delete_topic",))
        state, view = self._asked(request, asked)
        if view.version == state.current:
            raise Conflict(
                "version-is-current",
                f"{_name(view)} is the current version. Make another one current first: switch.",
            )
        deletes = asked.get("delete_topic", False)
        request.details["delete_topic"] = deletes
        others = [v.name for v in self._context.views.values() if v != view]
        users = [name for name in others if self._context.views[name].topic == view.topic]
        if deletes and users:
            raise Conflict(
                "topic-in-use", f"Topic {view.topic} is also the topic of view {users[0]}."
            )
        if deletes:
            self._check_pipeline(view)
        answer = await self._change(view.base, state.without(view.version))
        if deletes:
            await asyncio.to_thread(self._context.kafka.version_log.delete_topic, view.topic)
        return answer

    def _check_pipeline(self, view: View) -> None:
        """Raises Conflict if the job of the version runs: the job would end, with all its views,
        when the topic is deleted. Raises Unavailable if it is not known yet whether the job
        runs."""
        pipelines = self._context.pipelines
        pipeline = pipelines.get(view.name)
        if pipeline is None or list(pipelines.values()).count(pipeline) > 1:
            return  # a pipeline of several views may go on without this topic
        status = pipeline.status(boot_time())
        was_polled = status is not NEVER_POLLED
        if was_polled and (status.state == STOPPED or status.heard_ago is None):
            return
        if status.state == UNKNOWN:
            raise Unavailable(
                "pipeline-unknown",
                f"It is not known whether pipeline {pipeline.group} runs. Repeat this, or drop the "
                "version and delete its topic yourself.",
            )
        raise Conflict(
            "pipeline-running",
            f"The job of pipeline {pipeline.group} runs, and would fail without topic {view.topic}."
            f" Start it again without {_name(view)}, then repeat this.",
        )

    def _asked(self, request: Request, asked: dict[str, Any]) -> tuple[VersionState, View]:
        """The state of the view, and the version that the body names."""
        base, version = request.routed_view.base, asked["version"]
        request.details["version"] = version
        state, view = self._state(base), self._version(base, version)
        if view is None:
            known = ", ".join(map(str, self._context.group.versions.by_base[base]))
            raise NotFound(
                "version-not-found", f"View {base} has no version {version}. It has: {known}."
            )
        return state, view

    def _state(self, base: str) -> VersionState:
        state = self._context.group.versions.state(base)
        if state is None:
            raise Unavailable(
                "version-unknown", f"The current version of view {base} is not known here yet."
            )
        return state

    def _version(self, base: str, version: int) -> View | None:
        return self._context.group.versions.by_base[base].get(version)

    async def _change(self, base: str, state: VersionState) -> Answer:
        await asyncio.to_thread(self._context.kafka.version_log.change, base, state)
        return json_answer(
            {
                "view": base,
                "current": state.current,
                "previous": state.previous,
                "dropped": state.dropped,
                "revision": state.revision,
            }
        )


_ALLOWED: Mapping[str, Allowed] = {
    "version": range(1, MAX_VERSION + 1),
    "max_lag": range(1 << 62),
    "wait": range(MAX_PATIENCE + 1),
    "force": None,
    "delete_topic": None,
}


def _members(
    request: Request, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, Any]:
    return members(request, {name: _ALLOWED[name] for name in (*required, *optional)}, required)


def _name(view: View) -> str:
    return public_name(view.base, view.version)
