"""What the tools for agents do. All of them only read, and their answers are small: an agent has
to read them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from model.formats.json_encoder import encode_json
from model.kinds.registry import kind_of
from queryable.cli.description.declaration import declaration_of
from queryable.cli.values import json_value
from queryable.client.async_client import AsyncClient
from queryable.client.protocol.answers import Source, Unreadable
from queryable.client.protocol.errors import BadUse, QueryableError
from queryable.client.protocol.views import View

MAX_ROWS = 200
MAX_BYTES = 64 << 10  # of rows, as JSON
_MAX_VIEWS = 200
_SAMPLE = 100  # rows from which types are inferred
_EXAMPLES = 3
_MAX_EXAMPLE = 4 << 10  # bytes of a row
_AT_ONCE = 8  # requests

Document = dict[str, Any]


async def list_views(client: AsyncClient) -> Document:
    """The views, with their number of entries: an estimate if there are many; None if the token may
    not read the view, or if an instance is missing."""
    views = sorted(await client.views(), key=lambda view: view.name)
    requests = asyncio.Semaphore(_AT_ONCE)

    async def summary(view: View) -> Document:
        async with requests:
            entries = await _entries(client, view)
        return {**_summary(view), "entries": entries}

    listed = await asyncio.gather(*map(summary, views[:_MAX_VIEWS]))
    more = len(views) - len(listed)
    return {"views": listed, **({"left_out": f"{more} more views"} if more else {})}


async def describe_view(client: AsyncClient, name: str) -> Document:
    """The columns of a view, with their types, its indexes, examples of its rows, and how fresh
    they are. Raises QueryableError."""
    view = await client.view(name)
    rows, source = await _rows(client, f"select * from {_quoted(name)} limit {_SAMPLE}", ())
    declared = view.description.get("fields", {})
    samples = [row for row in rows if "unreadable" not in row]
    inferred = {
        field.name: field.type or field.note
        for field in declaration_of(samples, ()).fields
        if field.name not in declared
    }
    return {
        **_summary(view),
        "entries": await _entries(client, view),
        **_columns({**declared, **inferred}),
        "columns_from": f"the declaration, and the first {len(rows)} rows"
        if declared
        else f"the first {len(rows)} rows: other rows may have other columns",
        "indexes": view.description.get("indexes", {}),
        "examples": [row for row in samples if len(encode_json(row)) <= _MAX_EXAMPLE][:_EXAMPLES],
        **_freshness(source),
    }


async def get(client: AsyncClient, name: str, key: Any) -> Document:
    """The value of a key. Raises QueryableError."""
    view = await client.view(name)
    if not kind_of(view.store).has_points:
        raise BadUse(
            f"View {name} has a {view.store} store, so a key has several entries: use query, with "
            f"select * from {_quoted(name)} where key = ?."
        )
    answer = await client.get(name, key)
    if not answer.found:
        return {"found": False, "meaning": "the key does not exist", **_freshness(answer)}
    if isinstance(answer.value, Unreadable):
        return {"found": True, "unreadable": answer.value.to_json(), **_freshness(answer)}
    value = json_value(answer.value)
    size = len(encode_json(value))
    if size > MAX_BYTES:
        raise BadUse(
            f"The value has {size:,} bytes, more than {MAX_BYTES:,}: use query, and select some of "
            "its fields."
        )
    return {"found": True, "value": value, **_freshness(answer)}


async def query(client: AsyncClient, sql: str, parameters: Sequence[Any]) -> Document:
    """The first rows of a statement, and what they cost. Raises QueryableError."""
    rows, source = await _rows(client, sql, parameters)
    kept: list[Document] = []
    size = 0
    for row in rows:
        size += len(encode_json(row))
        if len(kept) == MAX_ROWS or (kept and size > MAX_BYTES):
            break
        kept.append(row)
    is_complete = len(kept) == len(rows)
    if len(kept) == 1 and size > MAX_BYTES:
        raise BadUse(f"A row has {size:,} bytes, more than {MAX_BYTES:,}: select fewer fields.")
    left_out = {} if is_complete else {
        "left_out": f"There are more rows than these {len(kept)}. Group them, add a condition, or "
        "select fewer fields."
    }  # fmt: skip
    cost = {} if source is None else {"plan": source.plan, "examined": source.examined}
    return {"rows": kept, "is_complete": is_complete, **left_out, **cost, **_freshness(source)}


async def _rows(
    client: AsyncClient, sql: str, parameters: Sequence[Any]
) -> tuple[list[Document], Source | None]:
    """The first rows of a statement: one more than MAX_ROWS, if there are so many."""
    result = client.sql(sql, *parameters, offsets=True)
    rows: list[Document] = []
    async for row in result:
        rows.append(row)
        if len(rows) > MAX_ROWS:
            break
    return rows, result.source


async def _entries(client: AsyncClient, view: View) -> int | None:
    if kind_of(view.store).resource is None:
        return None
    return await _if_possible(client.count(view.name))


async def _if_possible(count: Awaitable[Any]) -> int | None:
    try:
        return int(await count)
    except QueryableError:
        return None


def _columns(columns: Document) -> Document:
    """The first columns, up to MAX_BYTES of them; the names may be data, so there may be many."""
    kept: Document = {}
    size = 0
    for name, described in columns.items():
        size += len(encode_json({name: described}))
        if size > MAX_BYTES:
            more = len(columns) - len(kept)
            return {"columns": kept, "left_out": f"{more} more columns"}
        kept[name] = described
    return {"columns": kept}


def _summary(view: View) -> Document:
    description = view.description.get("description")
    return {
        "name": view.name,
        **({"description": description} if description else {}),
        "store": view.store,
        "key_format": view.key.name,
        "value_format": view.value.name,
    }


def _freshness(source: Source | None) -> Document:
    """How fresh an answer is: records and milliseconds behind the topic (None: unknown), and the
    next offset of each partition."""
    if source is None:
        return {}
    staleness = source.staleness
    positions = source.positions
    if source.partition is not None:
        positions = f"{source.partition}:{source.position}"
    return {
        "lag": source.lag,
        "staleness_ms": None if staleness is None else round(staleness.total_seconds() * 1000),
        "positions": positions,
    }


def _quoted(name: str) -> str:
    return '"' + name + '"'
