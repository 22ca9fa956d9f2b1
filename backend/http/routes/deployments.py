"""The deployment and its service: whether it could become current, and making it current.

Each deployment decides for itself: a command goes to an instance of the deployment that is to
become current, because only its instances know their progress.
"""

from __future__ import annotations

import asyncio
from typing import Any

from backend.admin.completeness import (
    MAX_PATIENCE,
    PATIENCE,
    Completeness,
    Missing,
    wait_until_complete,
)
from backend.admin.topology import Peers, statuses_of
from backend.admin.version_status import why_no_rollback
from backend.cluster.change_log import ChangeLog
from backend.http.request import Request
from backend.http.routes.document_threads import DocumentThreads
from backend.http.routes.members import Allowed, members
from backend.instance.context import InstanceContext
from backend.wire.answer import Answer, json_answer
from model.changes.deployments import DeploymentState, document
from model.machine.clock import boot_time
from model.problems import Conflict, Unavailable
from model.views import View

_ROLLBACK_PATIENCE = 0.3  # s to wait for other instances: a rollback takes less than a second

_ALLOWED: dict[str, Allowed] = {
    "max_lag": range(1 << 62),
    "wait": range(MAX_PATIENCE + 1),
    "force": None,
}


class DeploymentRoutes:
    """The handlers of `/admin/deployment`, and of `/admin/deployments/{deployment}/…`."""

    def __init__(self, context: InstanceContext, threads: DocumentThreads) -> None:
        self._context = context
        self._threads = threads
        signer, certificates = context.cluster.signer, context.certificates
        self._peers = Peers(signer, certificates)
        self._hasty_peers = Peers(signer, certificates, _ROLLBACK_PATIENCE, _ROLLBACK_PATIENCE)

    async def deployment(self, request: Request) -> Answer:
        """This deployment: its service, its views, and why it could not become current now."""
        context = self._context
        asked_at = boot_time()
        statuses = await self._threads.run(statuses_of, context, self._peers)
        why = self._why_undecided()
        if why is None:
            complete = Completeness(context, self._views(), asked_at - PATIENCE, at_once=True)
            missing = complete.missing(statuses, asked_at)
            why = None if missing is None else missing.text
        service = context.settings.service
        return json_answer(
            {
                "application_id": context.settings.application_id,
                "service": document(service, context.group.deployment) if service else None,
                "epoch": str(context.group.topology.epoch),
                "ready": why is None,
                "why_not_ready": why,
                "views": sorted(context.group.versions.by_base),
                "instances": [
                    {
                        "id": id_,
                        "state": status.get("state", "unknown"),
                        "current": status.get("service", {}).get("current"),
                    }
                    for id_, status in sorted(statuses.items())
                ],
            }
        )

    async def switch(self, request: Request) -> Answer:
        """Makes this deployment current. Raises Conflict unless all its views are complete."""
        asked, state, log = self._asked(request, ("max_lag", "force", "wait"))
        if not asked.get("force", False):
            if (why := self._why_undecided()) is not None:
                raise self._not_ready(why)
            missing = await wait_until_complete(
                self._context,
                self._peers,
                self._views(),
                asked.get("max_lag"),
                asked.get("wait", PATIENCE),
            )
            if missing is not None:
                raise self._not_ready(missing.text, missing)
        return await self._change(state, log)

    async def rollback(self, request: Request) -> Answer:
        """Makes this deployment, the previous one, current again. Raises Conflict if no instance
        could answer from it, or if one of its jobs no longer runs."""
        asked, state, log = self._asked(request, ("force",))
        own = self._context.settings.application_id
        if state.previous != own:
            raise Conflict(
                "not-previous-deployment",
                f"Deployment {own} is not the previous one of its service: that is "
                f"{state.previous or 'unknown, because there was no switch'}.",
            )
        if not asked.get("force", False):
            statuses = await asyncio.to_thread(statuses_of, self._context, self._hasty_peers)
            why = self._why_undecided() or next(
                (
                    f"view {view.base}: {why}"
                    for view in self._views()
                    if (why := why_no_rollback(self._context, view, statuses)) is not None
                ),
                None,
            )
            if why is not None:
                raise self._not_ready(why)
        return await self._change(state, log)

    def _asked(
        self, request: Request, optional: tuple[str, ...]
    ) -> tuple[dict[str, Any], DeploymentState, ChangeLog[DeploymentState]]:
        """The members of the body, the state of the service, and the log of its changes.
        Raises Conflict unless the request is for this deployment, and another one is current."""
        settings = self._context.settings
        own, service = settings.application_id, settings.service
        asked = members(request, {name: _ALLOWED[name] for name in optional})
        request.details.update({"deployment": request.more["deployment"], **asked})
        if request.more["deployment"] != own:
            raise Conflict(
                "other-deployment",
                f"This instance belongs to deployment {own}. Send the command to an instance of "
                f"deployment {request.more['deployment']}.",
            )
        log = self._context.kafka.deployment_log
        if log is None:
            raise Conflict(
                "no-service",
                f"Deployment {own} belongs to no service. Set QUERYABLE_SERVICE on its instances.",
            )
        state = self._context.group.deployment
        if state is None:
            raise Unavailable(
                "deployment-unknown",
                f"The current deployment of service {service} is not known here yet.",
            )
        if state.current == own:
            raise Conflict("deployment-is-current", f"Deployment {own} is current already.")
        return asked, state, log

    def _views(self) -> list[View]:
        """The current version of each view."""
        versions = self._context.group.versions
        return [versions.named[base] for base in sorted(versions.by_base)]

    def _why_undecided(self) -> str | None:
        """Why it is not known which view a name means; None if it is known."""
        versions = self._context.group.versions
        for base in sorted(versions.by_base):
            if base in versions.undecided:
                return f"the current version of view {base} is not known here"
            if base in versions.elsewhere:
                return f"view {base} is declared in another way here than on most instances"
        return None

    def _not_ready(self, why: str, missing: Missing | None = None) -> Conflict:
        own = self._context.settings.application_id
        return Conflict(
            "deployment-not-ready",
            f"Deployment {own} cannot become current: {why}.",
            **({} if missing is None else missing.document()),
        )

    async def _change(self, state: DeploymentState, log: ChangeLog[DeploymentState]) -> Answer:
        settings = self._context.settings
        changed = state.switched_to(settings.application_id)
        await asyncio.to_thread(log.change, settings.service, changed)
        return json_answer(document(settings.service, changed))
