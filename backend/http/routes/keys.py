"""Requests that name a key: its value, its history, its changes; from whichever instance has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from backend.cluster.peer_client import MARK
from backend.http.negotiation import chosen
from backend.http.parameters import (
    changes_parameters,
    key_bytes,
    point_parameters,
    search_parameters,
    span_parameters,
)
from backend.http.representation import JSON, offered
from backend.http.request import Request
from backend.http.responses import KeyResponses
from backend.http.streams import Streams
from backend.instance_context import InstanceContext
from backend.queries.batch import record_key
from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.queries.history import History
from backend.queries.key_bodies import parse_search
from backend.queries.point import ViewReads
from backend.queries.retry import Asker, Holder, Rounds, may_change
from backend.queries.routing import PLAIN, NotOwner, PartitionUnknown, ReadOptions
from backend.queries.scans.any_partition import AnyPartitionReads
from backend.queries.scans.scatter_gather import Freshness
from backend.queries.stores import KEYS, refuse_store
from backend.queries.versions import VersionedReads
from backend.wire.answer import Answer, Header, code_of, problem_answer, unless_known
from backend.wire.scan import Query
from model.formats.base64url import to_base64url
from model.formats.registry import FORMATS
from model.problems import NonRetryable, NotFound, Unavailable
from model.views import View

_T = TypeVar("_T")

_EVENTS: list[Header] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx: pass every event on at once
]
_RECORD_BYTES = {
    b"application/octet-stream",
    *(name.encode() for each in FORMATS.values() for name in each.media_types),
}


@dataclass(slots=True)
class _Question:
    """A question about one key. `ask_here` asks this instance, once; `ask_all` asks all partitions
    if the key may be in any."""

    reads: ViewReads
    options: ReadOptions
    ask_here: Callable[[], Answer]
    ask_all: Callable[[], Awaitable[Answer]]


@dataclass(slots=True)
class _Forward:
    """The request, as another instance gets it."""

    method: str
    path: bytes
    query: bytes
    headers: list[Header]

    @property
    def target(self) -> bytes:
        return self.path + b"?" + self.query if self.query else self.path

    @property
    def is_forwarded(self) -> bool:
        """Whether it came from another instance: then it is not passed on."""
        return any(name == MARK for name, _ in self.headers)


class KeyRoutes:
    """The handlers of `{path}/{key}`, of what is below it, and of `search`."""

    def __init__(self, context: InstanceContext, responses: Mapping[str, KeyResponses]) -> None:
        self._context = context
        self._responses = responses
        self._histories = {
            name: History(responses[name].reads)
            for name, view in context.views.items()
            if view.kind.history is not None
        }
        self._streams = Streams(context.settings.max_streams)
        self._backlog_budget = BacklogBudget()
        self._asker: Asker | None = None
        self._any_partition: AnyPartitionReads | None = None

    def start(self, asker: Asker, any_partition: AnyPartitionReads) -> None:
        self._asker = asker
        self._any_partition = any_partition

    def drain(self) -> None:
        """Ends the streams: their clients reconnect to the instance that has the partition then."""
        self._streams.end()

    async def point(self, request: Request) -> Answer:
        responses = self._responses[request.of.name]
        encoded, options = False, PLAIN
        if request.query:
            encoded, options = point_parameters(request.query, request.of.kind.has_versions)
        key = _key_of(responses.reads, request.key, encoded)
        question = self._point(responses, key, options, request)
        try:
            return unless_known(question.ask_here(), request.headers)  # most are here
        except (NotOwner, Unavailable):
            return await self._answer(question, _forward(request))

    async def search(self, request: Request) -> Answer:
        """A point read whose key is in the body."""
        view = request.of
        responses = self._responses[view.name]
        reads = responses.reads
        content_type = (request.header(b"content-type") or b"").split(b";")[0].strip()
        if content_type in _RECORD_BYTES:
            key = reads.parse_raw_key(request.body)
        else:
            key = record_key(reads, *parse_search(request.body))
        options = search_parameters(request.query, view.kind.has_versions)
        # other instances are asked as for any key
        path = f"/views/{view.name}/keys/".encode() + to_base64url(key)
        query = b"&".join(filter(None, (b"encoding=base64url", request.query)))
        question = self._point(responses, key, options, request)
        return await self._answer(question, _Forward("GET", path, query, request.headers))

    async def history(self, request: Request) -> Answer:
        view, history = request.of, self._histories.get(request.of.name)
        if history is None or request.more["rest"] != history.resource:
            return await self.unknown(request)
        encoded, options, span = span_parameters(request.query)
        responses = self._responses[view.name]
        key = _key_of(responses.reads, request.key, encoded)
        wanted = history.wanted(span, options.stale)

        def here() -> Answer:
            state, page = history.read(key, options, span)
            return responses.history(key, page, responses.state_headers(state))

        async def everywhere() -> Answer:
            freshness = Freshness()
            page_of = partial(history.page, key, span)
            page = await self._all.entries(view, key, wanted, freshness, page_of)
            return responses.history(key, page, responses.freshness(freshness))

        async def by_partition() -> Answer:
            freshness = Freshness()
            items = await self._all.entries_by_partition(
                view, key, wanted, freshness, partial(history.all_items, key, span)
            )
            return responses.partial_items(key, items, freshness)

        question = _Question(responses.reads, options, here, everywhere)
        if options.partials:
            not_here = partial(_ask_all_partitions, view, key)
            question = _Question(responses.reads, options, not_here, by_partition)
        return await self._answer(question, _forward(request))

    async def unknown(self, request: Request) -> Answer:
        """Any other path below a key."""
        history = self._histories.get(request.of.name)
        raise NotFound(
            "no-such-resource",
            f"Unknown sub-resource of a key: {request.more['rest']!r}."
            f"{'' if history is None else f' This view has /{history.resource}.'}",
        )

    def _point(
        self, responses: KeyResponses, key: bytes, options: ReadOptions, request: Request
    ) -> _Question:
        """The value of a key, in the form that the client accepts; NotAcceptable."""
        view = responses.view
        # an older version comes with its times, partial results with their partitions: only JSON
        # has room for them
        plain = options.as_of is None and not options.partials
        if (kind := chosen(request.headers, offered(view) if plain else (JSON,))) != JSON:
            options = replace(options, representation=kind)
        ask_here: Callable[[], Answer] = partial(responses.point, key, options)
        if options.partials:
            refuse_store(view, KEYS)
            ask_here = partial(_ask_all_partitions, view, key)
        ask_all = partial(self._ask_all, responses, key, options)
        return _Question(responses.reads, options, ask_here, ask_all)

    async def _ask_all(self, responses: KeyResponses, key: bytes, options: ReadOptions) -> Answer:
        view, freshness = responses.view, Freshness()
        if options.partials:
            items = await self._all.values(view, key, options.stale, freshness)
            return responses.partial_values(key, items, freshness)
        if options.as_of is None:
            value = await self._all.newest(view, key, options.stale, freshness)
            return responses.newest(key, value, options.representation, freshness)
        assert isinstance(responses.reads, VersionedReads)
        version = await self._all.entries(
            view, key, Query(stale=options.stale), freshness,
            partial(responses.reads.version_at, key, options.as_of),
        )  # fmt: skip
        return responses.version(key, options.as_of, version, responses.freshness(freshness))

    @property
    def _all(self) -> AnyPartitionReads:
        assert self._any_partition is not None
        return self._any_partition

    async def _answer(self, question: _Question, forward: _Forward) -> Answer:
        """From this instance, from another one, or from all partitions; Problem."""
        reads, options = question.reads, question.options
        rounds = self._rounds(forward)
        answer: Answer | None = None

        async def attempt() -> bool:
            # each time the map and the store partitions are looked up again
            nonlocal answer
            try:
                answer = await _ask_here(question.ask_here, rounds, forward)
            except PartitionUnknown:
                if options.bounded or reads.view.is_custom:
                    raise
                answer = await question.ask_all()
            except NotOwner as others:
                if options.redirect:
                    answer = _redirect(others, forward)
                    return False
                answer = await self._ask_other(reads, others, rounds, forward)
                return may_change(answer)
            return False

        await rounds.repeat(attempt)
        assert answer is not None
        return unless_known(answer, forward.headers)

    def _rounds(self, forward: _Forward) -> Rounds[Holder]:
        return Rounds(self._context.settings.wait_timeout, forward.is_forwarded)

    async def _ask_other(
        self, reads: ViewReads, others: NotOwner, rounds: Rounds[Holder], forward: _Forward
    ) -> Answer:
        """The answer of the next holder, or why it does not answer."""
        assert self._asker is not None
        reads.counts.forwarded += 1
        member, others_left = rounds.turn(others.partition, others.members)
        assert member is not None
        try:
            answer = await self._asker.ask(
                member, others_left, forward.method, forward.target, forward.headers
            )
        except Unavailable as unavailable:
            return problem_answer(unavailable)
        if answer.status == 503:
            rounds.refused(code_of(answer))
        return answer

    async def changes(self, request: Request) -> None:
        """Streams the changes, from here or from another instance; Problem if nothing was sent."""
        responses = self._responses[request.of.name]
        reads = responses.reads
        with self._streams.place():
            key = _key_of(reads, request.key, changes_parameters(request.query))
            last = request.header(b"last-event-id")
            forward = _forward(request)
            follow = partial(Changes, reads, key, last, self._backlog_budget)
            try:
                changes = await _ask_here(follow, self._rounds(forward), forward)
            except NotOwner as others:
                assert self._asker is not None
                reads.counts.forwarded += 1
                async with AsyncExitStack() as stack:
                    answer, chunks = await self._asker.begin_stream(
                        stack, others.partition, others.members, forward.target, forward.headers
                    )
                    await self._streams.run(answer, chunks, request.receive, request.send)
                return
            answer = Answer(200, [*_EVENTS, *responses.state_headers(changes.state)], b"")
            await self._streams.run(answer, changes.events(), request.receive, request.send)


async def _ask_here(ask: Callable[[], _T], rounds: Rounds[Holder], forward: _Forward) -> _T:
    """Asks this instance until the wait is over; NotOwner as soon as another one can be asked."""
    answer: _T
    refused: Unavailable | None = None
    is_forwarded = forward.is_forwarded

    async def attempt() -> bool:
        nonlocal answer, refused
        try:
            answer, refused = ask(), None
            return False
        except NotOwner as others:
            if not is_forwarded:
                raise
            refused = others.why
        except Unavailable as unavailable:
            refused = unavailable
        rounds.refused(refused.code)
        return not isinstance(refused, NonRetryable)

    await rounds.repeat(attempt)
    if refused is not None:
        raise refused
    return answer


def _forward(request: Request) -> _Forward:
    return _Forward(request.method, request.raw_path, request.query, request.headers)


def _key_of(reads: ViewReads, text: bytes, encoded: bool) -> bytes:
    return reads.parse_raw_key(key_bytes(text)) if encoded else reads.parse_key(text)


def _ask_all_partitions(view: View, key: bytes) -> Answer:
    raise PartitionUnknown(view, key)


def _redirect(others: NotOwner, forward: _Forward) -> Answer:
    member = others.member
    origin = f"http://{member.host}:{member.port}".encode()
    return Answer(307, [(b"location", b"%b%b?%b" % (origin, forward.path, forward.query))], b"")
