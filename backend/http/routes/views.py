"""Questions about a whole view: pages and streams in key order, counts, the greatest, batches.

Parses and writes; what is asked of whom stands in `gathering` and `batches`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import orjson

from backend.cluster.peer_client import PeerClient
from backend.http.asgi import Receive, Scope, Send
from backend.http.bodies import read_body
from backend.http.negotiation import NDJSON, wants_lines
from backend.http.paths import Paths, ViewPath
from backend.ingest.protocols import Store
from backend.instance_context import InstanceContext
from backend.queries.batch import Batches, batch_options
from backend.queries.merged_entries import MergedEntries
from backend.queries.partial_answers import items_answer, values_answer
from backend.queries.partition_scan import PartitionScans
from backend.queries.point import ViewReads
from backend.queries.ranking import MOST_RANKED_BYTES, Best, Ranked, Ranking
from backend.queries.routing import PLAIN, ReadOptions
from backend.queries.scatter_gather import SCAN_PATH, Freshness, ScatterGather, for_view
from backend.queries.served_by import ServedBy
from backend.wire.answer import JSON, Answer, Header, freshness_headers, problem_answer
from backend.wire.cursor import encode_cursor
from backend.wire.scan import (
    KEYS,
    PARAMETERS,
    Page,
    Query,
    ScanResponse,
    choice,
    limit_of,
    parse_page,
    parse_parameters,
    refuse_custom,
    refuse_store,
    slices,
    stale_of,
)
from backend.wire.scan_codec import (
    BARE,
    COUNT,
    ENTRIES,
    ESTIMATE,
    MOST_ASK_BYTES,
    RAW,
    TOP,
    decode_request,
    encode_response,
)
from model.limits import MOST_BATCH_BYTES
from model.problems import BadRequest, MethodNotAllowed, Problem, Unavailable
from model.views import View

log = logging.getLogger(__name__)

Respond = Callable[[Answer, str, Send], Awaitable[None]]

BATCH_PATH = b"/internal/batch"
_MOST_INTERNAL = 9 << 20  # bytes of another instance's batch; older ones take 8 MiB of keys
# at once: scans hold a page of every owner, batches a body, other instances a page of our own
_MOST = {"scan": 64, "batch": 256, "internal": 256}
_PAGE_BUDGET = 1.0  # s, after which a page ends with what it has
_WALK_BUDGET = 50.0  # s for a count or a ranking: less than a proxy's patience
_STREAM_PAGE = 2_000
_WRITE = 1 << 16


class ViewRoutes:
    """Answers `/views/{view}/{resource}`, and other instances' questions."""

    def __init__(self, context: InstanceContext, paths: Paths, reads: dict[str, ViewReads]) -> None:
        self._context = context
        self._paths = paths
        self._reads = reads
        self._scans = PartitionScans(context)
        self._scatter_gather: ScatterGather | None = None
        self._batches: Batches | None = None
        self._under_way = dict.fromkeys(_MOST, 0)

    def start(self, peer_client: PeerClient) -> ScatterGather:
        self._scatter_gather = ScatterGather(self._context, self._scans, peer_client)
        self._batches = Batches(self._context, self._reads, peer_client, BATCH_PATH, self.point)
        return self._scatter_gather

    async def __call__(self, scope: Scope, receive: Receive, send: Send, respond: Respond) -> bool:
        """False: the path is not one of these, and nothing was done."""
        raw_path: bytes = scope["raw_path"]
        internal = raw_path in (SCAN_PATH, BATCH_PATH)
        found = None if internal else self._paths.view_path(raw_path)
        if found is None and not internal:
            return False
        method = scope["method"]
        answer: Answer | None
        kind = "internal" if found is None else "batch" if found.resource == "batch" else "scan"
        if self._under_way[kind] >= _MOST[kind]:
            answer = problem_answer(
                Unavailable("overloaded", "So many scans are under way already: ask again.")
            )
            await respond(answer, method, send)
            return True
        self._under_way[kind] += 1
        try:
            if found is None:
                answer = await self._asked(raw_path, method, receive)
            else:
                answer = await self._answer(found, scope, receive, send)
        except Problem as problem:
            answer = problem_answer(problem)
        except Exception:
            log.exception("%s %r", method, raw_path)
            answer = problem_answer(
                Problem("internal-error", "Unexpected error. See the log of the instance.")
            )
        finally:
            self._under_way[kind] -= 1
        if answer is not None:
            await respond(answer, method, send)
        return True

    async def _asked(self, raw_path: bytes, method: str, receive: Receive) -> Answer:
        """By another instance."""
        if method != "POST":
            raise MethodNotAllowed(method, "POST")
        assert self._batches is not None
        of_batch = raw_path == BATCH_PATH
        body = await read_body(receive, _MOST_INTERNAL if of_batch else MOST_ASK_BYTES)
        try:
            if of_batch:
                return await self._batches.asked(body)
            ask, partitions, after = decode_request(body)
        except ValueError as e:
            raise BadRequest("bad-request", f"The body is {e}.") from None
        if (view := self._context.views.get(ask.view)) is not None and ask.view_hash == view.hash:
            # what clients may not ask of a view, nobody may
            refuse_custom(view)
            if ask.what == TOP:
                refuse_store(view, KEYS)
        part = await self._scans.answer(ask, partitions, after)
        return Answer(200, [(b"content-type", b"application/octet-stream")], encode_response(part))

    async def _answer(
        self, found: ViewPath, scope: Scope, receive: Receive, send: Send
    ) -> Answer | None:
        """None where it was sent already."""
        view, resource, method = found.view, found.resource, scope["method"]
        allowed = ("POST",) if resource == "batch" else ("GET", "HEAD")
        if method not in allowed:
            raise MethodNotAllowed(method, ", ".join(allowed))
        raw_query: bytes = scope["query_string"]
        if resource == "batch":
            assert self._batches is not None
            refuse_store(view, KEYS)
            options = batch_options(raw_query)
            body = await read_body(receive, MOST_BATCH_BYTES)
            answer = await self._batches.answer(view, body, options)
            answer.headers += self._context.pipeline_headers(view)
            return answer
        kind = resource if resource in ("count", "top") else "page"
        if kind == "page" and method == "GET" and wants_lines(scope["headers"]):
            kind = "stream"
        scans, began = self._context.scans[view.name], time.monotonic()
        try:
            if kind == "count":
                return await self._count(view, raw_query)
            if kind == "top":
                return await self._top(view, raw_query)
            if kind == "page":
                return await self._page(view, resource, raw_query)
            await self._stream(view, resource, raw_query, send)
            return None
        finally:
            scans.asked[kind] += 1
            scans.seconds[kind] += time.monotonic() - began

    async def point(
        self,
        view: View,
        key: bytes,
        options: ReadOptions = PLAIN,
        answerers: ServedBy | None = None,
    ) -> Answer:
        """One key, asked of all partitions; of several entries the newest, or all that are partial
        results. Unavailable.

        The instances that read are added to `answerers`.
        """
        assert self._scatter_gather is not None
        low, high = view.layout.key_range(key, key)
        query = Query(low, high, stale=options.stale)
        freshness = Freshness(answerers=answerers or ServedBy())
        if options.partials:
            found = await self._scatter_gather.partials(view, query, freshness)
            return values_answer(view, key, found, self._state_headers(view, freshness))
        page = Page(query, 1, None)
        rows, reached = await self._scatter_gather.page(view, page, freshness, _PAGE_BUDGET, RAW)
        if not rows and reached is not None:
            raise Unavailable("took-too-long", "Not all partitions have answered in time.")
        value = rows[0][2] if rows else None
        headers = self._state_headers(view, freshness)
        return self._reads[view.name].gathered(key, value, options.representation, headers)

    async def of_key(
        self,
        view: View,
        key: bytes,
        query: Query,
        read: Callable[[Store, list[Header]], Answer],
    ) -> Answer:
        """What `read` finds among all that is stored of a key, in whichever partitions it is; what
        has expired there is left out, but for versions. `query`: the times, and whose answers
        will do."""
        assert self._scatter_gather is not None
        freshness = Freshness()
        entries = await self._scatter_gather.of_key(view, key, query, freshness)
        clock = freshness.stream_time if view.kind.has_versions else None
        store = MergedEntries(entries, clock)
        return read(cast(Store, store), self._state_headers(view, freshness))

    async def partials_of_key(
        self, view: View, key: bytes, query: Query, items_of: Callable[[Store], list[bytes]]
    ) -> Answer:
        """As `of_key`, of each partition by itself."""
        assert self._scatter_gather is not None
        low, high = view.layout.key_range(key, key)
        state = Freshness()
        asked = replace(query, low=low, high=high)
        found = await self._scatter_gather.partials(view, asked, state, ENTRIES)
        return items_answer(view, key, found, items_of, self._state_headers(view, state))

    async def _page(self, view: View, kind: str, raw_query: bytes) -> Answer:
        assert self._scatter_gather is not None
        page = parse_page(view, kind, raw_query)
        freshness = Freshness()
        rows, reached = await self._scatter_gather.page(view, page, freshness, _PAGE_BUDGET)
        next_ = b"null"
        if reached is not None:
            next_ = b'"%b"' % encode_cursor(page.query.question(view, kind), reached).encode()
        items = b",".join([item for _, _, item in rows])
        return Answer(
            200, self._headers(view, freshness), b'{"items":[%b],"next":%b}' % (items, next_)
        )

    async def _stream(self, view: View, kind: str, raw_query: bytes, send: Send) -> None:
        """A line an item. Fails before the first byte as a page does, and later by closing the
        connection without the end of the body: a client never takes a part for the whole."""
        assert self._scatter_gather is not None
        page = parse_page(view, kind, raw_query, stream=True)
        freshness = Freshness()
        size = min(page.limit or _STREAM_PAGE, _STREAM_PAGE)
        left = page.limit
        steps = self._scatter_gather.rows(view, page.query, size, page.after, freshness)
        started = False
        lines: list[bytes] = []
        held = 0
        try:
            async for rows, reached in steps:
                if not started:
                    epoch = (b"topology-epoch", self._context.epoch_header)
                    headers = [*self._headers(view, freshness, NDJSON), epoch]
                    await send({"type": "http.response.start", "status": 200, "headers": headers})
                    started = True
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                lines += [item for _, _, item in rows]
                held += sum([len(item) for _, _, item in rows])
                last = reached is None or left == 0
                if held >= _WRITE or last:
                    message = {"body": _lines(lines), "more_body": not last}
                    lines, held = [], 0
                    await send({"type": "http.response.body", **message})
                if last:
                    return
        except Exception as e:
            if not started:
                raise
            known = isinstance(e, Problem)
            log.warning(
                "a stream of %s of %s ends early: %r", kind, view.name, e, exc_info=not known
            )
        finally:
            await steps.aclose()

    async def _count(self, view: View, raw_query: bytes) -> Answer:
        assert self._scatter_gather is not None
        if view.is_custom:
            refuse_store(view, KEYS)
        parameters = parse_parameters(raw_query, PARAMETERS["count"])
        exact = choice(parameters, "exact", ("false", "true")) == "true"
        query = Query(stale=stale_of(parameters))
        scatter_gather, freshness = self._scatter_gather, Freshness()
        ask = for_view(view, scatter_gather.total(view), COUNT if exact else ESTIMATE, query)
        count = 0
        if not exact:
            for _, part in await scatter_gather.ask(ask, list(range(ask.total))):
                freshness.note(part)
                count += part.counted
        elif not self._context.held.is_scattered(view):

            async def take(part: ScanResponse) -> None:
                nonlocal count
                freshness.note(part)
                count += part.counted

            await scatter_gather.walk(ask, _WALK_BUDGET, take)
        if exact and (self._context.held.is_scattered(view) or freshness.scattered):
            # a key may be in two partitions: it counts once
            count = 0
            steps = scatter_gather.rows(view, query, _STREAM_PAGE, None, freshness, BARE)
            async for rows, _ in steps:
                count += len(rows)
        body = orjson.dumps({"count": count, "exact": exact})
        return Answer(200, self._headers(view, freshness), body)

    async def _top(self, view: View, raw_query: bytes) -> Answer:
        assert self._scatter_gather is not None
        refuse_store(view, KEYS)
        parameters = parse_parameters(raw_query, PARAMETERS["top"])
        descending = choice(parameters, "order", ("desc", "asc")) == "desc"
        limit = limit_of(parameters)
        by = _text(parameters, "by")
        ranks_of = Ranking(view, by, descending).of_items
        query = Query(stale=stale_of(parameters))
        scatter_gather, freshness = self._scatter_gather, Freshness()
        ask = for_view(
            view, scatter_gather.total(view), TOP, query, limit=limit, by=by, descending=descending
        )
        best = Best(limit, MOST_RANKED_BYTES)

        async def take(part: ScanResponse) -> None:
            freshness.note(part)
            ranked: list[Ranked] = []
            for rows in slices(part.rows):
                try:
                    ranks = ranks_of([item for _, _, item in rows])
                except (ValueError, KeyError, TypeError):  # another instance's, and no items
                    raise Unavailable("owner-unreachable", "An answer cannot be read.") from None
                ranked += [
                    (rank, key, item)
                    for rank, (key, _, item) in zip(ranks, rows, strict=True)
                    if rank is not None
                ]
                await asyncio.sleep(0)  # what was parsed may be large
            best.add(ranked, part.complete)

        scattered = self._context.held.is_scattered(view)
        if not scattered:
            await scatter_gather.walk(ask, _WALK_BUDGET, take)
        if scattered or freshness.scattered:
            # a key may be in two partitions: its newest entry counts
            best = Best(limit, MOST_RANKED_BYTES)
            async for rows, _ in scatter_gather.rows(view, query, _STREAM_PAGE, None, freshness):
                await take(ScanResponse(rows, lag=freshness.lag, staleness=freshness.staleness))
        if best.short:
            raise BadRequest(
                "too-many-entries",
                f"The first {limit} have more than {MOST_RANKED_BYTES >> 20} MiB together: ask for "
                f"limit={len(best.entries)}, or stream the view.",
            )
        body = b'{"items":[%b]}' % b",".join([item for _, _, item in best.entries])
        return Answer(200, self._headers(view, freshness), body)

    def _headers(
        self, view: View, freshness: Freshness, content_type: bytes = JSON[1]
    ) -> list[Header]:
        return [(b"content-type", content_type), *self._state_headers(view, freshness)]

    def _state_headers(self, view: View, freshness: Freshness) -> list[Header]:
        served_by = freshness.answerers.headers(self._context.settings.instance_id)
        pipeline = self._context.pipeline_headers(view)
        return [*freshness_headers(freshness.lag, freshness.staleness), *served_by, *pipeline]


def _lines(items: list[bytes]) -> bytes:
    body = b"\n".join([*items, b""])
    if body.count(b"\n") == len(items):
        return body
    # within a JSON document a line break is white space
    return b"".join([item.replace(b"\n", b" ") + b"\n" for item in items])


def _text(parameters: dict[str, bytes], name: str) -> str | None:
    raw = parameters.get(name)
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        raise BadRequest("bad-parameter", f"{name} is not UTF-8 text.") from None
