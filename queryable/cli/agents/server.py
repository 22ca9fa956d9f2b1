"""The tools as a server of the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

import queryable
from queryable.cli.agents import tools
from queryable.client.async_client import AsyncClient
from queryable.client.protocol.errors import QueryableError

Connect = Callable[[str | None], AsyncClient]
"""Makes a client with a token; None: with the configured token, if there is one."""

_INSTRUCTIONS = """\
Kafka topics as tables ("views") that are read as they are now. Begin with list_views, then
describe_view for columns and examples. get reads one key; query reads rows and groups with a small
part of SQL. Answers say how far they are behind the topic (lag in records, staleness in ms)."""
_SQL = f"""Run a read-only SQL statement about one view, and return up to {tools.MAX_ROWS} rows.

select * | fields, count(*), count(f), sum(f), min(f), max(f), avg(f) [as name] from "view"
[where condition] [group by fields] [order by columns] [limit n]

Put names of views in double quotes, texts in single quotes. The names key, start and "end" (of
windows and sessions), and record_timestamp, are parts of each row. Conditions have =, <>, <, >,
between, in, like, is null, and, or, not. There are no joins, subqueries or functions in the list of
columns. order by a field needs an index, except in groups; order by key always works. Values of ?
come from parameters. Refusals say what to write instead."""
_READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def server_of(connect: Connect, token_of_caller: bool) -> MCPServer:
    """`token_of_caller`: requests to the deployment have the token of the HTTP request, and no
    other one."""
    server = MCPServer(
        "queryable-topics", version=queryable.__version__, instructions=_INSTRUCTIONS
    )

    async def run(
        context: Context[Any, Any], call: Callable[[AsyncClient], Awaitable[tools.Document]]
    ) -> tools.Document:
        token = _bearer(context) if token_of_caller else None
        try:
            async with connect(token) as client:
                return await call(client)
        except QueryableError as error:
            raise ToolError(str(error)) from None

    @server.tool(annotations=_READ_ONLY)
    async def list_views(context: Context[Any, Any]) -> dict[str, Any]:
        """List the views (tables), with their numbers of entries."""
        return await run(context, tools.list_views)

    @server.tool(annotations=_READ_ONLY)
    async def describe_view(view: str, context: Context[Any, Any]) -> dict[str, Any]:
        """Describe a view: its columns and their types, indexes, example rows, and freshness."""
        return await run(context, lambda client: tools.describe_view(client, view))

    @server.tool(annotations=_READ_ONLY)
    async def get(view: str, key: Any, context: Context[Any, Any]) -> dict[str, Any]:
        """Read the value of one key. found is false only if the key does not exist."""
        return await run(context, lambda client: tools.get(client, view, key))

    @server.tool(annotations=_READ_ONLY, description=_SQL)
    async def query(
        sql: str, context: Context[Any, Any], parameters: list[Any] | None = None
    ) -> dict[str, Any]:
        return await run(context, lambda client: tools.query(client, sql, parameters or ()))

    return server


def _bearer(context: Context[Any, Any]) -> str:
    """The token of the request; empty if it has none."""
    scheme, _, token = (context.headers or {}).get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
