"""The ASGI application: point reads here, whole views in `queries`, everything else in Flask.

Bounds what waits: requests in flight, bodies, and the time that a read waits for somebody who can
answer it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from backend.api.answer import Answer, Header, problem_answer, unless_known
from backend.api.batches import record_key
from backend.api.changes import Changes
from backend.api.custom_reads import CustomReads
from backend.api.forwarding import MARK, Forwarder
from backend.api.histories import HISTORIES
from backend.api.parameters import (
    changes_parameters,
    key_bytes,
    point_parameters,
    span_parameters,
)
from backend.api.queries import Queries, read_body
from backend.api.reads import (
    PLAIN,
    Elsewhere,
    Everywhere,
    ReadOptions,
    ViewReads,
    WrongStoreReads,
    count_refusal,
)
from backend.api.representations import JSON, chosen, offered
from backend.api.serving import Serving
from backend.api.streams import Streams
from backend.api.versions import VersionedReads
from backend.core.batch import parse_search
from backend.core.codecs import to_base64url
from backend.core.errors import BadRequest, MethodNotAllowed, NotFound, Problem, Unavailable
from backend.core.paths import KeyPath, Paths
from backend.core.views import View

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_T = TypeVar("_T")

_WAIT_STEP = 0.02
_MAX_BODY = 1 << 20
_RECORD_BYTES = (b"application/octet-stream", b"application/avro", b"avro/binary")


_READS: dict[str, type[ViewReads]] = {
    "versioned": VersionedReads,
    "window": WrongStoreReads,
    "session": WrongStoreReads,
}


class Shell:
    """Answers key paths itself and hands the rest to `pages`."""

    def __init__(self, serving: Serving, pages: App) -> None:
        self._serving = serving
        self._pages = pages
        self._paths = Paths(serving.views.values())
        self._reads = {
            name: CustomReads(view, serving)
            if view.is_custom
            else _READS.get(view.store, ViewReads)(view, serving)
            for name, view in serving.views.items()
        }
        self._histories = {
            name: HISTORIES[view.store](self._reads[name])
            for name, view in serving.views.items()
            if view.store in HISTORIES
        }
        self._queries = Queries(serving, self._paths, self._reads)
        self._forwarder: Forwarder | None = None
        self._streams = Streams(serving.settings.max_streams)
        self._in_flight = 0
        self._max_in_flight = serving.settings.max_in_flight
        self._wait_steps = round(serving.settings.wait_timeout / _WAIT_STEP)

    def start(self) -> None:
        """In the event loop, before the first request."""
        settings = self._serving.settings
        self._forwarder = Forwarder(settings.instance_id, settings.forward_timeout)
        self._queries.start(self._forwarder)

    async def stop(self) -> None:
        if self._forwarder is not None:
            await self._forwarder.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path: bytes = scope["raw_path"]
        try:
            found = self._paths.key_path(raw_path)
        except BadRequest as problem:
            await self._send(problem_answer(problem), scope["method"], send)
            return
        if found is None:
            await self._other(scope, receive, send)
            return
        if found.rest == b"changes":
            await self._changes(found, raw_path, scope, receive, send)
            return
        await self._bounded(self._key(found, raw_path, scope), scope, send)

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
        except (Problem, Elsewhere):
            return None
        except Exception:
            log.exception("GET %r", raw_path)
            return None
        self._complete(answer, "GET")
        return answer

    def _complete(self, answer: Answer, method: str) -> None:
        headers = answer.headers
        if answer.status == 304:
            pass  # its length would be that of the body that is not sent
        elif method != "HEAD" or all(name != b"content-length" for name, _ in headers):
            headers.append((b"content-length", b"%d" % len(answer.body)))
        headers.append((b"topology-epoch", self._serving.epoch_header))

    async def _send(self, answer: Answer, method: str, send: Send) -> None:
        self._complete(answer, method)
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        body = b"" if method == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    async def _key(self, found: KeyPath, raw_path: bytes, scope: Scope) -> Answer:
        reads = self._reads[found.view.name]
        method = scope["method"]
        try:
            if method not in ("GET", "HEAD"):
                raise MethodNotAllowed(method, "GET, HEAD")
            ask, options = self._question(reads, found, scope)
            try:
                answer = ask()
            except (Elsewhere, Unavailable):
                answer = await self._not_here(reads, ask, options, raw_path, scope)
        except Problem as problem:
            count_refusal(reads.counts, problem)
            return problem_answer(problem)
        return unless_known(answer, scope["headers"])

    def _question(
        self, reads: ViewReads, found: KeyPath, scope: Scope
    ) -> tuple[Callable[[], Answer], ReadOptions]:
        """What is asked: to be called until there is an answer."""
        query: bytes = scope["query_string"]
        if not found.rest:
            encoded, options = False, PLAIN
            if query:
                encoded, options = point_parameters(query, reads.view.store == "versioned")
            # what was valid once is told with its times, in JSON alone
            of = offered(reads.view) if options.as_of is None else (JSON,)
            if (kind := chosen(scope["headers"], of)) != JSON:
                options = replace(options, representation=kind)
            return partial(reads.read, _key_of(reads, found.text, encoded), options), options
        history = self._histories.get(found.view.name)
        if history is None or found.rest != history.resource.encode():
            raise NotFound(
                "no-such-resource",
                f"There is no such thing below a key of this view"
                f"{'' if history is None else f'; there is /{history.resource}'}.",
            )
        encoded, options, span = span_parameters(query)
        key = _key_of(reads, found.text, encoded)
        return partial(history.read, key, options, span), options

    async def _not_here(
        self,
        reads: ViewReads,
        ask: Callable[[], Answer],
        options: ReadOptions,
        raw_path: bytes,
        scope: Scope,
    ) -> Answer:
        try:
            return await self._until_here(ask, scope)
        except Everywhere as everywhere:
            if not options.plain or reads.view.is_custom:
                raise
            answer = await self._queries.point(reads.view, everywhere.key, options.stale_allowed)
            reads.counts.found += answer.status == 200
            reads.counts.missed += answer.status == 404
            return answer
        except Elsewhere as elsewhere:
            if options.redirect:
                return _redirect(elsewhere, raw_path, scope["query_string"])
            return await self._forward(reads, elsewhere, raw_path, scope)

    async def _until_here(self, ask: Callable[[], _T], scope: Scope) -> _T:
        """Try again until the wait is over; Elsewhere as soon as there is an owner to ask."""
        marked = any(name == MARK for name, _ in scope["headers"])
        for step in range(self._wait_steps + 1):
            try:
                return ask()
            except Elsewhere as elsewhere:
                if not marked:
                    raise
                if step == self._wait_steps:
                    raise Unavailable(
                        "not-here",
                        f"Another instance sent this here, but {elsewhere.member.id} holds the "
                        f"key's partition as of epoch {self._serving.topology.epoch}.",
                    ) from None
            except Unavailable as unavailable:
                if step == self._wait_steps or unavailable.code in _HOPELESS:
                    raise
            await asyncio.sleep(_WAIT_STEP)
        raise AssertionError("the last step answers or raises")

    async def _changes(
        self, found: KeyPath, raw_path: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        reads = self._reads[found.view.name]
        headers: list[Header] = scope["headers"]
        try:
            if scope["method"] != "GET":
                raise MethodNotAllowed(scope["method"], "GET")
            self._streams.check()
            encoded = changes_parameters(scope["query_string"])
            key = _key_of(reads, found.text, encoded)
            last = next((value for name, value in headers if name == b"last-event-id"), None)
            try:
                changes = await self._until_here(partial(Changes, reads, key, last), scope)
            except Elsewhere as elsewhere:
                assert self._forwarder is not None
                reads.counts.forwarded += 1
                query: bytes = scope["query_string"]
                target = raw_path + b"?" + query if query else raw_path
                async with self._forwarder.stream(elsewhere.member, target, headers) as (
                    answer,
                    chunks,
                ):
                    answer.headers.append((b"topology-epoch", self._serving.epoch_header))
                    await self._streams.run(answer, chunks, receive, send)
                return
        except Problem as problem:
            count_refusal(reads.counts, problem)
            await self._send(problem_answer(problem), scope["method"], send)
            return
        answer = Answer(200, changes.headers, b"")
        answer.headers.append((b"topology-epoch", self._serving.epoch_header))
        await self._streams.run(answer, changes.events(), receive, send)

    async def _search(self, view: View, scope: Scope, receive: Receive) -> Answer:
        """A point read whose key stands in the body."""
        reads = self._reads[view.name]
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(scope["method"], "POST")
            content_type = next((v for n, v in scope["headers"] if n == b"content-type"), b"")
            body = await read_body(receive, _MAX_BODY)
            if content_type.split(b";")[0].strip() in _RECORD_BYTES:
                key = reads.parse_raw_key(body)
            else:
                key = record_key(reads, *parse_search(body))
            _, options = point_parameters(scope["query_string"], view.store == "versioned")
            options = replace(options, redirect=False)  # to a GET, it would take the key along
            ask = partial(reads.read, key, options)
            # others are asked as for any key
            target = f"/views/{view.name}/keys/".encode() + to_base64url(key)
            query = b"&".join(filter(None, (b"encoding=base64url", scope["query_string"])))
            as_get = {**scope, "method": "GET", "query_string": query}
            try:
                answer = ask()
            except (Elsewhere, Unavailable):
                answer = await self._not_here(reads, ask, options, target, as_get)
        except Problem as problem:
            count_refusal(reads.counts, problem)
            return problem_answer(problem)
        return unless_known(answer, scope["headers"])

    def drain(self) -> None:
        """Ends the streams: their clients come back to whoever holds the partition then."""
        self._streams.end()

    async def _forward(
        self, reads: ViewReads, elsewhere: Elsewhere, raw_path: bytes, scope: Scope
    ) -> Answer:
        assert self._forwarder is not None
        reads.counts.forwarded += 1
        query: bytes = scope["query_string"]
        target = raw_path + b"?" + query if query else raw_path
        return await self._forwarder.forward(
            elsewhere.member, scope["method"], target, scope["headers"]
        )

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Questions about whole views; and Flask's part, with the epoch on every answer and a
        bound on every body."""
        found = self._paths.view_path(scope["raw_path"])
        if found is not None and found.resource == "search":
            await self._bounded(self._search(found.view, scope, receive), scope, send)
            return
        if await self._queries(scope, receive, send, self._send):
            return
        length = next((v for n, v in scope["headers"] if n == b"content-length"), b"0")
        if not length.isdigit() or int(length) > _MAX_BODY:
            problem = BadRequest("body-too-large", f"A body has {_MAX_BODY} bytes at most.")
            await self._send(problem_answer(problem), scope["method"], send)
            return
        if self._in_flight >= self._max_in_flight:
            overloaded = problem_answer(_overloaded(self._in_flight))
            await self._send(overloaded, scope["method"], send)
            return

        async def send_with_epoch(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                epoch = (b"topology-epoch", self._serving.epoch_header)
                message["headers"] = [*message["headers"], epoch]
            await send(message)

        self._in_flight += 1
        try:
            await self._pages(scope, receive, send_with_epoch)
        finally:
            self._in_flight -= 1


# Waiting does not help: these need a person.
_HOPELESS = frozenset(("mis-partitioned", "repartitioned"))


def _key_of(reads: ViewReads, text: bytes, encoded: bool) -> bytes:
    return reads.parse_raw_key(key_bytes(text)) if encoded else reads.parse_key(text)


def _redirect(elsewhere: Elsewhere, raw_path: bytes, query: bytes) -> Answer:
    member = elsewhere.member
    origin = f"http://{member.host}:{member.port}".encode()
    return Answer(307, [(b"location", b"%b%b?%b" % (origin, raw_path, query))], b"")


def _overloaded(in_flight: int) -> Unavailable:
    return Unavailable("overloaded", f"{in_flight} requests are being answered already.")


def _internal() -> Problem:
    return Problem("internal-error", "This should not happen; the instance's log says more.")
