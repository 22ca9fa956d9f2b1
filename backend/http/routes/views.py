"""Queries of a whole view: pages and streams in key order, batches, and `VIEW_QUERIES`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

import orjson

from backend.http.limits.bodies import require_json
from backend.http.limits.gates import Gate
from backend.http.negotiation import ARROW, NDJSON, stream_type
from backend.http.parameters import (
    batch_parameters,
    page_parameters,
    parse_parameters,
    with_body,
)
from backend.http.request import Request
from backend.http.responses import (
    examined_headers,
    pipeline_headers,
    plan_header,
    plan_text,
    plans_of,
    state_headers,
)
from backend.http.route_table import Handler
from backend.http.view_versions import in_version_of_cursor
from backend.instance.context import QueryContext
from backend.queries.arrow.loading import can_load
from backend.queries.batch import Batches
from backend.queries.filters.by_value import condition_of_value
from backend.queries.filters.parameters import wants
from backend.queries.key_bodies import needs_exact, parse_batch
from backend.queries.page import Page, read_page, stream_page
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import KEYS, SESSIONS, WINDOWS, refuse_custom, refuse_store
from backend.queries.turns import next_turn
from backend.queries.whole_view.view_query import ViewQuery
from backend.wire.answer import JSON, Answer, Header
from backend.wire.scan import Query
from model.machine.extras import how_to_install
from model.problems import NotAcceptable, Unauthenticated
from model.views import View

_MAX_STREAMS = 32
_PLAN = b"application/vnd.queryable.plan+json"
_AS_SPACES = bytes.maketrans(b"\r\n", b"  ")
_WRITE = 1 << 16  # bytes of lines that are sent at once


class ViewRoutes:
    """The handlers of `/views/{view}/{resource}`."""

    def __init__(
        self, context: QueryContext, scatter_gather: ScatterGather, batches: Batches
    ) -> None:
        self._context = context
        # streams and pages share a gate: this one keeps places there for pages if clients do not
        # read their streams
        self._streams = Gate("streams of whole views", _MAX_STREAMS)
        self._scatter_gather = scatter_gather
        self._batches = batches

    async def keys(self, request: Request) -> Answer | None:
        return await self._page(request, KEYS)

    async def windows(self, request: Request) -> Answer | None:
        return await self._page(request, WINDOWS)

    async def sessions(self, request: Request) -> Answer | None:
        return await self._page(request, SESSIONS)

    async def _page(self, request: Request, resource: str) -> Answer | None:
        streamed = None if request.method == "HEAD" else stream_type(request.headers)
        if streamed is not None:
            with self._measured(request.routed_view, "stream"), self._streams:
                view, page = self._parse(request, resource, stream=True)
                if page.explain:
                    return await self._explained(view, page.query, page.partition)
                if streamed == ARROW:
                    await self._stream_columns(request, view, page)
                else:
                    await self._stream(request, view, page)
            return None
        with self._measured(request.routed_view, "page"):
            view, page = self._parse(request, resource)
            if page.explain:
                return await self._explained(view, page.query, page.partition)
            result = await read_page(self._scatter_gather, view, page)
        self._note_plans(view, page.query, result.freshness)
        next_ = b"null" if result.next is None else b'"%b"' % result.next.encode()
        body = b'{"items":[%b],"next":%b}' % (b",".join(result.items), next_)
        headers = self._headers(view, result.freshness)
        headers += examined_headers(page.query, result.freshness, page.offsets)
        return Answer(200, headers, body)

    async def entries(self, request: Request) -> Answer | None:
        """A page of the resource that the view's kind of store has."""
        resource = request.routed_view.kind.resource
        if resource is None:
            refuse_custom(request.routed_view)
        return await self._page(request, resource or KEYS)

    async def _explained(self, view: View, query: Query, partition: int | None = None) -> Answer:
        """How the query finds its entries."""
        freshness = Freshness()
        only = None if partition is None else [partition]
        entries = await self._scatter_gather.estimate(view, query, freshness, only)
        document = {
            "plan": plan_text(query, freshness),
            "partitions": self._scatter_gather.total(view) if partition is None else 1,
            "entries": entries,
            "filter": query.where,
        }
        headers = self._headers(view, freshness, _PLAN)
        headers += examined_headers(query, freshness, False)
        return Answer(200, headers, orjson.dumps(document))

    def _parse(self, request: Request, resource: str, stream: bool = False) -> tuple[View, Page]:
        """The version of the view, and the page of it that the request asks for. Raises
        BadRequest."""
        query = request.query
        if request.method == "POST":
            require_json(request.headers)
            query = with_body(query, request.body)
        return in_version_of_cursor(
            request,
            self._context.group.versions,
            lambda view: page_parameters(
                view, resource, query, stream, _value_of_field(request, view)
            ),
        )

    async def _stream(self, request: Request, view: View, page: Page) -> None:
        """Streams the items, one a line. An error before the first byte is answered as for a page.
        A later error ends the stream early: see `end_early`."""
        freshness = Freshness()
        steps = stream_page(self._scatter_gather, view, page, freshness)
        try:
            await self._send_lines(request, steps, freshness, page.query)
        finally:
            if request.was_started:
                self._note_plans(view, page.query, freshness)

    async def _stream_columns(self, request: Request, view: View, page: Page) -> None:
        """Streams record batches. Errors: as `_stream`."""
        if not await can_load():
            raise NotAcceptable(
                "not-acceptable",
                f"This instance has no pyarrow, which Arrow streams need. "
                f"{how_to_install('frames')}",
            )
        from backend.queries.arrow.stream import ColumnStream

        stream = ColumnStream(self._scatter_gather, view, page)
        await stream.begin()
        headers = self._headers(view, stream.freshness, ARROW)
        headers.append(plan_header(page.query, stream.freshness))

        async def send(message: bytes) -> None:
            if not request.is_admitted():
                raise Unauthenticated("The token has expired or was revoked.")
            await request.send({"type": "http.response.body", "body": message, "more_body": True})

        try:
            await request.send({"type": "http.response.start", "status": 200, "headers": headers})
            await stream.send(send)
            await request.send({"type": "http.response.body", "body": b""})
        finally:
            self._note_plans(view, page.query, stream.freshness)

    async def _send_lines(
        self,
        request: Request,
        steps: AsyncGenerator[tuple[list[bytes], bool]],
        freshness: Freshness,
        query: Query,
    ) -> None:
        lines: list[bytes] = []
        waiting = 0  # bytes
        async with aclosing(steps):
            async for items, last in steps:
                if not request.was_started:
                    headers = self._headers(request.routed_view, freshness, NDJSON)
                    headers.append(plan_header(query, freshness))
                    start = {"type": "http.response.start", "status": 200, "headers": headers}
                    await request.send(start)
                elif not request.is_admitted():
                    raise Unauthenticated("The token has expired or was revoked.")
                lines += items
                waiting += sum(map(len, items))
                if waiting >= _WRITE or last:
                    message = {"body": _lines(lines), "more_body": not last}
                    lines, waiting = [], 0
                    await request.send({"type": "http.response.body", **message})

    def reduction(self, query: ViewQuery) -> Handler:
        """The handler of a query that reduces the view."""
        for scans in self._context.telemetry.scans.values():
            scans.add_kind(query.name)

        async def handle(request: Request) -> Answer:
            view = request.routed_view
            with self._measured(view, query.name):
                parameters = parse_parameters(request.query, query.parameters)
                asked = query.asked(view, parameters)
                if wants(parameters, "explain"):
                    return await self._explained(view, asked)
                result = await query.answer(self._scatter_gather, view, parameters, asked)
            self._note_plans(view, asked, result.freshness)
            headers = self._headers(view, result.freshness)
            headers += examined_headers(asked, result.freshness, wants(parameters, "offsets"))
            return Answer(200, headers, result.body)

        return handle

    async def batch(self, request: Request) -> Answer:
        view = request.routed_view
        refuse_store(view, KEYS)
        require_json(request.headers)
        options = batch_parameters(request.query)
        await next_turn()
        asked = parse_batch(request.body, needs_exact(view))
        result = await self._batches.read(view, asked, options)
        served_by = result.answerers.headers(self._context.settings.instance_id)
        headers = [JSON, *served_by, *pipeline_headers(self._context, view)]
        return Answer(200, headers, b'{"items":[%b]}' % b",".join(result.items))

    @contextmanager
    def _measured(self, view: View, kind: str) -> Iterator[None]:
        """Counts the query and its time in the metrics."""
        scans, began = self._context.telemetry.scans[view.name], time.monotonic()
        try:
            yield
        finally:
            scans.requests[kind] += 1
            scans.seconds[kind] += time.monotonic() - began

    def _note_plans(self, view: View, query: Query, freshness: Freshness) -> None:
        """Counts an answer by how its entries were found."""
        self._context.telemetry.scans[view.name].note_plans(plans_of(query, freshness))

    def _headers(
        self, view: View, freshness: Freshness, content_type: bytes = JSON[1]
    ) -> list[Header]:
        return [(b"content-type", content_type), *state_headers(self._context, view, freshness)]


def _value_of_field(request: Request, view: View) -> str | None:
    """The condition in the path of `/views/{view}/by/{field}/{value}`; None for other paths."""
    if "field" not in request.more:
        return None
    return condition_of_value(view, request.more["field"], request.more["value"])


def _lines(items: list[bytes]) -> bytes:
    body = b"\n".join([*items, b""])
    if body.count(b"\n") == len(items) and b"\r" not in body:
        return body
    # within a JSON document a line break is white space; some readers end a line at each CR
    return b"".join([item.translate(_AS_SPACES) + b"\n" for item in items])
