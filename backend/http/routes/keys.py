"""Requests that name a key: its value, its history, its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from urllib.parse import quote, urlencode

from backend.http.forwarding.coalesced_forwards import CoalescedForwards
from backend.http.forwarding.key_forwarding import ForwardableRequest, KeyForwarding, KeyQuery
from backend.http.limits.bodies import media_type, require_json
from backend.http.negotiation import chosen
from backend.http.parameters import (
    changes_parameters,
    key_bytes,
    point_parameters,
    search_parameters,
    span_parameters,
)
from backend.http.record_headers import RecordHeaders
from backend.http.representation import JSON, RECORD_VALUES, offered
from backend.http.request import Request
from backend.http.responses import KeyResponses, history_body
from backend.http.streams import Streams
from backend.http.view_versions import in_version_of_cursor, pinned_headers
from backend.instance.context import InstanceContext
from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.queries.history import History, HistoryPage, Span
from backend.queries.key_bodies import parse_search, record_key
from backend.queries.moved_keys import PartitionUnknown
from backend.queries.point import ViewReads
from backend.queries.retry import Asker
from backend.queries.routing import PLAIN, NotOwner, ReadOptions
from backend.queries.scans.any_partition import AnyPartitionReads
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import KEYS, refuse_store
from backend.queries.turns import next_turn
from backend.queries.versions import VersionedReads
from backend.wire.answer import JSON as JSON_TYPE
from backend.wire.answer import Answer, Header, code_of, unless_known
from backend.wire.scan import Query
from model.formats.base64url import to_base64url
from model.formats.registry import FORMATS
from model.problems import BadRequest, NotFound, Unavailable
from model.rows.unreadable import ValueUnreadable
from model.views import View

_EVENTS: list[Header] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx: pass every event on immediately
]
VIEW_PUSH = b"view-push"
_RECORD_BYTES = {
    b"application/octet-stream",
    *(name.encode() for f in FORMATS.values() for name in f.media_types),
}
_BASE64URL = b"encoding=base64url"


class KeyRoutes:
    """The handlers of `{path}/{key}`, of the paths below it, and of `search`."""

    def __init__(
        self,
        context: InstanceContext,
        responses: Mapping[str, KeyResponses],
        asker: Asker,
        any_partition: AnyPartitionReads,
        scatter_gather: ScatterGather,
    ) -> None:
        self._responses = responses
        with_history = [view for view in context.views.values() if view.kind.history is not None]
        self._histories = {view.name: History(responses[view.name].reads) for view in with_history}
        # the values are record bytes
        self._record_histories = {
            view.name: History(
                responses[view.name].reads,
                replace(view, value="bytes", value_schema=None, unwrap=None, null_deletes=None),
            )
            for view in with_history
        }
        self._streams = Streams(context.settings.max_streams)
        self._backlog_budget = BacklogBudget()
        self._context = context
        self._record_headers = RecordHeaders(context.kafka.record_reader)
        self._forwarding = KeyForwarding(context, asker, scatter_gather)
        self._all = any_partition

    @property
    def coalesced_forwards(self) -> CoalescedForwards:
        return self._forwarding.coalesced

    async def stop(self) -> None:
        self._record_headers.stop()
        await self._forwarding.stop()

    def drain(self) -> None:
        """Ends the streams, so that their clients reconnect to the instance that has the partition
        by then."""
        self._streams.end()

    def end_streams(self, condition: Callable[[Request], bool]) -> None:
        self._streams.end_where(condition)

    async def point(self, request: Request) -> Answer:
        responses = self._responses[request.routed_view.name]
        encoded, options = False, PLAIN
        if request.query:
            encoded, options = point_parameters(
                request.query, request.routed_view.kind.has_versions
            )
        key = _key_of(responses.reads, request.key, encoded)
        query = self._point(responses, key, options, request.headers)
        try:
            answer = unless_known(query.read(), request.headers)  # the usual case
        except (NotOwner, Unavailable):
            answer = await self._forwarding.answer(query, self._forwardable(request))
        if answer.record is not None:
            return await self._record_headers.added(responses.view, answer)
        if answer.status != 404 or encoded or (other := responses.reads.other_key(key)) is None:
            return answer
        forwardable = self._request_for_key(request, other)
        return await self._or_answer_for_key(answer, responses, other, options, forwardable)

    async def _or_answer_for_key(
        self,
        missing: Answer,
        responses: KeyResponses,
        other: bytes,
        options: ReadOptions,
        request: ForwardableRequest,
    ) -> Answer:
        """The answer for the other key that a text means (`Codec.other_key`), if the view has it;
        else `missing`. An instance that was asked by another one has only the key itself."""
        if request.is_forwarded:
            return missing
        query = self._point(responses, other, options, request.headers)
        answer = await self._answer(query, request)
        return missing if answer.status == 404 else answer

    async def _answer(self, query: KeyQuery, request: ForwardableRequest) -> Answer:
        """The answer to a point read, with the headers of the record if they are asked for."""
        answer = await self._forwarding.answer(query, request)
        if answer.record is None:
            return answer
        return await self._record_headers.added(query.reads.view, answer)

    def _request_for_key(
        self, request: Request, key: bytes, below: bytes = b""
    ) -> ForwardableRequest:
        """The same request for another key, whose text is its record bytes."""
        path = b"/views/%b/keys/%b%b" % (
            request.routed_view.base.encode(),
            quote(key).encode(),
            below,
        )
        headers = pinned_headers(request.headers, request.routed_view, self._context.group.versions)
        return ForwardableRequest(request.method, path, request.query, headers)

    async def search(self, request: Request) -> Answer:
        """A point read whose key is in the body."""
        await next_turn()  # it costs more than a read whose key is in the path
        view = request.routed_view
        responses = self._responses[view.name]
        reads = responses.reads
        is_raw = media_type(request.headers) in _RECORD_BYTES
        if is_raw:
            key = reads.parse_raw_key(request.body)
        else:
            require_json(request.headers)
            key = record_key(reads, *parse_search(request.body))
        options = search_parameters(request.query, view.kind.has_versions)
        query = self._point(responses, key, options, request.headers)
        forwardable = self._get(view, key, b"", request.headers, request.query)
        answer = await self._answer(query, forwardable)
        if answer.status != 404 or is_raw or (other := reads.other_key(key)) is None:
            return answer
        forwardable = self._get(view, other, b"", request.headers, request.query)
        return await self._or_answer_for_key(answer, responses, other, options, forwardable)

    async def record_value(self, view: View, key: bytes) -> Answer:
        """The record bytes of a key's value, as `Accept: application/octet-stream` gives them."""
        headers: list[Header] = [(b"accept", b"application/octet-stream")]
        query = self._point(self._responses[view.name], key, PLAIN, headers)
        return await self._forwarding.answer(query, self._get(view, key, b"", headers))

    async def history(self, request: Request) -> Answer:
        history = self._histories.get(request.routed_view.name)
        if history is None or request.more["rest"] != history.resource:
            return await self.unknown(request)
        encoded, options, span = span_parameters(request.query)
        as_records = request.header(b"accept") == RECORD_VALUES
        histories = self._record_histories if as_records else self._histories

        def parse(view: View) -> bytes:
            key = _key_of(self._responses[view.name].reads, request.key, encoded)
            version_history = histories.get(view.name)
            return (
                key
                if version_history is None
                else _key_of_cursor(version_history, key, span, encoded)
            )

        view, key = in_version_of_cursor(request, self._context.group.versions, parse)
        query = self._history(view, key, options, span, as_records)
        forwardable = self._forwardable(request)
        if span.cursor is not None:
            return await self._forwarding.answer(query, forwardable)
        answer = await self._forwarding.answer(query, forwardable)
        other = None if encoded else self._responses[view.name].reads.other_key(key)
        if other is None or forwardable.is_forwarded or not _is_empty(view, key, answer):
            return answer
        query = self._history(view, other, options, span, as_records)
        forwardable = self._request_for_key(request, other, b"/" + history.resource.encode())
        other_answer = await self._forwarding.answer(query, forwardable)
        return answer if _is_empty(view, other, other_answer) else other_answer

    async def record_history(self, view: View, key: bytes, span: Span) -> Answer:
        """A page of a key's history, with record bytes as values: `Accept: RECORD_VALUES`."""
        headers: list[Header] = [(b"accept", RECORD_VALUES)]
        query = self._history(view, key, PLAIN, span, as_records=True)
        below = b"/%b" % self._histories[view.name].resource.encode()
        forwardable = self._get(view, key, below, headers, _span_query(span))
        return await self._forwarding.answer(query, forwardable)

    async def unknown(self, request: Request) -> Answer:
        """Refuses any other path below a key."""
        history = self._histories.get(request.routed_view.name)
        raise NotFound(
            "no-such-resource",
            f"Unknown sub-resource of a key: {request.more['rest']!r}."
            f"{'' if history is None else f' This view has /{history.resource}.'}",
        )

    def _point(
        self, responses: KeyResponses, key: bytes, options: ReadOptions, headers: list[Header]
    ) -> KeyQuery:
        """The value of a key, in the representation that the client accepts. Raises
        NotAcceptable."""
        view = responses.view
        # only JSON can carry the times of an older version, the partitions of partial results, or
        # the headers of a record
        plain = options.as_of is None and not options.partials and not options.headers
        if (kind := chosen(headers, offered(view) if plain else (JSON,))) != JSON:
            options = replace(options, representation=kind)
        read: Callable[[], Answer] = partial(responses.point, key, options)
        if options.partials:
            refuse_store(view, KEYS)
            read = partial(_partition_unknown, view)
        read_all = partial(self._point_of_all, responses, key, options)
        return KeyQuery(responses.reads, options, read, read_all, key)

    async def _point_of_all(
        self, responses: KeyResponses, key: bytes, options: ReadOptions
    ) -> Answer:
        view, freshness = responses.view, Freshness()
        if options.headers:
            raise BadRequest(
                "bad-parameter",
                f"headers: keys of view {view.name} may be in any partition. Use partials=all to "
                f"see which records they have.",
            )
        if options.partials:
            items = await self._all.values(view, key, options.stale, freshness)
            return responses.partial_values(key, items, freshness)
        try:
            if options.as_of is None:
                entry = await self._all.newest(view, key, options, freshness)
                freshness.check(options)
                return responses.newest(key, entry, options.representation, freshness)
            assert isinstance(responses.reads, VersionedReads)
            version = await self._all.entries(
                view, key, Query(first=options.as_of, last=options.as_of, stale=options.stale),
                freshness, partial(responses.reads.version_at, key, options.as_of),
            )  # fmt: skip
        except ValueUnreadable as problem:
            freshness.check(options)
            return responses.unreadable(problem, responses.freshness(freshness))
        freshness.check(options)
        return responses.version(key, options.as_of, version, responses.freshness(freshness))

    def _history(
        self, view: View, key: bytes, options: ReadOptions, span: Span, as_records: bool
    ) -> KeyQuery:
        """A page of the windows, sessions or versions of a key; `as_records`: with record bytes as
        values."""
        responses = self._responses[view.name]
        history = (self._record_histories if as_records else self._histories)[view.name]
        content_type = (b"content-type", RECORD_VALUES) if as_records else JSON_TYPE
        wanted = history.wanted(span, options.stale)

        def read() -> Answer:
            state, page = history.read(key, options, span)
            return responses.history(key, page, responses.state_headers(state), content_type)

        async def read_all() -> Answer:
            freshness = Freshness()
            page_of = partial(history.page, key, span)
            page = await self._all.entries(view, key, wanted, freshness, page_of)
            freshness.check(options)
            return responses.history(key, page, responses.freshness(freshness), content_type)

        async def read_by_partition() -> Answer:
            freshness = Freshness()
            items = await self._all.entries_by_partition(
                view, key, wanted, freshness, partial(history.all_items, key, span)
            )
            return responses.partial_items(key, items, freshness)

        if options.partials:
            not_here = partial(_partition_unknown, view)
            return KeyQuery(responses.reads, options, not_here, read_by_partition)
        return KeyQuery(responses.reads, options, read, read_all)

    async def meant(self, view: View, key: bytes) -> bytes:
        """The key that the text of `key` means. That is `key` itself if the view has it, or if
        there is no other key (`Codec.other_key`); otherwise it is the other key. Raises
        Unavailable."""
        responses = self._responses[view.name]
        other = responses.reads.other_key(key)
        if other is None:
            return key
        query = self._point(responses, key, PLAIN, [])
        answer = await self._forwarding.answer(query, self._get(view, key, b"", []))
        if answer.status == 503:
            raise Unavailable(code_of(answer), "It is not known yet which of two keys is meant.")
        return other if answer.status == 404 else key

    def _forwardable(self, request: Request) -> ForwardableRequest:
        headers = pinned_headers(request.headers, request.routed_view, self._context.group.versions)
        return ForwardableRequest(request.method, request.raw_path, request.query, headers)

    def _get(
        self, view: View, key: bytes, below: bytes, headers: list[Header], query: bytes = b""
    ) -> ForwardableRequest:
        """A GET of the key with these record bytes; `below`: the rest of the path."""
        path = b"/views/%b/keys/%b%b" % (view.base.encode(), to_base64url(key), below)
        query = b"&".join(filter(None, (_BASE64URL, query)))
        headers = pinned_headers(headers, view, self._context.group.versions)
        return ForwardableRequest("GET", path, query, headers)

    async def changes(self, request: Request) -> None:
        """Streams the changes from this or another instance. Raises Problem if nothing was sent."""
        responses = self._responses[request.routed_view.name]
        reads = responses.reads
        with self._streams.place():
            encoded, timestamps = changes_parameters(request.query)
            key = _key_of(reads, request.key, encoded)
            last = request.header(b"last-event-id")
            last_push = request.header(VIEW_PUSH)
            forwardable = self._forwardable(request)
            if not encoded and not forwardable.is_forwarded:
                meant_key = await self.meant(request.routed_view, key)
                if meant_key != key:
                    key = meant_key
                    forwardable = self._request_for_key(request, key, b"/changes")
            follow = partial(Changes, reads, key, last, self._backlog_budget, last_push, timestamps)
            try:
                changes = await self._forwarding.read(follow, forwardable)
            except NotOwner as others:
                async with AsyncExitStack() as stack:
                    answer, chunks = await self._forwarding.begin_stream(
                        stack, reads, others, forwardable
                    )
                    await self._streams.run(answer, chunks, request)
                return
            headers = [*_EVENTS, *responses.state_headers(changes.state)]
            if changes.push:
                headers.append((VIEW_PUSH, changes.push))
            answer = Answer(200, headers, b"")
            await self._streams.run(answer, changes.events(), request)


def _span_query(span: Span) -> bytes:
    """The parameters of an ascending page: the inverse of `span_parameters`."""
    given = {"from": span.first, "to": span.last, "limit": span.limit, "cursor": span.cursor}
    return urlencode({name: value for name, value in given.items() if value is not None}).encode()


def _key_of(reads: ViewReads, text: bytes, encoded: bool) -> bytes:
    return reads.parse_raw_key(key_bytes(text)) if encoded else reads.parse_key(text)


def _key_of_cursor(history: History, key: bytes, span: Span, encoded: bool) -> bytes:
    """The key that the cursor, if there is one, comes from: `key` or its other key. Raises
    BadRequest."""
    other = None if encoded else history.other_key(key)
    if other is not None:
        try:
            history.check_cursor(key, span)
        except BadRequest:
            key = other
    history.check_cursor(key, span)
    return key


def _is_empty(view: View, key: bytes, answer: Answer) -> bool:
    """Whether the answer is a page without items, the last one."""
    return answer.status == 404 or answer.body == history_body(view, key, HistoryPage([], None))


def _partition_unknown(view: View) -> Answer:
    raise PartitionUnknown(view)
