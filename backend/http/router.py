"""The ASGI application: the table of all routes, and what is done around every handler.

Access, bounds on requests in flight and on their bodies, methods, problems, Topology-Epoch and
Content-Length are each handled in one place, here. Routes that are pages are Flask's (`flask_app`).
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from contextlib import nullcontext
from functools import partial
from urllib.parse import unquote_to_bytes

from backend.admin.document import PATH as ADMIN
from backend.admin.document import sign_in
from backend.admin.redundancy import OwnReport
from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.heartbeats import Heartbeats
from backend.cluster.peer_client import PeerClient
from backend.cluster.peer_posts import PeerPosts
from backend.cluster.topology_fetcher import PATH as TOPOLOGY
from backend.http.access import Access, AccessControl
from backend.http.asgi import App, Receive, Scope, Send
from backend.http.auditing import DISCONNECTED, audit
from backend.http.fast_path import READERS, FastPath
from backend.http.flask_app import PAGES
from backend.http.flask_bridge import PAGE_KIND, page_gates, page_kind
from backend.http.forwarding.unmatched import UnmatchedRequests
from backend.http.kiqr.routes import PATHS as KIQR_PATHS
from backend.http.kiqr.routes import PREFIX as KIQR
from backend.http.limits.bodies import BodyBudget, read_body
from backend.http.limits.clients import Clients
from backend.http.limits.gates import Gate
from backend.http.limits.processors import max_reductions
from backend.http.limits.view_quotas import ViewQuotas
from backend.http.metrics.measuring import Measured
from backend.http.paths import Paths, path_of_absolute_form
from backend.http.request import Request
from backend.http.responses import KeyResponses, pipeline_headers
from backend.http.route_table import OTHER, Match, Route, RouteTable, page_path
from backend.http.routes.admin import AdminRoutes
from backend.http.routes.append import AppendRoute
from backend.http.routes.internal import InternalRoutes
from backend.http.routes.keys import KeyRoutes
from backend.http.routes.sql import SqlRoute
from backend.http.routes.views import ViewRoutes
from backend.http.sending import (
    add_missing,
    internal_error,
    send_answer,
    with_final_status,
    with_headers,
)
from backend.http.streams import end_early
from backend.http.view_versions import is_outdated, pin
from backend.instance.context import InstanceContext
from backend.queries.batch import BATCH_PATH, Batches
from backend.queries.pace import Pace
from backend.queries.point import count_refusal
from backend.queries.point_by_kind import reads_of
from backend.queries.retry import Asker
from backend.queries.scans.any_partition import AnyPartitionReads
from backend.queries.scans.partition_scan import PartitionScans
from backend.queries.scans.scatter_gather import SCAN_PATH, ScatterGather
from backend.queries.turns import Turns, set_sender
from backend.queries.whole_view.registry import VIEW_QUERIES
from backend.security.audit import AuditLog
from backend.security.authorization import AUTHORIZATION
from backend.security.browser_rules import BrowserRules, preflight
from backend.security.cluster import signature_in
from backend.security.connection_key import connection_key
from backend.security.mutual_tls import has_cluster_certificate, is_passed_on
from backend.security.signatures import Purpose
from backend.telemetry.tracing import TRACE, trace_of
from backend.wire.answer import FINAL_STATUS, Answer, Header, problem_answer
from backend.wire.point_batch import READS
from backend.wire.scan_codec import MAX_ASK_BYTES
from backend.wire.snapshot import PATH as COPY
from model.limits import MAX_BATCH_BYTES
from model.problems import BadRequest, Forbidden, MethodNotAllowed, Problem, Unauthenticated
from model.views import View

_READ, _GET, _POST = ("GET", "HEAD"), ("GET",), ("POST",)
_PAGE = ("GET", "HEAD", "OPTIONS")
_PAGES = (*_READ, "POST")  # parameters that do not fit into a URL are in the body

MAX_BODY = 1 << 20
_PATIENCE = 2.0  # s that pages and batches wait for other requests to end
_REDUCTION_PATIENCE = 10.0  # s; few run at the same time, and each takes longer
_MAX_PEER_BATCH = 9 << 20  # bytes; older instances take 8 MiB of keys
_SMALL = 4096  # bytes of a heartbeat, a command or a request for a copy: no budget is needed

log = logging.getLogger(__name__)


class Router:
    """Matches a request to its handler and sends the answer."""

    def __init__(
        self,
        context: InstanceContext,
        pages: App,
        access: AccessControl | None = None,
        peer_client: PeerClient | None = None,
    ) -> None:
        """`pages`: the Flask application. `access`: None if authentication is off. `peer_client`:
        how other instances are asked; None: by HTTP."""
        settings = context.settings
        self._context, self._group = context, context.group
        self._pages = pages
        self._browsers = BrowserRules.from_settings(settings)
        self._audit = AuditLog(settings.instance_id)
        self._access = access = access or AccessControl(None)
        self._paths = Paths(context.group.versions)
        self._cluster = context.cluster
        constants = context.constants
        sender = settings.instance_id, constants.forward_timeout, context.cluster.signer
        tls = context.certificates
        self._peer_client = peer_client or PeerClient(
            *sender,
            streams=settings.max_streams,
            certificates=tls,
            counts=context.telemetry.peer_counts,
        )
        posts = peer_client or PeerPosts(*sender, tls)
        interval = constants.heartbeat_interval
        self._heartbeats = Heartbeats(self._group, posts, interval, OwnReport(context))
        reads = {name: reads_of(view, context) for name, view in context.views.items()}
        self._responses = {
            name: KeyResponses(view_reads, context) for name, view_reads in reads.items()
        }
        scans = PartitionScans(context, {query.name: query.reducer for query in VIEW_QUERIES})
        self.scatter_gather = ScatterGather(context, scans, self._peer_client)
        any_partition = AnyPartitionReads(context, self.scatter_gather)
        batches = Batches(context, reads, self._peer_client, any_partition)
        asker = Asker(context, self._peer_client)
        self.keys = KeyRoutes(context, self._responses, asker, any_partition, self.scatter_gather)
        self._views = ViewRoutes(context, self.scatter_gather, batches)
        self._append = AppendRoute(context, reads, self.keys.meant)
        self._clients = Clients.from_settings(settings, context.cluster)
        self._quotas = ViewQuotas(context)
        self.fast_path = FastPath(
            context,
            self._paths,
            self._responses,
            access,
            self.keys.coalesced_forwards,
            self._heartbeats,
            self._browsers.allows_host,
            self._refused_post,
        )
        self._internal = InternalRoutes(context, scans, batches, self._heartbeats, access)
        self._admin = AdminRoutes(context, self._responses, self._peer_client)
        # two budgets: requests between instances find room however much clients send
        self._bodies, self._internal_bodies = BodyBudget(), BodyBudget()
        most = settings.max_in_flight
        self._requests, self._coalesced_reads = Gate("requests", most), Gate("reads", most)
        self._page_gates = page_gates()
        self._turns = Turns(Pace(context.telemetry.reads_served))
        self.routes = self._all_routes()
        self._table = RouteTable(self.routes, self._paths, context.group.versions)
        context.group.on_versions.append(self._use_versions)
        self._unmatched = UnmatchedRequests(context.group, self._requests, asker)

    def _all_routes(self) -> tuple[Route, ...]:
        keys, views, internal = self.keys, self._views, self._internal
        coalesced = self.fast_path.coalesced
        requests = self._requests
        # What each request holds in memory: a scan, a page of every owner; a reduction, groups or
        # rows of every owner; a batch, its body; a peer's scan, one page of this instance.
        scans, batches = Gate("scans", 64, _PATIENCE), Gate("batches", 128, _PATIENCE)
        reductions = Gate("reductions", max_reductions(), _REDUCTION_PATIENCE)
        scan_gate = Gate("scans", 256)
        own_bound = nullcontext()  # the handler itself limits concurrent requests
        key = "{path}/{key}"  # of the view's own path, and of /views/{view}/keys
        read, append, any_scope = Access.READ, Access.APPEND, Access.ANY_SCOPE
        cluster = Access.CLUSTER
        return (
            # one key
            Route(_READ, key, read, keys.point, requests, counts_reads=True),
            Route(_READ, key + "/windows", read, keys.history, requests, counts_reads=True),
            Route(_READ, key + "/sessions", read, keys.history, requests, counts_reads=True),
            Route(_READ, key + "/versions", read, keys.history, requests, counts_reads=True),
            Route(_GET, key + "/changes", read, keys.changes, own_bound, counts_reads=True),
            Route(_READ, key + "/{rest}", read, keys.unknown, requests, counts_reads=True),
            # a whole view
            Route(_PAGES, "/views/{view}/keys", read, views.keys, scans, MAX_BATCH_BYTES),
            Route(_PAGES, "/views/{view}/windows", read, views.windows, scans, MAX_BATCH_BYTES),
            Route(_PAGES, "/views/{view}/sessions", read, views.sessions, scans, MAX_BATCH_BYTES),
            Route(_READ, "/views/{view}/by/{field}/{value}", read, views.entries, scans),
            Route(_POST, "/views/{view}/query", read, views.entries, scans, MAX_BATCH_BYTES),
            *(
                Route(_READ, f"/views/{{view}}/{q.name}", read, views.reduction(q), reductions)
                for q in VIEW_QUERIES
            ),
            Route(_POST, "/views/{view}/batch", read, views.batch, batches, MAX_BATCH_BYTES),
            Route(_POST, "/views/{view}/search", read, keys.search, requests, MAX_BODY, True),
            Route(_POST, "/sql", any_scope, SqlRoute(self).sql, requests, MAX_BODY),
            # commands, and the admin page
            *self._admin.all(),
            # writing
            Route(
                _POST, "/topics/{topic}/records", append, self._append.append, requests, MAX_BODY
            ),
            # the proxy, and other instances
            Route(_POST, READS.decode(), cluster, coalesced.reads, self._coalesced_reads, MAX_BODY),
            Route(_POST, SCAN_PATH.decode(), cluster, internal.scan, scan_gate, MAX_ASK_BYTES),
            Route(_POST, BATCH_PATH.decode(), cluster, internal.batch, scan_gate, _MAX_PEER_BATCH),
            Route(_POST, HEARTBEAT.decode(), cluster, internal.heartbeat, own_bound, _SMALL),
            Route(_POST, TOPOLOGY, cluster, internal.topology, own_bound, _SMALL),
            Route(_POST, COPY, cluster, internal.copy, own_bound, _SMALL),
            # Flask
            *(self._page(_PAGE, pattern, access) for pattern, access in PAGES),
            *(self._page((*_PAGE, "POST", "PUT"), f"{KIQR}/{path}", read) for path in KIQR_PATHS),
            self._page((), OTHER, any_scope),
        )

    def _use_versions(self) -> None:
        """Called, in any thread, when other versions have become current or the group has other
        views."""
        versions = self._group.versions
        self._paths = Paths(versions)
        self._table = RouteTable(self.routes, self._paths, versions)
        for responses in self._responses.values():
            responses.use_versions()
        self.fast_path.use(self._paths)
        self.keys.end_streams(partial(is_outdated, self._table))

    def _page(self, methods: tuple[str, ...], pattern: str, access: Access) -> Route:
        kind = page_kind(pattern)
        handler, gate = partial(self._flask, kind), self._page_gates[kind]
        return Route(methods, pattern, access, handler, gate, is_page=True)

    def match(self, raw_path: bytes) -> Match:
        """The route of a path, and what the path names in the current versions. Raises
        BadRequest."""
        return self._table.match(raw_path)

    def start(self) -> None:
        """Starts heartbeats and measurements. Called in the event loop."""
        self.fast_path.start()
        self._heartbeats.start()
        self._admin.start()

    async def stop(self) -> None:
        await self._admin.stop()
        await self.keys.stop()
        await self._heartbeats.stop()
        await self._peer_client.close()

    def drain(self) -> None:
        """Ends the streams, so that their clients reconnect to the instance that has the partition
        by then. The other instances get a heartbeat immediately."""
        self.keys.drain()
        self._heartbeats.beat_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path: bytes = scope["raw_path"]
        if raw_path[:1] != b"/" and (path := path_of_absolute_form(raw_path)) is not None:
            decoded = unquote_to_bytes(path).decode(errors="replace")
            scope, raw_path = {**scope, "raw_path": path, "path": decoded}, path
        is_of_proxy = any(name == FINAL_STATUS for name, _ in scope["headers"])
        if is_of_proxy:
            send = with_final_status(send)
        epoch = self._group.epoch_header
        try:
            match = self._table.match(raw_path)
        except Problem as problem:
            match = self._unmatched.match(problem, scope)
        try:
            is_admin = match.route.access is Access.ADMIN
            added = self._browsers.admit(scope["method"], raw_path, scope["headers"], is_admin)
        except (BadRequest, Forbidden) as problem:
            client = self._clients.named_in(scope)
            audit(self._audit, match, scope, problem.status, problem=problem, client=client)
            await send_answer(problem_answer(problem), scope["method"], epoch, send)
            return
        answer: Answer | None = None
        if added:
            send = with_headers(send, added)
            answer = preflight(scope["method"], scope["headers"], added)
        if answer is None:
            answer = await self._handle(match, scope, receive, send)
        if answer is not None:
            await send_answer(answer, scope["method"], epoch, send, is_of_proxy)

    async def _handle(
        self, match: Match, scope: Scope, receive: Receive, send: Send
    ) -> Answer | None:
        """Calls the handler; None if it has sent its answer."""
        route = match.route
        request = Request(scope, receive, send, self._extra, match.view, match.key, match.more)
        AUTHORIZATION.set(self._access.authorization(request.headers))
        TRACE.set(trace_of(request.headers))
        with Measured(self._context.telemetry, match, request) as measured:
            if route.is_internal:
                answer = await self._handle_internal(match, request)
            else:
                request.client = self._clients.named_in(scope)
                answer = await self._answer_of(match, request)
            measured.answer = answer
        if answer is not None and route.access is Access.READ:
            add_missing(answer.headers, self._group.missing_headers(request.view))
            if request.view is not None and answer.status not in (401, 403):
                add_missing(answer.headers, pipeline_headers(self._context, request.view))
        return answer

    async def _handle_internal(self, match: Match, request: Request) -> Answer | None:
        """Checks the sender before the body is read, and signs the answer."""
        purposes = READERS if match.route.pattern == READS.decode() else (Purpose.PEER,)
        address = "" if is_passed_on(request.headers) else request.socket_address
        proofs = has_cluster_certificate(request.scope), connection_key(request.scope)
        signature = signature_in(request.headers)
        try:
            request.sender = self._cluster.admit(
                purposes, request.method, request.target, signature, address, *proofs
            )
        except Forbidden as problem:
            audit(self._audit, match, request.scope, problem.status, request, problem)
            return problem_answer(problem)
        answer = await self._answer_of(match, request)
        if request.sender is not None and answer is not None:
            request.sender.sign(answer)
        return answer

    def _refused_post(self, problem: Forbidden, client: str, target: bytes) -> None:
        """Writes a refusal to the audit log, which the fast path does not write."""
        address = (client, 0) if client else None
        scope: Scope = {"method": "POST", "client": address, "headers": []}
        match = self._table.match(target)
        audit(self._audit, match, scope, problem.status, problem=problem, client=client)

    async def _answer_of(self, match: Match, request: Request) -> Answer | None:
        route = match.route
        try:
            request.identity = self._access.admit_request(route.access, request, match.name)
            request.is_admitted = partial(
                self._access.still_admits, route.access, request.headers, match.name
            )
            if route.methods and request.method not in route.methods:
                raise MethodNotAllowed(request.method, ", ".join(route.methods))
            pin(request, self._group.versions)
            if request.view is not None and route.access is Access.READ:
                self._quotas.admit(request.view, request.headers, request.scope.get("client"))
            answer = await self._call(request, route)
            status = request.status if answer is None else answer.status
            audit(self._audit, match, request.scope, status, request)
            return answer
        except CancelledError:
            audit(self._audit, match, request.scope, request.status, request, code=DISCONNECTED)
            raise
        except Exception as e:
            if request.was_started:
                end_early(request, route.label, e)
                return None
            if not isinstance(e, Problem):
                log.exception("%s %r", request.method, request.raw_path)
                e = internal_error()
            audit(self._audit, match, request.scope, e.status, request, e)
            if route.pattern == ADMIN and isinstance(e, Unauthenticated):
                return sign_in(request.header(b"accept") or b"", e) or problem_answer(e)
            if route.counts_reads:
                count_refusal(self._context.telemetry.counts[request.routed_view.name], e)
            return problem_answer(e)

    async def _call(self, request: Request, route: Route) -> Answer | None:
        """Reads the body of a POST, if the route has one, and calls the handler."""
        # whose share of this instance the request uses, here and on other instances
        set_sender(self._turns, *self._clients.assign(request, route.is_internal))
        if not route.body or request.method in _READ:
            async with route.gate:
                return await route.handler(request)
        # before the gate, so that a client that sends slowly keeps none of its places
        with self._budget(route).counted(request.receive) as counted:
            request.body = await read_body(counted, route.body)
            if request.sender is not None:
                request.sender.check_body(request.body)
            async with route.gate:
                return await route.handler(request)

    def _budget(self, route: Route) -> BodyBudget:
        if route.body <= _SMALL:
            return BodyBudget()
        return self._internal_bodies if route.is_internal else self._bodies

    async def _flask(self, kind: str, request: Request) -> None:
        """Answers a request for a page, through Flask."""
        length = request.header(b"content-length") or b"0"
        if not length.isdigit() or len(length) > 18 or int(length) > MAX_BODY:
            raise BadRequest("body-too-large", f"A body has {MAX_BODY} bytes at most.")
        # exactly the path that was matched
        scope = {**request.scope, "path": page_path(request.raw_path), PAGE_KIND: kind}
        await self._pages(scope, request.receive, request.send)

    def _extra(self, view: View | None) -> list[Header]:
        """The headers that streamed answers get."""
        view_headers = self._group.missing_headers(view)
        return [(b"topology-epoch", self._group.epoch_header), *view_headers]
