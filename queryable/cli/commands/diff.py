"""`queryable diff`: compare a view of two deployments."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import Client
from queryable.cli.config import Connection
from queryable.cli.declaration.command import command
from queryable.cli.deployments import behind_proxy
from queryable.cli.diff.comparison import print_differences
from queryable.cli.diff.sources import DiffSource
from queryable.cli.options import ComparisonOptions, ViewName
from queryable.cli.output import DocumentOutput


@command
def diff(
    *,
    first: Annotated[str, typer.Argument(metavar="DEPLOYMENT1")],
    second: Annotated[str, typer.Argument(metavar="DEPLOYMENT2")],
    view: ViewName,
    comparison: ComparisonOptions,
    everything: Annotated[
        bool, typer.Option("--all", help="Compare all entries, not a sample.")
    ] = False,
    connection: Connection,
    output: DocumentOutput,
) -> None:
    """Compare a view of two deployments.

    Each is a URL, or the application id of a deployment behind the proxy at --url.

    For a view with windows or sessions, these are compared. Entries that differ are read again
    from both, because they may have changed meanwhile. Exits with 0 if there is no difference,
    1 if there are some, 3 if a deployment is not available.

    \b
    Examples:
      queryable diff http://old:8080 http://new:8080 orders
      queryable diff http://old:8080 http://new:8080 orders --sample 20000
      queryable diff http://old:8080 http://new:8080 visits --all --show 100
      queryable diff shop-1 shop-2 orders
    """
    clients = [_client(connection, deployment) for deployment in (first, second)]
    with clients[0] as first_client, clients[1] as second_client:
        sources = DiffSource(first, first_client, view), DiffSource(second, second_client, view)
        print_differences(
            sources, None if everything else comparison.sample, comparison.show, output
        )


def _client(connection: Connection, deployment: str) -> Client:
    if "://" in deployment:
        return connection.client(deployment)
    return behind_proxy(connection).client(connection, deployment)
