"""The ASGI application: the table of all routes, and what is done around every handler.

Bounds on requests in flight and on their bodies, methods, problems, Topology-Epoch and
Content-Length each have their one place here. What matches no route is Flask's (`flask_app`).
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from urllib.parse import unquote_to_bytes

from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.heartbeats import Heartbeats
from backend.cluster.peer_client import PeerClient
from backend.http.asgi import App, Message, Receive, Scope, Send
from backend.http.bodies import BodyBudget, read_body
from backend.http.gates import Gate
from backend.http.paths import Paths, of_absolute_form
from backend.http.request import Request
from backend.http.responses import KeyResponses
from backend.http.route_table import Match, Route, RouteTable
from backend.http.routes.append import AppendRoute
from backend.http.routes.internal import InternalRoutes
from backend.http.routes.keys import KeyRoutes
from backend.http.routes.point_batch import PointBatchRoute
from backend.http.routes.views import ViewRoutes
from backend.instance_context import InstanceContext
from backend.queries.batch import BATCH_PATH, Batches
from backend.queries.point import count_refusal
from backend.queries.point_by_kind import reads_of
from backend.queries.retry import Asker
from backend.queries.routing import NotOwner
from backend.queries.scans.any_partition import AnyPartitionReads
from backend.queries.scans.partition_scan import PartitionScans
from backend.queries.scans.scatter_gather import SCAN_PATH, ScatterGather
from backend.queries.turns import INSTANCES, Turns, set_sender
from backend.queries.whole_view.registry import VIEW_QUERIES
from backend.wire.answer import Answer, Header, problem_answer
from backend.wire.scan_codec import MAX_ASK_BYTES
from backend.wire.snapshot import PATH as COPY
from model.limits import MAX_BATCH_BYTES
from model.problems import (
    RETRY_ELSEWHERE_NO,
    BadRequest,
    MethodNotAllowed,
    Problem,
    Unavailable,
)

READS = "/internal/reads"

_READ, _GET, _POST = ("GET", "HEAD"), ("GET",), ("POST",)

MAX_BODY = 1 << 20
_PATIENCE = 2.0  # s that queries of whole views and batches wait for others to end
_MAX_BATCH_OF_PEER = 9 << 20  # bytes; older instances take 8 MiB of keys
_SIGNED_BYTES = 4096  # of a heartbeat, or a request for a copy: so small that no budget is needed

# A request with this header is from a proxy that asks the next holder on any 503. It sees only the
# status, so what no other holder can answer has a status of its own.
_FINAL_STATUS = b"queryable-final-status"
_NON_RETRYABLE = 530

log = logging.getLogger(__name__)


class Router:
    """Matches a request to its handler and sends the answer; `pages` gets all other requests."""

    def __init__(self, context: InstanceContext, pages: App) -> None:
        self._context = context
        self._pages = pages
        self._paths = Paths(context.views.values())
        self._reads = {name: reads_of(view, context) for name, view in context.views.items()}
        self._scans = PartitionScans(context, {query.name: query.reducer for query in VIEW_QUERIES})
        self._responses = {name: KeyResponses(of, context) for name, of in self._reads.items()}
        self._keys = KeyRoutes(context, self._responses)
        self._views = ViewRoutes(context)
        self._append = AppendRoute(context, self._reads)
        self._coalesced = PointBatchRoute(context, self._paths, self._responses, self.answer_now)
        self._internal = InternalRoutes(context, self._scans)
        # what instances ask one another finds room however much clients send
        self._bodies, self._internal_bodies = BodyBudget(), BodyBudget()
        most = context.settings.max_in_flight
        self._requests, self._coalesced_reads = Gate("requests", most), Gate("reads", most)
        # Flask's threads are few, so other requests wait
        self._documents, self._state = Gate("documents", 256), Gate("requests", 256)
        self._turns = Turns()
        self.routes = self._all_routes()
        self._table = RouteTable(self.routes, self._paths, context.views.values())
        self._peer_client: PeerClient | None = None
        self._heartbeat_client: PeerClient | None = None
        self._heartbeats: Heartbeats | None = None

    def _all_routes(self) -> tuple[Route, ...]:
        keys, views, internal = self._keys, self._views, self._internal
        requests = self._requests
        # A scan holds a page of every owner, a reduction groups or rows of every owner, a batch its
        # body, and a peer's scan a page of our own.
        scans, batches = Gate("scans", 64, _PATIENCE), Gate("batches", 128, _PATIENCE)
        reductions, of_peers = Gate("reductions", 8, _PATIENCE), Gate("scans", 256)
        own_bound = nullcontext()  # the handler bounds how many there are at once
        key = "{path}/{key}"  # of the view's own path, and of /views/{view}/keys
        return (
            # one key
            Route(_READ, key, keys.point, requests, counts_reads=True),
            Route(_READ, key + "/windows", keys.history, requests, counts_reads=True),
            Route(_READ, key + "/sessions", keys.history, requests, counts_reads=True),
            Route(_READ, key + "/versions", keys.history, requests, counts_reads=True),
            Route(_GET, key + "/changes", keys.changes, own_bound, counts_reads=True),
            Route(_READ, key + "/{rest}", keys.unknown, requests, counts_reads=True),
            # a whole view
            Route(_READ, "/views/{view}/keys", views.keys, scans),
            Route(_READ, "/views/{view}/windows", views.windows, scans),
            Route(_READ, "/views/{view}/sessions", views.sessions, scans),
            *(
                Route(_READ, f"/views/{{view}}/{q.name}", views.query(q), reductions)
                for q in VIEW_QUERIES
            ),
            Route(_POST, "/views/{view}/batch", views.batch, batches, MAX_BATCH_BYTES),
            Route(_POST, "/views/{view}/search", keys.search, requests, MAX_BODY, True),
            # writing
            Route(_POST, "/topics/{topic}/records", self._append.append, requests, MAX_BODY),
            # the proxy, and other instances
            Route(_POST, READS, self._coalesced.reads, self._coalesced_reads, MAX_BODY),
            Route(_POST, SCAN_PATH.decode(), internal.scan, of_peers, MAX_ASK_BYTES),
            Route(_POST, BATCH_PATH.decode(), internal.batch, of_peers, _MAX_BATCH_OF_PEER),
            Route(_POST, HEARTBEAT.decode(), internal.heartbeat, own_bound, _SIGNED_BYTES),
            Route(_POST, COPY, internal.copy, own_bound, _SIGNED_BYTES),
        )

    @property
    def keys(self) -> KeyRoutes:
        """For KIQR's dialect."""
        return self._keys

    def start(self, peer_client: PeerClient | None = None) -> ScatterGather:
        """In the event loop, before the first request; returns what asks all instances."""
        settings = self._context.settings
        of = settings.instance_id, settings.forward_timeout
        self._peer_client = peer_client or PeerClient(*of, streams=settings.max_streams)
        # a heartbeat never waits for a connection, however many others are in use
        self._heartbeat_client = peer_client or PeerClient(*of, connections=0)
        self._heartbeats = Heartbeats(
            self._context, self._heartbeat_client, settings.heartbeat_interval
        )
        scatter_gather = ScatterGather(self._context, self._scans, self._peer_client)
        any_partition = AnyPartitionReads(scatter_gather)
        batches = Batches(self._context, self._reads, self._peer_client, any_partition)
        self._keys.start(Asker(self._context, self._peer_client), any_partition)
        self._views.start(scatter_gather, batches)
        self._internal.start(batches, self._heartbeats)
        return scatter_gather

    def start_heartbeats(self) -> None:
        """In the event loop, after `start`."""
        assert self._heartbeats is not None
        self._heartbeats.start()

    async def stop(self) -> None:
        if self._heartbeats is not None:
            await self._heartbeats.stop()
        for client in (self._peer_client, self._heartbeat_client):
            if client is not None:
                await client.close()

    def drain(self) -> None:
        """Ends the streams: their clients reconnect to the instance that has the partition then.
        The other instances get a heartbeat at once."""
        self._keys.drain()
        if self._heartbeats is not None:
            self._heartbeats.beat_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path: bytes = scope["raw_path"]
        if raw_path[:1] != b"/" and (path := of_absolute_form(raw_path)) is not None:
            decoded = unquote_to_bytes(path).decode(errors="replace")
            scope, raw_path = {**scope, "raw_path": path, "path": decoded}, path
        if any(name == _FINAL_STATUS for name, _ in scope["headers"]):
            send = _with_final_status(send)
        try:
            match = self._table.match(raw_path)
        except BadRequest as problem:
            await self._send(problem_answer(problem), scope["method"], send)
            return
        if match is None:
            await self._pages_answer(scope, receive, send)
            return
        answer = await self._handle(match, scope, receive, send)
        if answer is not None:
            await self._send(answer, scope["method"], send)

    async def _handle(
        self, match: Match, scope: Scope, receive: Receive, send: Send
    ) -> Answer | None:
        """Calls the handler; None if it has sent its answer."""
        route = match.route
        request = Request(scope, receive, send, self._epoch(), match.view, match.key, match.more)
        try:
            if request.method not in route.methods:
                raise MethodNotAllowed(request.method, ", ".join(route.methods))
            set_sender(self._turns, INSTANCES if route.is_internal else _address(scope))
            if not route.body:
                await _room(route)
                with route.gate:
                    return await route.handler(request)
            # before the gate, so that a client that sends slowly keeps none of its places
            with self._budget(route).counted(receive) as counted:
                request.body = await read_body(counted, route.body)
                await _room(route)
                with route.gate:
                    return await route.handler(request)
        except Exception as e:
            if request.was_started:
                raise  # the connection is closed before the end of the body
            if not isinstance(e, Problem):
                log.exception("%s %r", request.method, request.raw_path)
                return problem_answer(_internal_error())
            if route.counts_reads:
                count_refusal(self._context.counts[request.of.name], e)
            return problem_answer(e)

    def _budget(self, route: Route) -> BodyBudget:
        if route.body <= _SIGNED_BYTES:
            return BodyBudget()
        return self._internal_bodies if route.is_internal else self._bodies

    def answer_now(self, raw_path: bytes) -> Answer | None:
        """The complete answer to a plain GET, if it is a point read that can be answered at once.

        None leaves the request to `__call__`: it has to wait, to ask others, or is refused.
        """
        try:
            found = self._paths.key_path(raw_path)
            if found is None or found.rest:
                return None
            responses = self._responses[found.view.name]
            answer = responses.point(responses.reads.parse_key(found.text))
        except (Problem, NotOwner):
            return None
        except Exception:
            log.exception("GET %r", raw_path)
            return None
        self._complete(answer, "GET")
        return answer

    def reads_now(self, body: bytes) -> Answer:
        """The complete answer to point reads that the proxy sends together."""
        try:
            answer = self._coalesced.answer(body)
        except Exception:
            log.exception("POST %s", READS)
            answer = problem_answer(_internal_error())
        self._complete(answer, "POST")
        return answer

    async def _pages_answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Flask's part."""
        length = next((v for n, v in scope["headers"] if n == b"content-length"), b"0")
        request = Request(scope, receive, send, self._epoch())
        try:
            if not length.isdigit() or len(length) > 18 or int(length) > MAX_BODY:
                raise BadRequest("body-too-large", f"A body has {MAX_BODY} bytes at most.")
            set_sender(self._turns, _address(scope))
            with self._state if is_state(scope["path"]) else self._documents:
                await self._pages(scope, receive, request.send)
        except (BadRequest, Unavailable) as problem:
            if request.was_started:
                raise
            await self._send(problem_answer(problem), scope["method"], send)

    def _epoch(self) -> Header:
        return (b"topology-epoch", self._context.epoch_header)

    def _complete(self, answer: Answer, method: str) -> None:
        headers = answer.headers
        if answer.status == 304:
            pass  # its length would be that of the body that is not sent
        elif method != "HEAD" or all(name != b"content-length" for name, _ in headers):
            headers.append((b"content-length", b"%d" % len(answer.body)))
        headers.append((b"topology-epoch", self._context.epoch_header))

    async def _send(self, answer: Answer, method: str, send: Send) -> None:
        self._complete(answer, method)
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        body = b"" if method == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})


async def _room(route: Route) -> None:
    if isinstance(route.gate, Gate):
        await route.gate.room()


def is_state(path: str) -> bool:
    """Whether proxies and supervisors ask for this document of Flask, so others must not delay
    it."""
    return path == "/processors" or path.startswith("/health/")


def _address(scope: Scope) -> str:
    """Of the client, without the port."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _with_final_status(send: Send) -> Send:
    """Sends a NonRetryable problem under a status of its own."""

    async def sending(message: Message) -> None:
        if message.get("status") == 503 and RETRY_ELSEWHERE_NO in message["headers"]:
            message["status"] = _NON_RETRYABLE
        await send(message)

    return sending


def _internal_error() -> Problem:
    return Problem("internal-error", "Unexpected error. See the log of the instance.")
