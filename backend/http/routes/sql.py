"""`POST /sql`: a statement, answered by the path of its view that answers such queries.

So a statement has the access rules, limits, versions, metrics and headers of that path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.http.asgi import App, Message
from backend.http.limits.bodies import json_of, require_json
from backend.http.negotiation import NDJSON, wants_lines
from backend.http.request import Request
from backend.queries.sql.statement import StatementError, parse_statement
from backend.queries.sql.translation import EntryRows, GroupRows, page_size, rows_of
from backend.queries.turns import in_steps
from backend.wire.answer import FINAL_STATUS, Answer, Header
from model.problems import RETRY_ELSEWHERE_NO, BadRequest
from model.rows.json_members import members, value_end

MAX_PARAMETERS = 100
_CURSOR = re.compile(r"(?:([0-9]{1,15})\.)?([A-Za-z0-9_-]+)", re.ASCII)
_OWN = frozenset({b"content-type", b"content-length", b"topology-epoch", b"vary"})
_OF_BODY = frozenset({b"content-type", b"content-length", b"accept", FINAL_STATUS})


class _Body(BaseModel):
    """The body of a request. `parameters`: the values of `?`. The others are as for pages."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    query: str
    parameters: list[Any] = Field(default=[], max_length=MAX_PARAMETERS)
    cursor: str | None = None
    stale: str | None = None
    max_examined: int | None = None
    explain: bool = False
    offsets: bool = False


class SqlRoute:
    """The handler of `/sql`."""

    def __init__(self, app: App) -> None:
        """`app`: what answers the requests of clients."""
        self._app = app

    async def sql(self, request: Request) -> Answer | None:
        """Raises BadRequest."""
        require_json(request.headers)
        body = _parse(request.body)
        try:
            statement = parse_statement(body.query, body.parameters)
            rows = rows_of(statement)
        except StatementError as e:
            raise BadRequest("sql-unsupported", f"{str(e)[:1].upper()}{str(e)[1:]}.") from None
        left, cursor = _cursor(body.cursor, statement.limit)
        streams = wants_lines(request.headers) and not body.explain
        parameters = dict(rows.parameters)
        for name in ("stale", "max_examined"):
            if (value := getattr(body, name)) is not None:
                parameters[name] = value
        for name in ("explain", "offsets"):
            if getattr(body, name):
                parameters[name] = "true"
        if isinstance(rows, GroupRows):
            if cursor is not None:
                raise BadRequest("cursor-invalid", "All groups are in one answer.")
        else:
            if not streams or left is not None:
                parameters["limit"] = page_size(left) if not streams else max(left or 0, 1)
            if cursor is not None:
                parameters["cursor"] = cursor
        inner = _Inner(request, statement.view, rows, parameters, streams)
        return await inner.answer(self._app, left, body.explain)


class _Items(Iterator[bytes]):
    """The items of an answer, one after the other, in the JSON that a view's path gives."""

    _HEAD = b'{"items":['

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = len(self._HEAD)

    def __next__(self) -> bytes:
        if self._body[self._at : self._at + 1] == b"]":
            raise StopIteration
        end = value_end(self._body, self._at)
        item = self._body[self._at : end]
        self._at = end + (self._body[end : end + 1] == b",")
        return item

    def others(self) -> dict[str, bytes]:
        """The members after the items, which must have been read."""
        return members(b"{" + self._body[self._at + 1 :].removeprefix(b","))


