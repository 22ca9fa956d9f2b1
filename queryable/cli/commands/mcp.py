"""`queryable mcp`: views as tools for agents."""

from __future__ import annotations

from typing import Annotated

import typer

from model.machine.extras import how_to_install
from queryable.cli.config import Connection
from queryable.cli.declaration.command import command
from queryable.client.async_client import AsyncClient
from queryable.client.protocol.errors import BadUse


@command
def mcp(
    *,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve HTTP at /mcp, instead of standard input and output."
        ),
    ] = None,
    connection: Connection,
) -> None:
    """Serve views as tools for agents (Model Context Protocol).

    An agent can list and describe views, read a key, and run SQL about one view. Nothing is
    written, and answers are short. An agent's program starts this command, and talks to it by
    standard input and output.

    With --http, each request needs the token of its sender, which is passed on; --token-file and
    QUERYABLE_TOKEN are not used.

    \b
    Examples:
      queryable mcp
      queryable mcp --url https://topics.example.org --token-file token
      queryable mcp --http 127.0.0.1:8765
    """
    try:
        from queryable.cli.agents.server import server_of
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise BadUse(f"queryable mcp needs the package mcp: {how_to_install('mcp')}") from None
    arguments = connection.arguments()
    connection.client().close()  # a wrong setting is an error now

    def connect(token: str | None) -> AsyncClient:
        if token is None:
            return AsyncClient(**arguments)
        return AsyncClient(**{**arguments, "token_file": None, "token": token})

    server = server_of(connect, token_of_caller=http is not None)
    if http is None:
        server.run()
        return
    host, port = _address(http)
    server.run("streamable-http", host=host, port=port, stateless_http=True)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise BadUse(f"--http {text}: write a host and a port, such as 127.0.0.1:8765.")
    return host.strip("[]"), int(port)
