"""Requests that name a key: what is there, its history, its changes; wherever it is held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

from backend.cluster.peer_client import MARK, PeerClient
from backend.http.asgi import Receive, Scope, Send
from backend.http.bodies import read_body
from backend.http.negotiation import chosen
from backend.http.parameters import (
    changes_parameters,
    key_bytes,
    point_parameters,
    search_parameters,
    span_parameters,
)
from backend.http.paths import KeyPath
from backend.http.routes.views import ViewRoutes
from backend.http.streams import Streams
from backend.instance_context import InstanceContext
from backend.queries.batch import record_key
from backend.queries.change_backlog import Room
from backend.queries.changes import Changes
from backend.queries.history import History
from backend.queries.key_bodies import parse_search
from backend.queries.point import ViewReads, count_refusal
from backend.queries.representation import JSON, offered
from backend.queries.retry import Asker, Holder, Rounds, may_change
from backend.queries.routing import PLAIN, NotOwner, PartitionUnknown, ReadOptions
from backend.queries.versions import VersionedReads
from backend.wire.answer import Answer, Header, code_of, problem_answer, unless_known
from backend.wire.scan import KEYS, Query, refuse_store
from model.formats.codecs import to_base64url
from model.problems import (
    MethodNotAllowed,
    NonRetryable,
    NotFound,
    Problem,
    Unavailable,
)
from model.views import View

_T = TypeVar("_T")

Anywhere = Callable[[], Awaitable[Answer]]
"""The same question, to all partitions."""

Question = tuple[Callable[[], Answer], ReadOptions, Anywhere]
"""What asks this instance (it is called until there is an answer); the options; and what asks all
partitions."""

MAX_BODY = 1 << 20
_RECORD_BYTES = (b"application/octet-stream", b"application/avro", b"avro/binary")


class KeyRoutes:
    """All that stands below `{path}/{key}`, and `search`; waits for who can answer, asks owners."""

    def __init__(
        self, context: InstanceContext, reads: dict[str, ViewReads], queries: ViewRoutes
    ) -> None:
        self._context = context
        self._reads = reads
        self._queries = queries
        self._histories = {
            name: History(reads[name])
            for name, view in context.views.items()
            if view.kind.history is not None
        }
        self._streams = Streams(context.settings.max_streams)
        self._room = Room()
        self._asker: Asker | None = None

    def start(self, peer_client: PeerClient) -> None:
        self._asker = Asker(self._context, peer_client)

    def drain(self) -> None:
        """Ends the streams: their clients come back to whoever holds the partition then."""
        self._streams.end()

    async def answer(self, found: KeyPath, raw_path: bytes, scope: Scope) -> Answer:
        reads = self._reads[found.view.name]
        method = scope["method"]
        try:
            if method not in ("GET", "HEAD"):
                raise MethodNotAllowed(method, "GET, HEAD")
            ask, options, anywhere = self._question(reads, found, scope)
            return await self._told(reads, ask, options, anywhere, raw_path, scope)
        except Problem as problem:
            count_refusal(reads.counts, problem)
            return problem_answer(problem)

    def _question(self, reads: ViewReads, found: KeyPath, scope: Scope) -> Question:
        query: bytes = scope["query_string"]
        if not found.rest:
            encoded, options = False, PLAIN
            if query:
                encoded, options = point_parameters(query, reads.view.kind.has_versions)
            key = _key_of(reads, found.text, encoded)
            return self._point(reads, key, options, scope)
        history = self._histories.get(found.view.name)
        if history is None or found.rest != history.resource.encode():
            raise NotFound(
                "no-such-resource",
                f"There is no such thing below a key of this view"
                f"{'' if history is None else f'; there is /{history.resource}'}.",
            )
        encoded, options, span = span_parameters(query)
        key = _key_of(reads, found.text, encoded)
        if options.partials:
            of_each = partial(
                self._queries.partials_of_key,
                reads.view,
                key,
                history.wanted(span, options.stale),
                partial(history.all_items, key, span),
            )
            return partial(_asked_of_all, reads.view, key), options, of_each
        of_key = partial(
            self._queries.of_key,
            reads.view,
            key,
            history.wanted(span, options.stale),
            partial(history.page, key, span),
        )
        return partial(history.read, key, options, span), options, of_key

    def _point(self, reads: ViewReads, key: bytes, options: ReadOptions, scope: Scope) -> Question:
        """The value of a key, in the form that the reader accepts; NotAcceptable."""
        # what was valid once comes with its times, partial results with their places: JSON alone
        alone = options.as_of is None and not options.partials
        of = offered(reads.view) if alone else (JSON,)
        if (kind := chosen(scope["headers"], of)) != JSON:
            options = replace(options, representation=kind)
        return _read_of(reads, key, options), options, self._anywhere(reads, key, options)

    def _anywhere(self, reads: ViewReads, key: bytes, options: ReadOptions) -> Anywhere:
        if options.as_of is None:
            return partial(self._queries.point, reads.view, key, options)
        assert isinstance(reads, VersionedReads)
        read = partial(reads.read_gathered, key, options.as_of)
        query = Query(stale=options.stale)
        return partial(self._queries.of_key, reads.view, key, query, read)

    async def _told(
        self,
        reads: ViewReads,
        ask: Callable[[], Answer],
        options: ReadOptions,
        anywhere: Anywhere,
        raw_path: bytes,
        scope: Scope,
    ) -> Answer:
        """The answer, from wherever it is to be had; Problem."""
        rounds: Rounds[Holder] | None = None  # what is here needs none
        while True:
            try:
                answer = await self._until_here(ask, scope)
            except PartitionUnknown:
                if options.bounded or reads.view.is_custom:
                    raise
                answer = await anywhere()
                reads.count(answer)
            except NotOwner as elsewhere:
                if options.redirect:
                    return _redirect(elsewhere, raw_path, scope["query_string"])
                assert self._asker is not None
                rounds = rounds or self._asker.rounds()
                answer = await self._ask_other(reads, elsewhere, rounds, raw_path, scope)
                # each time the map and what is here are looked at anew
                if may_change(answer) and await rounds.again():
                    continue
            return unless_known(answer, scope["headers"])

    async def _until_here(self, ask: Callable[[], _T], scope: Scope) -> _T:
        """Try again until the wait is over; NotOwner as soon as there is an owner to ask."""
        rounds: Rounds[None] | None = None  # what can be answered at once needs none
        marked = any(name == MARK for name, _ in scope["headers"])
        while True:
            try:
                return ask()
            except NotOwner as elsewhere:
                if not marked:
                    raise
                unavailable = elsewhere.why
            except Unavailable as e:
                unavailable = e
            rounds = rounds or Rounds(self._context.settings.wait_timeout, marked)
            rounds.refused(unavailable.code)
            if isinstance(unavailable, NonRetryable) or not await rounds.again():
                raise unavailable

    async def _ask_other(
        self,
        reads: ViewReads,
        elsewhere: NotOwner,
        rounds: Rounds[Holder],
        raw_path: bytes,
        scope: Scope,
    ) -> Answer:
        """What the next of the holders answers, or why it does not."""
        assert self._asker is not None
        query: bytes = scope["query_string"]
        target = raw_path + b"?" + query if query else raw_path
        reads.counts.forwarded += 1
        member, others_left = rounds.turn(elsewhere.partition, elsewhere.members)
        assert member is not None
        try:
            answer = await self._asker.ask(
                member, others_left, scope["method"], target, scope["headers"]
            )
        except Unavailable as unavailable:
            return problem_answer(unavailable)
        if answer.status == 503:
            rounds.refused(code_of(answer))
        return answer

    async def changes(
        self, found: KeyPath, raw_path: bytes, scope: Scope, receive: Receive, send: Send
    ) -> Answer | None:
        """None where a stream was sent."""
        reads = self._reads[found.view.name]
        try:
            if scope["method"] != "GET":
                raise MethodNotAllowed(scope["method"], "GET")
            with self._streams.place():
                await self._stream(reads, found, raw_path, scope, receive, send)
        except Problem as problem:
            count_refusal(reads.counts, problem)
            return problem_answer(problem)
        return None

    async def _stream(
        self,
        reads: ViewReads,
        found: KeyPath,
        raw_path: bytes,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Sends the changes, or another instance's; Problem where nothing was sent."""
        headers: list[Header] = scope["headers"]
        epoch = (b"topology-epoch", self._context.epoch_header)
        query: bytes = scope["query_string"]
        key = _key_of(reads, found.text, changes_parameters(query))
        last = next((value for name, value in headers if name == b"last-event-id"), None)
        try:
            changes = await self._until_here(partial(Changes, reads, key, last, self._room), scope)
        except NotOwner as elsewhere:
            assert self._asker is not None
            reads.counts.forwarded += 1
            target = raw_path + b"?" + query if query else raw_path
            async with AsyncExitStack() as stack:
                answer, chunks = await self._asker.begin_stream(
                    stack, elsewhere.partition, elsewhere.members, target, headers
                )
                answer.headers.append(epoch)
                await self._streams.run(answer, chunks, receive, send)
            return
        answer = Answer(200, [*changes.headers, epoch], b"")
        await self._streams.run(answer, changes.events(), receive, send)

    async def search(self, view: View, scope: Scope, receive: Receive) -> Answer:
        """A point read whose key stands in the body."""
        reads = self._reads[view.name]
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(scope["method"], "POST")
            content_type = next((v for n, v in scope["headers"] if n == b"content-type"), b"")
            body = await read_body(receive, MAX_BODY)
            if content_type.split(b";")[0].strip() in _RECORD_BYTES:
                key = reads.parse_raw_key(body)
            else:
                key = record_key(reads, *parse_search(body))
            options = search_parameters(scope["query_string"], view.kind.has_versions)
            # others are asked as for any key
            target = f"/views/{view.name}/keys/".encode() + to_base64url(key)
            query = b"&".join(filter(None, (b"encoding=base64url", scope["query_string"])))
            as_get = {**scope, "method": "GET", "query_string": query}
            ask, options, anywhere = self._point(reads, key, options, as_get)
            return await self._told(reads, ask, options, anywhere, target, as_get)
        except Problem as problem:
            count_refusal(reads.counts, problem)
            return problem_answer(problem)


def _key_of(reads: ViewReads, text: bytes, encoded: bool) -> bytes:
    return reads.parse_raw_key(key_bytes(text)) if encoded else reads.parse_key(text)


def _read_of(reads: ViewReads, key: bytes, options: ReadOptions) -> Callable[[], Answer]:
    """Asks for what is there under a key."""
    if not options.partials:
        return partial(reads.read, key, options)
    refuse_store(reads.view, KEYS)
    return partial(_asked_of_all, reads.view, key)


def _asked_of_all(view: View, key: bytes) -> Answer:
    raise PartitionUnknown(view, key)


def _redirect(elsewhere: NotOwner, raw_path: bytes, query: bytes) -> Answer:
    member = elsewhere.member
    origin = f"http://{member.host}:{member.port}".encode()
    return Answer(307, [(b"location", b"%b%b?%b" % (origin, raw_path, query))], b"")
