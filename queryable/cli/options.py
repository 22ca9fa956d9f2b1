"""Arguments and options that several commands share, and their completion in the shell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from queryable import Client, View
from queryable.cli.answers import is_confirmed
from queryable.cli.config import Connection, Timeout, broker_timeout
from queryable.cli.declaration.groups import OptionGroup
from queryable.cli.exit_codes import NOT_FOUND, print_stderr
from queryable.cli.progress import when_complete
from queryable.cli.values import json_value
from queryable.client.protocol.errors import QueryableError

DEFAULT_SERVERS = "127.0.0.1:9092"
# the user waits for the completion
_COMPLETION_TIMEOUT_S = 1.0
_MAX_KEYS = 50


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of views that begin with `incomplete`; empty if the deployment does not answer."""
    return _complete(
        ctx, incomplete, lambda client: (n for view in client.views() for n in _names_of(view))
    )


def complete_instance(ctx: typer.Context, incomplete: str) -> list[str]:
    """The ids of instances that begin with `incomplete`; empty if the deployment does not
    answer."""
    return _complete(
        ctx,
        incomplete,
        lambda client: (processor["id"] for processor in client.topology()["processors"]),
    )


def complete_key(ctx: typer.Context, incomplete: str) -> list[str]:
    """Some keys of the view that begin with `incomplete`; empty if the view does not list keys, or
    the deployment does not answer."""

    def keys(client: Client) -> Iterable[str]:
        view = client.view(ctx.params["view"])
        # only keys that are text have a prefix; of other formats, the first keys are offered
        prefix = incomplete if incomplete and view.key.has_prefixes else None
        rows = client.scan(
            view.name, prefix=prefix and view.key.python.from_typed(prefix), limit=_MAX_KEYS
        )
        return (str(json_value(row.key)) for row in rows)

    return _complete(ctx, incomplete, keys)


def _complete(
    ctx: typer.Context, incomplete: str, names: Callable[[Client], Iterable[str]]
) -> list[str]:
    try:
        url, token_file = (
            ctx.params.get(name) or ctx.find_root().params.get(name)
            for name in ("url", "token_file")
        )
        with Connection(url, _COMPLETION_TIMEOUT_S, token_file).client() as client:
            return sorted(name for name in names(client) if name.startswith(incomplete))
    except QueryableError:
        return []


def _names_of(view: View) -> list[str]:
    """The name of the view, and those of its versions."""
    versions = view.description.get("versions", ())
    return [view.name, *(f"{view.name}@{version}" for version in versions)]


ViewName = Annotated[str, typer.Argument(metavar="VIEW", autocompletion=complete_view)]
Key = Annotated[str, typer.Argument(metavar="KEY", autocompletion=complete_key)]
RawKey = Annotated[
    bool, typer.Option("--raw", help="KEY is the base64url of the record key's bytes.")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Do not check that the new one is complete, and that its job runs."
    ),
]
ViewsFile = Annotated[
    Path | None,
    typer.Option(
        "--views",
        metavar="FILE",
        help="The views file. [default: QUERYABLE_VIEWS, else views.toml]",
    ),
]
SampleSize = Annotated[
    int, typer.Option("--records", min=1, metavar="N", help="Records to sample from each topic.")
]
KafkaFile = Annotated[
    Path | None,
    typer.Option(
        "--kafka",
        metavar="FILE",
        help="TOML file with a table [kafka], as in views.toml: SASL and TLS settings.",
    ),
]

RegistryURL = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help="Schema registry of records with Confluent's header; - for none: they are bytes. "
        "QUERYABLE_SCHEMA_REGISTRY_AUTH has its user:password. [default: asks if it is needed]",
    ),
]


@dataclass(frozen=True, slots=True)
class Brokers(OptionGroup):
    """The options of commands that ask Kafka."""

    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…",
            help=f"Kafka brokers. [default: QUERYABLE_BOOTSTRAP_SERVERS, else {DEFAULT_SERVERS}]",
        ),
    ] = None
    timeout: Timeout = None

    @property
    def named(self) -> str | None:
        """The brokers that the option or the environment names."""
        return self.bootstrap_servers or os.environ.get("QUERYABLE_BOOTSTRAP_SERVERS")

    @property
    def servers(self) -> str:
        return self.named or DEFAULT_SERVERS

    @property
    def seconds(self) -> float:
        """The time for one request. Raises BadUse."""
        return broker_timeout(self.timeout)


@dataclass(frozen=True, slots=True)
class Switch(OptionGroup):
    """The options of commands that make another version or deployment current."""

    max_lag: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="RECORDS",
            help="How many records may be missing. [default: none of those written before]",
        ),
    ] = None
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is complete, however long that takes.")
    ] = False
    force: Force = False

    def apply(self, send: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """Send the change with `send`, and return its answer. Raises BadRequest if it is refused:
        with `--wait`, only for a reason that does not end by itself."""
        return when_complete(
            lambda seconds: send(max_lag=self.max_lag, wait=seconds, force=self.force), self.wait
        )


@dataclass(frozen=True, slots=True)
class Confirmation(OptionGroup):
    """The option of commands that ask before they do something that cannot be undone."""

    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False

    def require(self, question: str) -> None:
        """Exits with NOT_FOUND unless `--yes` is given or the user says yes. Raises BadUse if there
        is no terminal."""
        if not self.yes and not is_confirmed(question):
            print_stderr("nothing was done")
            raise SystemExit(NOT_FOUND)


@dataclass(frozen=True, slots=True)
class ComparisonOptions(OptionGroup):
    """The options of commands that compare two views."""

    sample: Annotated[
        int, typer.Option(min=1, metavar="N", help="Entries to sample from each view.")
    ] = 1000
    show: Annotated[
        int, typer.Option(min=0, metavar="N", help="Differences to print; all are counted.")
    ] = 20
