"""`queryable adopt`: propose views for the stores of a Kafka Streams application."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from model.kafka.config import hide
from model.kafka.config_providers import resolve
from model.problems import ConfigurationError
from queryable.cli.config import broker_timeout
from queryable.cli.connection_settings import connection_settings
from queryable.cli.exit_codes import NOT_FOUND, NoBroker, reports_errors
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import (
    DEFAULT_SERVERS,
    KafkaFile,
    SampleSize,
    Servers,
    Timeout,
)
from queryable.client.protocol.errors import BadUse

app = typer.Typer()


@app.command()
@reports_errors
def adopt(
    application_id: Annotated[
        str,
        typer.Argument(metavar="APPLICATION_ID", help="The application's application.id."),
    ],
    bootstrap_servers: Servers = None,
    kafka: KafkaFile = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask; mark likely values with TODO.")
    ] = False,
    records: SampleSize = 500,
    timeout: Timeout = None,
) -> None:
    """Propose views for the stores of a Kafka Streams application.

    Prints entries of views.toml, from the configuration and a sample of the application's changelog
    topics. Asks about what they do not show; with --yes, or without a terminal, marks it with
    "TODO?". Joins no consumer group and writes nothing to Kafka. Exits with 1 if the application
    has no changelog topics.

    \b
    Examples:
      queryable adopt shop
      queryable adopt shop --yes --bootstrap-servers broker:9092 > views.toml
      queryable adopt shop --kafka connection.toml
    """
    with server_extra("adopt"):
        from queryable.cli.adopt.prompts import ask_on_terminal, no_answer
        from queryable.cli.adopt.proposals import proposals
        from queryable.cli.inspection.broker import Broker
        from queryable.cli.start.preflight import KAFKA_FILE, broker_advice
    servers = bootstrap_servers or os.environ.get("QUERYABLE_BOOTSTRAP_SERVERS") or DEFAULT_SERVERS
    seconds = broker_timeout(timeout)
    table = connection_settings(kafka)
    try:
        resolved = resolve(table, open, os.environ)
    except ConfigurationError as error:
        raise BadUse(f"{kafka}: {error}.") from None
    broker = Broker(
        servers, resolved, seconds, lambda text: hide(text, table, resolved), f"{kafka}, [kafka]"
    )
    is_interactive = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    ask = ask_on_terminal if is_interactive else no_answer
    has_changelogs = False
    try:
        for proposal in proposals(broker, application_id, ask, records, seconds):
            has_changelogs = True
            print(proposal, flush=True)
    except NoBroker as error:
        raise NoBroker(f"{error.detail} {broker_advice(servers, KAFKA_FILE)}") from None
    if not has_changelogs:
        raise SystemExit(NOT_FOUND)
