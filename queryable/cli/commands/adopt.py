"""`queryable adopt`: propose views for the stores of a Kafka Streams application."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from queryable.cli.connection_settings import connection_settings
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import NOT_FOUND
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import Brokers, KafkaFile, RegistryURL, SampleSize


@command
def adopt(
    *,
    application_id: Annotated[
        str,
        typer.Argument(metavar="APPLICATION_ID", help="The application's application.id."),
    ],
    brokers: Brokers,
    kafka: KafkaFile = None,
    schema_registry: RegistryURL = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask; mark likely values with TODO.")
    ] = False,
    records: SampleSize = 500,
) -> None:
    """Propose views for the stores of a Kafka Streams application.

    Prints entries of views.toml, from the configuration and a sample of the application's changelog
    topics. Asks about what they do not show; with --yes, or without a terminal, marks it with
    "TODO?". Asks the schema registry about records with Confluent's header. Joins no consumer group
    and writes nothing to Kafka. Exits with 1 if the application has no changelog topics.

    \b
    Examples:
      queryable adopt shop
      queryable adopt shop --yes --bootstrap-servers broker:9092 > views.toml
      queryable adopt shop --kafka connection.toml
    """
    with server_extra("adopt"):
        from queryable.cli.adopt.prompts import ask_on_terminal, no_answer
        from queryable.cli.adopt.proposals import proposals
        from queryable.cli.adopt.schemas import Schemas
        from queryable.cli.inspection.broker import broker_of
    seconds = brokers.seconds
    broker = broker_of(brokers.servers, connection_settings(kafka), seconds, kafka)
    is_interactive = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    ask = ask_on_terminal if is_interactive else no_answer
    schemas = Schemas(schema_registry, is_interactive=is_interactive)
    has_changelogs = False
    for proposal in proposals(broker, application_id, ask, schemas, records, seconds):
        has_changelogs = True
        print(proposal, flush=True)
    if not has_changelogs:
        raise SystemExit(NOT_FOUND)
