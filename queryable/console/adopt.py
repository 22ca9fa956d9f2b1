"""`queryable adopt`: views for the stores of a Kafka Streams application that is there already."""

from __future__ import annotations

import os
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from queryable.console.config import Timeout
from queryable.console.exits import NOT_THERE, ends_well, say
from queryable.console.extra import needs_server
from queryable.core.errors import BadUse

if TYPE_CHECKING:
    from queryable.console.adopted import Ask
    from queryable.console.broker import Broker

SERVERS = "127.0.0.1:9092"
BROKER_TIMEOUT = 10.0
"""Seconds for one request, and for the records of one topic."""

_END = "-changelog"
_NOT_SEEN = """\
# Not seen, as they have no changelog: stores with withLoggingDisabled(); global tables, and with
# topology.optimization the tables of builder.table(…): these are their input topics, make views of
# those (docs/kafka-streams.md)."""

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        help=f"Kafka, host:port,… Else QUERYABLE_BOOTSTRAP_SERVERS, else {SERVERS}.",
    ),
]


@ends_well
def adopt(
    application_id: str,
    bootstrap_servers: Servers = None,
    kafka: Annotated[
        Path | None,
        typer.Option(help="A file with a table [kafka], as views.toml may have: SASL, TLS."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: take what is likeliest, and mark it.")
    ] = False,
    records: Annotated[int, typer.Option(min=1, help="How many of each topic to look at.")] = 500,
    timeout: Timeout = None,
) -> None:
    """Propose entries of views.toml for a Kafka Streams application's stores.

    Looks at the changelog topics, and at some of their records: no group is joined, nothing is
    written to the broker. What they do not tell is asked, or, with --yes or without a terminal,
    marked with "TODO?". Ends with 1 if the application has no changelog.

    \b
    Examples:
      queryable adopt shop
      queryable adopt shop --yes --bootstrap-servers broker:9092 > views.toml
      queryable adopt shop --kafka connection.toml
    """
    with needs_server("adopt"):
        from queryable.console.adopted import nobody, on_terminal
        from queryable.console.broker import Broker
    chosen = bootstrap_servers or os.environ.get("QUERYABLE_BOOTSTRAP_SERVERS") or SERVERS
    within = timeout or BROKER_TIMEOUT
    broker = Broker(chosen, _connection(kafka), within)
    asked = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    found = False
    for entry in entries(broker, application_id, on_terminal if asked else nobody, records, within):
        found = True
        print(entry, flush=True)
    if not found:
        raise SystemExit(NOT_THERE)


def entries(
    broker: Broker, application_id: str, ask: Ask, most: int, seconds: float
) -> Iterator[str]:
    """TOML, one a changelog; NoAnswer."""
    from queryable.console.adopted import entry
    from queryable.console.forgotten import lost

    topics = broker.topics()
    begin = f"{application_id}-"
    mine = sorted(name for name in topics if name.startswith(begin) and name.endswith(_END))
    if not mine:
        _say_which(application_id, [name for name in topics if name.endswith(_END)])
        return
    configs = broker.configs(mine)
    for number, topic in enumerate(mine, 1):
        if sys.stderr.isatty():
            say(f"{number} of {len(mine)}: {topic}")
        store = topic[len(begin) : -len(_END)]
        looked = broker.sample(topic, topics[topic], most, seconds)
        gone = lost(configs[topic], looked, None, time.time_ns() // 1_000_000)
        yield entry(store, topic, topics[topic], configs[topic], looked.records, ask, gone)
    yield _NOT_SEEN


def _say_which(application_id: str, others: list[str]) -> None:
    shown = ", ".join(sorted(others)[:10]) or "none at all"
    say(
        f"No topic is named {application_id}-<store>{_END}. The broker's changelogs: {shown}. The "
        "application id is the application's `application.id`."
    )


def _connection(path: Path | None) -> Mapping[str, str]:
    """BadUse."""
    if path is None:
        return {}
    try:
        table = tomllib.loads(path.read_text()).get("kafka", {})
    except (OSError, ValueError) as error:
        raise BadUse(f"{path} cannot be read: {error}.") from None
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in table.items()
    }
