"""The ASGI application: keys in `keyed`, whole views in `queries`, everything else in Flask.

Bounds requests in flight, and their bodies.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.heartbeats import Heartbeats
from backend.cluster.peer_client import PeerClient
from backend.http.asgi import App, Receive, Scope, Send
from backend.http.bodies import BodyBudget, read_body
from backend.http.paths import Paths, of_absolute_form
from backend.http.routes.append import Appends
from backend.http.routes.keys import MAX_BODY, KeyRoutes
from backend.http.routes.point_batch import PATH as READS
from backend.http.routes.point_batch import PointBatchRoute
from backend.http.routes.snapshots import SnapshotSender
from backend.http.routes.views import ViewRoutes
from backend.instance_context import InstanceContext
from backend.queries.point_by_kind import reads_of
from backend.queries.routing import NotOwner
from backend.queries.scatter_gather import ScatterGather
from backend.wire import snapshot as copying
from backend.wire.answer import Answer, problem_answer
from model.problems import (
    RETRY_ELSEWHERE_NO,
    BadRequest,
    MethodNotAllowed,
    Problem,
    Unavailable,
)

_COPY = copying.PATH.encode()
_SIGNED_BYTES = 4096

# A request with this header is of a proxy that asks the next holder on any 503, which it has to
# decide by the status alone: what is hopeless it gets under another.
_FINAL_STATUS = b"queryable-final-status"
_HOPELESS = 530

log = logging.getLogger(__name__)


class Router:
    """Finds out who answers a path, and writes the answer; `pages` gets what is nobody else's."""

    def __init__(self, context: InstanceContext, pages: App) -> None:
        self._context = context
        self._pages = pages
        self._paths = Paths(context.views.values())
        self._reads = {name: reads_of(view, context) for name, view in context.views.items()}
        self._queries = ViewRoutes(context, self._paths, self._reads)
        self._keyed = KeyRoutes(context, self._reads, self._queries)
        self._appends = Appends(context, self._reads)
        self._peer_client: PeerClient | None = None
        self._beats: PeerClient | None = None
        self._heartbeats: Heartbeats | None = None
        self._copies = SnapshotSender(context)
        self._coalesced = PointBatchRoute(context, self._paths, self._reads, self.answer_now)
        # apart: what instances ask one another finds room however much clients send
        self._bodies, self._internal_bodies = BodyBudget(), BodyBudget()
        self._in_flight = 0
        self._max_in_flight = context.settings.max_in_flight

    def start(self, peer_client: PeerClient | None = None) -> ScatterGather:
        """In the event loop, before the first request; what asks all instances."""
        settings = self._context.settings
        of = settings.instance_id, settings.forward_timeout
        self._peer_client = peer_client or PeerClient(*of, streams=settings.max_streams)
        self._keyed.start(self._peer_client)
        # one a peer at a time: they wait for no connection, however many others are in use
        self._beats = peer_client or PeerClient(*of, connections=0)
        self._heartbeats = Heartbeats(
            self._context, self._beats, self._context.settings.heartbeat_interval
        )
        return self._queries.start(self._peer_client)

    def start_heartbeats(self) -> None:
        """In the event loop, after `start`."""
        assert self._heartbeats is not None
        self._heartbeats.start()

    async def stop(self) -> None:
        if self._heartbeats is not None:
            await self._heartbeats.stop()
        for peer_client in (self._peer_client, self._beats):
            if peer_client is not None:
                await peer_client.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path: bytes = scope["raw_path"]
        if raw_path[:1] != b"/" and (path := of_absolute_form(raw_path)) is not None:
            decoded = unquote_to_bytes(path).decode(errors="replace")
            scope, raw_path = {**scope, "raw_path": path, "path": decoded}, path
        if any(name == _FINAL_STATUS for name, _ in scope["headers"]):
            send = _told_apart(send)
        try:
            found = self._paths.key_path(raw_path)
        except BadRequest as problem:
            await self._send(problem_answer(problem), scope["method"], send)
            return
        if found is None:
            await self._other(scope, receive, send)
            return
        if found.rest == b"changes":
            refusal = await self._keyed.changes(found, raw_path, scope, receive, send)
            if refusal is not None:
                await self._send(refusal, scope["method"], send)
            return
        await self._bounded(self._keyed.answer(found, raw_path, scope), scope, send)

    async def _bounded(
        self, answering: Coroutine[Any, Any, Answer], scope: Scope, send: Send
    ) -> None:
        if self._in_flight >= self._max_in_flight:
            answering.close()
            answer = problem_answer(_overloaded(self._in_flight))
        else:
            self._in_flight += 1
            try:
                answer = await answering
            except Exception:
                log.exception("%s %r", scope["method"], scope["raw_path"])
                answer = problem_answer(_internal())
            finally:
                self._in_flight -= 1
        await self._send(answer, scope["method"], send)

    def answer_now(self, raw_path: bytes) -> Answer | None:
        """The complete answer to a plain GET, if it is a point read that can be answered at once.

        None leaves the request to `__call__`: all that waits, asks others, or is refused.
        """
        try:
            found = self._paths.key_path(raw_path)
            if found is None or found.rest:
                return None
            reads = self._reads[found.view.name]
            answer = reads.read(reads.parse_key(found.text))
        except (Problem, NotOwner):
            return None
        except Exception:
            log.exception("GET %r", raw_path)
            return None
        self._complete(answer, "GET")
        return answer

    def reads_now(self, body: bytes) -> Answer:
        """The complete answer to point reads that travel together."""
        try:
            answer = self._coalesced.answer(body)
        except Exception:
            log.exception("POST %r", READS)
            answer = problem_answer(_internal())
        self._complete(answer, "POST")
        return answer

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

    async def _together(self, scope: Scope, receive: Receive) -> Answer:
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(scope["method"], "POST")
            return self._coalesced.answer(await read_body(receive, MAX_BODY))
        except Problem as problem:
            return problem_answer(problem)

    async def _append(self, topic: str, scope: Scope, receive: Receive) -> Answer:
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(scope["method"], "POST")
            return await self._appends.answer(topic, await read_body(receive, MAX_BODY))
        except Problem as problem:
            return problem_answer(problem)

    def drain(self) -> None:
        """Ends the streams: their clients come back to whoever holds the partition then. Others
        hear of it at once."""
        self._keyed.drain()
        if self._heartbeats is not None:
            self._heartbeats.beat_all()

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """What may have a large body; False: it is none of these, and nothing was done."""
        if scope["raw_path"] == READS:
            await self._bounded(self._together(scope, receive), scope, send)
            return True
        topic = self._appends.topic_of(scope["raw_path"])
        if topic is not None:
            await self._bounded(self._append(topic, scope, receive), scope, send)
            return True
        found = self._paths.view_path(scope["raw_path"])
        if found is not None and found.resource == "search":
            await self._bounded(self._keyed.search(found.view, scope, receive), scope, send)
            return True
        return await self._queries(scope, receive, send, self._send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Questions about whole views; and Flask's part, with the epoch on every answer and a
        bound on every body."""
        if scope["raw_path"] == HEARTBEAT and scope["method"] == "POST":
            assert self._heartbeats is not None
            try:
                answer = self._heartbeats.answer(await read_body(receive, _SIGNED_BYTES))
            except Problem as e:
                answer = problem_answer(e)
            await self._send(answer, "POST", send)
            return
        if scope["raw_path"] == _COPY and scope["method"] == "POST":
            refused: Problem | None
            try:
                refused = await self._copies.answer(await read_body(receive, _SIGNED_BYTES), send)
            except Problem as e:
                refused = e
            if refused is not None:
                await self._send(problem_answer(refused), "POST", send)
            return
        internal = scope["raw_path"].startswith(b"/internal/")
        budget = self._internal_bodies if internal else self._bodies
        with budget.counted(receive) as receive_counted:
            if await self._with_body(scope, receive_counted, send):
                return
        length = next((v for n, v in scope["headers"] if n == b"content-length"), b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > MAX_BODY:
            problem = BadRequest("body-too-large", f"A body has {MAX_BODY} bytes at most.")
            await self._send(problem_answer(problem), scope["method"], send)
            return
        if self._in_flight >= self._max_in_flight:
            overloaded = problem_answer(_overloaded(self._in_flight))
            await self._send(overloaded, scope["method"], send)
            return

        async def send_with_epoch(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                epoch = (b"topology-epoch", self._context.epoch_header)
                message["headers"] = [*message["headers"], epoch]
            await send(message)

        self._in_flight += 1
        try:
            await self._pages(scope, receive, send_with_epoch)
        finally:
            self._in_flight -= 1


def _told_apart(send: Send) -> Send:
    """Sends what is hopeless under a status of its own."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message.get("status") == 503 and RETRY_ELSEWHERE_NO in message["headers"]:
            message["status"] = _HOPELESS
        await send(message)

    return sending


def _overloaded(in_flight: int) -> Unavailable:
    return Unavailable("overloaded", f"{in_flight} requests are being answered already.")


def _internal() -> Problem:
    return Problem("internal-error", "Unexpected error. See the log of the instance.")
