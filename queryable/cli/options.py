"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from model.times import parse_duration
from queryable import Client, View
from queryable.cli.config import Connection
from queryable.cli.values import parse_value
from queryable.client.protocol.errors import QueryableError
from queryable.client.protocol.parameters import Stale

DEFAULT_SERVERS = "127.0.0.1:9092"
# s; a shell waits for the completion
_COMPLETION_TIMEOUT = 1.0


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of views that begin with `incomplete`; empty if the deployment does not answer."""
    return _complete(
        ctx, incomplete, lambda client: [n for view in client.views() for n in _names_of(view)]
    )


def complete_instance(ctx: typer.Context, incomplete: str) -> list[str]:
    """The ids of instances that begin with `incomplete`; empty if the deployment does not
    answer."""
    return _complete(
        ctx, incomplete, lambda client: [each["id"] for each in client.topology()["processors"]]
    )


def _complete(
    ctx: typer.Context, incomplete: str, names: Callable[[Client], list[str]]
) -> list[str]:
    try:
        url, token_file = (
            ctx.params.get(name) or ctx.find_root().params.get(name)
            for name in ("url", "token_file")
        )
        with Connection(url, _COMPLETION_TIMEOUT, token_file).client() as client:
            return sorted(name for name in names(client) if name.startswith(incomplete))
    except QueryableError:
        return []


def _names_of(view: View) -> list[str]:
    """The name of the view, and those of its versions."""
    versions = view.description.get("versions", ())
    return [view.name, *(f"{view.name}@{version}" for version in versions)]


def one_of(*names: str) -> Callable[[str | None], str | None]:
    """A callback of arguments and options that must have one of these values."""

    def check(text: str | None) -> str | None:
        if text is not None and text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.")
        return text

    return check


Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until it is complete, however long that takes.")
]
ViewName = Annotated[str, typer.Argument(metavar="VIEW", autocompletion=complete_view)]
Order = Annotated[str, typer.Option("--order", metavar="ORDER", help="asc or desc.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Maximum number of rows.")
]
StaleOption = Annotated[
    str | None,
    typer.Option(
        "--stale",
        metavar="MODE",
        callback=one_of(*get_args(Stale)),
        help="allow: also from partitions that are still being restored; never: from the active "
        "only.",
    ),
]
RawKey = Annotated[
    bool, typer.Option("--raw", help="KEY is the base64url of the record key's bytes.")
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="URL of the proxy or a backend. [default: see `queryable --help`]",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Time limit per request. [default: 10]"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with the bearer token. [default: see `queryable --help`]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines, also on a terminal.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, with times in ISO 8601.")]
Vertical = Annotated[
    bool, typer.Option("--vertical", help="Print one line per field, not a table.")
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        help=f"Kafka brokers. [default: QUERYABLE_BOOTSTRAP_SERVERS, else {DEFAULT_SERVERS}]",
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


def check_duration(text: str | None) -> str | None:
    """A callback of options with a duration."""
    try:
        if text is not None:
            parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None
    return text


def parse_bound(text: str | None, view: View, option: str) -> Any:
    """The first or last key of a range. Raises BadUse, which names the option."""
    return None if text is None else parse_value(text, view.key, option)


def parse_prefix(text: str | None, view: View) -> str | bytes | None:
    """A prefix of keys. The client rejects it for formats without prefixes."""
    if text is None or not view.key.has_prefixes:
        return text
    prefix: str | bytes = parse_value(text, view.key, "--prefix")
    return prefix
