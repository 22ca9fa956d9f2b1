"""The rows of an SQL statement."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from queryable.client.protocol.answers import Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.pagination import Pager
from queryable.client.protocol.parameters import Stale
from queryable.client.protocol.requests import json_post
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.transport import Call

_PATH = "/sql"
Row = dict[str, Any]


def sql(
    context: ClientContext,
    query: str,
    *parameters: Any,
    max_examined: int | None = None,
    offsets: bool = False,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Pager[Row]]:
    """The rows of a statement about one view, as dictionaries:
    `sql("select flight, delay from flights where dest = ?", "ATL")`.

    `parameters`: the values of `?`, in order: texts, numbers, booleans, or lists after `in`.
    `max_examined` bounds how many entries each request reads. `offsets`: `source.positions` has the
    positions of the partitions. `timeout` is for each page.
    """
    given = {"query": query, "parameters": parameters}
    options = {"max_examined": max_examined, "offsets": offsets or None, "stale": stale}
    body = {**given, **{name: value for name, value in options.items() if value is not None}}
    return _Pager(context, body, timeout)
    yield


class _Pager:
    """Follows the cursors of the pages."""

    def __init__(
        self, context: ClientContext, body: Mapping[str, Any], timeout: float | None
    ) -> None:
        self.source: Source | None = None
        self._context = context
        self._body = body
        self._timeout = timeout
        self._cursor: str | None = None
        self._is_done = False

    def next(self) -> Call[list[Row] | None]:
        if self._is_done:
            return None
        more = {} if self._cursor is None else {"cursor": self._cursor}
        body = json.dumps({**self._body, **more}).encode()
        deadline = self._context.deadline(self._timeout)
        request = json_post(_PATH, body, is_idempotent=True)
        response = yield from self._context.send(request, deadline)
        document = json_of(response)
        with decoding():
            rows = [dict(item) for item in document["items"]]
            self._cursor = document["next"]
        self.source = Source(response.headers)
        self._is_done = self._cursor is None
        return rows

    def close(self) -> Call[None]:
        self._is_done = True
        return
        yield
