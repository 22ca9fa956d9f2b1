"""The routes of the admin page: commands, what their senders may do, and what the page shows."""

from __future__ import annotations

from collections.abc import Mapping

from backend.cluster.peer_client import PeerClient
from backend.http.access import Access
from backend.http.limits.gates import Gate
from backend.http.request import Request
from backend.http.responses import KeyResponses
from backend.http.route_table import Route
from backend.http.routes.consumer_groups import GroupRoutes
from backend.http.routes.dead_letters import DeadLetterRoute
from backend.http.routes.deployments import DeploymentRoutes
from backend.http.routes.document_threads import DocumentThreads
from backend.http.routes.history import PATH as HISTORY
from backend.http.routes.history import HistoryRoute
from backend.http.routes.instances import InstanceCommands
from backend.http.routes.pipelines import PipelineRoutes
from backend.http.routes.replicas import ReplicaRoute
from backend.http.routes.view_versions import VersionRoutes
from backend.instance.context import InstanceContext
from backend.wire.answer import Answer, json_answer

_MAX_BODY = 4096  # bytes
_GET, _POST = ("GET",), ("POST",)


class AdminRoutes:
    """Builds the routes. All commands need the scope `admin`, and are audited."""

    def __init__(
        self,
        context: InstanceContext,
        responses: Mapping[str, KeyResponses],
        peer_client: PeerClient,
    ) -> None:
        self._context = context
        self._instances = InstanceCommands(context, peer_client)
        self._replicas = ReplicaRoute(context.group, responses, peer_client)
        self._threads = DocumentThreads()
        self._history = HistoryRoute(context, self._threads)

    def start(self) -> None:
        """Called in the event loop."""
        self._history.start()

    async def stop(self) -> None:
        await self._history.stop()
        self._threads.stop()

    def all(self) -> tuple[Route, ...]:
        kafka = self._context.kafka
        versions = VersionRoutes(self._context, self._threads)
        pipelines = PipelineRoutes(self._context.pipelines, kafka.pipeline_commands)
        groups = GroupRoutes(kafka.unused_groups, self._threads)
        deployments = DeploymentRoutes(self._context, self._threads)
        letters = DeadLetterRoute(kafka.dead_letter_reader, self._threads).dead_letters
        replicas, history = self._replicas.replicas, self._history.history
        view_path = "/admin/views/{view}"
        documents = Gate("documents", 16)
        gate, commands = Gate("commands", 16), {
            "/views/{view}/switch": versions.switch,
            "/views/{view}/rollback": versions.rollback,
            "/views/{view}/drop": versions.drop,
            "/views/{view}/pipeline": pipelines.command,
            "/admin/instances/{instance}/drain": self._instances.drain,
            "/admin/instances/{instance}/undrain": self._instances.undrain,
            "/admin/instances/{instance}/rebuild": self._instances.rebuild,
            "/admin/groups/{group}/delete": groups.delete,
            "/admin/deployments/{deployment}/switch": deployments.switch,
            "/admin/deployments/{deployment}/rollback": deployments.rollback,
        }  # fmt: skip
        return (
            Route(_GET, "/views/{view}/versions", Access.ANY_SCOPE, versions.versions, documents),
            Route(_GET, "/admin/identity", Access.ANY_SCOPE, self.identity, documents),
            Route(_GET, "/admin/deployment", Access.ANY_SCOPE, deployments.deployment, documents),
            Route(_GET, HISTORY, Access.ANY_SCOPE, history, documents),
            Route(_GET, view_path + "/replicas", Access.READ, replicas, Gate("commands", 64)),
            # each has a consumer of its own
            Route(_GET, view_path + "/dead-letters", Access.READ, letters, Gate("commands", 4)),
            Route(_GET, "/admin/groups", Access.ADMIN, groups.groups, documents),
            *(
                Route(_POST, pattern, Access.ADMIN, handler, gate, _MAX_BODY)
                for pattern, handler in commands.items()
            ),
        )

    async def identity(self, request: Request) -> Answer:
        """Answers whose token the request has, and what the token allows."""
        sender = request.identity
        is_on = self._context.settings.auth != "off"
        document = {
            "auth": self._context.settings.auth,
            "subject": None if sender is None else sender.subject,
            "scopes": [] if sender is None else sorted(sender.scopes),
            "admin": not is_on or (sender is not None and Access.ADMIN.value in sender.scopes),
        }
        return json_answer(document)
