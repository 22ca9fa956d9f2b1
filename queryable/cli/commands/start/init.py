"""`queryable init`: write a views file for topics of your own Kafka."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from queryable.cli.connection_settings import connection_settings
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import NoBroker, advice, print_stderr
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import DEFAULT_SERVERS, Brokers, KafkaFile, RegistryURL, SampleSize
from queryable.client.protocol.errors import BadUse

if TYPE_CHECKING:
    from queryable.cli.inspection.broker import Broker


@command
def init(
    *,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Names of topics. [default: asks for one]"),
    ] = None,
    brokers: Brokers,
    kafka: KafkaFile = None,
    schema_registry: RegistryURL = None,
    views: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path(
        "views.toml"
    ),
    add: Annotated[bool, typer.Option("--add", help="Add the views to an existing file.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    source: Annotated[
        bool,
        typer.Option(
            "--source",
            help="Write [sources.TOPIC] for derived views, with the fields of the registry's "
            "newest schema, instead of a view of the topic.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask; mark uncertain values with TODO.")
    ] = False,
    records: SampleSize = 500,
) -> None:
    """Write a views file for topics of your own Kafka.

    Looks at the newest records of each topic: the formats of keys and values, and the partitioner
    of the producers. Asks for what is missing, and for what the records do not show for certain.
    For Avro and Protobuf with Confluent's header, fetches the schemas from their registry.
    Only reads from Kafka; joins no consumer group. `queryable serve` serves the file.

    \b
    Examples:
      queryable init
      queryable init orders --bootstrap-servers broker:9092
      queryable init orders customers --kafka connection.toml --yes
      queryable init orders --schema-registry http://registry:8081
      queryable init orders --source --schema-registry http://registry:8081
    """
    with server_extra("init"):
        from queryable.cli.adopt.prompts import NO_VALUE, ask_on_terminal, no_answer
        from queryable.cli.adopt.schemas import Schemas
        from queryable.cli.start.inspection import describe_source, describe_topic
        from queryable.cli.start.questions import ask_topic
        from queryable.cli.start.source_files import write_new
        from queryable.cli.start.topic_view import kafka_table
        from queryable.cli.start.views_writer import (
            ADD,
            STOP,
            existing_schemas,
            kafka_to_add,
            what_to_do,
            write_views,
        )
    is_interactive = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    if not topics and not is_interactive:
        raise BadUse("Name a TOPIC: there is no terminal on which to ask.")
    seconds = brokers.seconds
    action = what_to_do(views, add=add, force=force, is_interactive=is_interactive)
    if action == STOP:
        return
    table = connection_settings(kafka)
    written = kafka_to_add(views, table) if action == ADD else table
    existing = existing_schemas(views, schema_registry) if action == ADD else None
    schemas = Schemas(schema_registry, is_interactive=is_interactive, existing=existing)
    broker, partition_counts = _connect(brokers, table, is_interactive, kafka)
    if not partition_counts:
        raise BadUse(f"The broker at {broker.servers} has no topics yet.")
    names = list(dict.fromkeys(topics or [ask_topic(partition_counts)]))
    ask = ask_on_terminal if is_interactive else no_answer
    sources = [
        describe_source(broker, partition_counts, name, records, seconds, schemas)
        for name in (names if source else ())
    ]
    entries = [entry.toml for entry in sources] or [
        describe_topic(broker, partition_counts, name, records, seconds, ask, schemas)
        for name in names
    ]
    if schemas.toml:
        entries.insert(0, schemas.toml)
    elif schema_registry not in (None, NO_VALUE) and existing is None:
        print_stderr("no record needs a schema: [schemas] is not written")

    def write() -> None:
        write_views(views, kafka_table(written), "\n".join(entries), is_added=action == ADD)

    write_new(sources, views, write)
    files = [str(views), *(entry.file for entry in sources)]
    print(f"wrote {', '.join(files)}: {', '.join(names)}")
    if source:
        print_stderr(f"next: write a view into {views}, and run Spark's job (docs/spark.md)")
        return
    serve = "queryable serve" if views == Path("views.toml") else f"queryable serve {views}"
    print_stderr(f"next: {serve} --bootstrap-servers {broker.servers}")


def _connect(
    brokers: Brokers, table: Mapping[str, str], is_interactive: bool, file: Path | None
) -> tuple[Broker, dict[str, int]]:
    """The broker and its topics, without Kafka's own. Asks again if a broker that the user typed
    does not answer. Raises BadUse and NoBroker."""
    with server_extra("init"):
        from queryable.cli.inspection.broker import broker_of
        from queryable.cli.start.questions import ask_text
    while True:
        must_ask = is_interactive and brokers.named is None
        chosen = ask_text("Kafka brokers", DEFAULT_SERVERS) if must_ask else brokers.servers
        broker = broker_of(chosen, table, brokers.seconds, file)
        try:
            topics = broker.topics()
        except NoBroker as error:
            if not must_ask:
                raise
            print_stderr(f"{error.detail} {advice(error)}")
            continue
        return broker, {name: n for name, n in topics.items() if not name.startswith("__")}