class _Inner:
    """The request to the path of the view, and its answer."""

    def __init__(
        self,
        request: Request,
        view: str,
        rows: EntryRows | GroupRows,
        parameters: Mapping[str, str | int],
        streams: bool,
    ) -> None:
        self._request, self._rows = request, rows
        self._streams = streams and isinstance(rows, EntryRows) and rows.wants_any
        self._wants_lines = streams
        self._received = False
        self._status, self._headers = 0, list[Header]()
        self._body: list[bytes] = []
        path = f"/views/{quote(view, safe='@')}/{rows.resource}"
        self._content = b""
        headers = [header for header in request.headers if header[0] not in _OF_BODY]
        method, query = "GET", urlencode(parameters).encode()
        if isinstance(rows, EntryRows):
            method, query, self._content = "POST", b"", orjson.dumps(parameters)
            headers.append((b"content-type", b"application/json"))
        headers.append((b"accept", NDJSON if self._streams else b"application/json"))
        request.scope.setdefault("extensions", {})  # one for both: it says that a stream was cut
        self._scope = {
            **request.scope,
            "method": method,
            "path": f"/views/{view}/{rows.resource}",
            "raw_path": path.encode(),
            "query_string": query,
            "headers": headers,
        }

    async def answer(self, app: App, left: int | None, explain: bool) -> Answer | None:
        """None if it was sent as a stream. `left`: the number of rows that are still wanted."""
        await app(self._scope, self._receive, self._send)
        if self._request.was_started:
            return None
        body = b"".join(self._body)
        headers = self._kept_headers()
        if self._status != 200 or explain:
            is_final = RETRY_ELSEWHERE_NO in headers
            return Answer(self._status, [*headers, self._content_type()], body, is_final=is_final)
        items = _Items(body)
        if isinstance(self._rows, GroupRows):
            rows, next_ = await self._rows.rows(items), b"null"
            parts = items.others()
        else:
            # one at a time, because items may be large
            rows = [self._rows.row(item) async for [item] in in_steps(items, 1)]
            rows, parts = rows if left is None else rows[:left], items.others()
            next_ = _next(parts["next"], None if left is None else left - len(rows))
        if self._wants_lines:
            lines = b"".join([row + b"\n" for row in rows])
            return Answer(200, [*headers, (b"content-type", NDJSON)], lines)
        unreadable = parts.get("unreadable")
        more = b"" if unreadable is None else b',"unreadable":%b' % unreadable
        document = b'{"items":[%b],"next":%b%b}' % (b",".join(rows), next_, more)
        return Answer(200, [*headers, (b"content-type", b"application/json")], document)

    async def _receive(self) -> Message:
        if self._received:
            return await self._request.receive()
        self._received = True
        return {"type": "http.request", "body": self._content, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message["headers"])
            if self._streams and self._status == 200:
                headers = [*self._kept_headers(), (b"content-type", NDJSON)]
                await self._request.send({**message, "headers": headers})
        elif self._request.was_started:
            lines = message.get("body", b"").splitlines()
            assert isinstance(self._rows, EntryRows)
            rows = [self._rows.row(line) async for [line] in in_steps(lines, 1)]
            body = b"".join([row + b"\n" for row in rows])
            await self._request.send({**message, "body": body})
        else:
            self._body.append(message.get("body", b""))

    def _kept_headers(self) -> list[Header]:
        return [
            header
            for header in self._headers
            if header[0] not in _OWN and not header[0].startswith(b"access-control-")
        ]

    def _content_type(self) -> Header:
        return next(header for header in self._headers if header[0] == b"content-type")


def _parse(body: bytes) -> _Body:
    document = json_of(body)
    try:
        return _Body.model_validate(document)
    except ValidationError as e:
        error = e.errors()[0]
        name = ".".join(map(str, error["loc"])) or "the body"
        raise BadRequest(
            "bad-request",
            f'{name}: {error["msg"]}. The body is {{"query": "select …", "parameters": […]}}.',
        ) from None


def _cursor(text: str | None, limit: int | None) -> tuple[int | None, str | None]:
    """The number of rows that are still wanted, and the cursor of the page."""
    if text is None:
        return limit, None
    match = _CURSOR.fullmatch(text)
    if match is None or (match[1] is None) != (limit is None):
        raise BadRequest("cursor-invalid", "The cursor is not of this statement.")
    return None if limit is None else min(int(match[1]), limit), match[2]


def _next(cursor: bytes, left: int | None) -> bytes:
    """The cursor in the answer, as JSON."""
    if cursor == b"null" or left == 0:
        return b"null"
    return cursor if left is None else b'"%d.%b' % (left, cursor[1:])
