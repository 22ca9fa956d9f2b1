"""The deployment that commands use: `--url`, else QUERYABLE_URL, else the configuration file.

# ~/.config/queryable/config.toml, or the file that QUERYABLE_CONFIG names, which must exist
url = "https://topics.example.org"
timeout = 10          # seconds
direct = false
token_file = "/run/secrets/token"
ca_file = "/etc/queryable/ca.pem"   # authorities of the servers' certificates
"""

from __future__ import annotations

import os
import tomllib
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.cli.declaration.groups import OptionGroup
from queryable.client.protocol.errors import BadUse

_MAX_TIMEOUT_S = 3_600.0  # for the broker
_SETTINGS: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "timeout": (int, float),
    "direct": (bool,),
    "token_file": (str,),
    "ca_file": (str,),
}


class BadSetting(BadUse):
    """An error of the configuration file. The message has names of settings, not of options."""


def config_path() -> Path:
    if path := os.environ.get("QUERYABLE_CONFIG"):
        return Path(path)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "queryable" / "config.toml"


def read_config() -> dict[str, Any]:
    """The settings in the file; empty if there is no file and QUERYABLE_CONFIG names none. Raises
    BadSetting."""
    path = config_path()
    try:
        config = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        configured = os.environ.get("QUERYABLE_CONFIG")
        if isinstance(error, FileNotFoundError) and not configured:
            return {}
        reason = getattr(error, "strerror", None) or error
        names = " (QUERYABLE_CONFIG)" if configured else ""
        raise BadSetting(f"Cannot read {path}{names}: {reason}.") from None
    for name, value in config.items():
        if name not in _SETTINGS:
            raise BadSetting(
                f"{path}: unknown setting {name!r}. Supported: {', '.join(_SETTINGS)}."
            )
        types = _SETTINGS[name]
        if type(value) not in types:  # not isinstance: true is an int
            expected = " or ".join(type_.__name__ for type_ in types)
            raise BadSetting(f"{path}: {name} = {value!r} is invalid: expected {expected}.")
    if not config.get("timeout", 1) > 0:  # or NaN
        timeout = config["timeout"]
        raise BadSetting(f"{path}: timeout = {timeout} is invalid: it must be greater than 0.")
    return config


Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Time limit per request. [default: 10]"),
]


@dataclass(frozen=True, slots=True)
class Connection(OptionGroup):
    """The options of all commands that send requests to a deployment. If a field is None, the
    option before the command is used."""

    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="URL of the proxy or a backend. [default: see `queryable --help`]"
        ),
    ] = None
    timeout: Timeout = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the bearer token. [default: see `queryable --help`]"
        ),
    ] = None

    def client(self, url: str | None = None) -> Client:
        """A client for `url`, or for the configured deployment. Raises BadUse."""
        return Client(**self.arguments(url))

    def arguments(self, url: str | None = None) -> dict[str, Any]:
        """The arguments of such a client. Raises BadUse."""
        config = read_config()
        before = _before_command.get()
        chosen = (
            url or self.url or before.url or os.environ.get("QUERYABLE_URL") or config.get("url")
        )
        timeout = self.timeout if self.timeout is not None else before.timeout
        if timeout is None:
            timeout = config.get("timeout", 10.0)
        token_file: str | Path | None = self.token_file or before.token_file
        if token_file is None and not os.environ.get("QUERYABLE_TOKEN"):
            token_file = config.get("token_file")
        ca_file = os.environ.get("QUERYABLE_CA_FILE") or config.get("ca_file")
        direct = config.get("direct", False)
        return {
            "url": chosen,
            "timeout": timeout,
            "direct": direct,
            "token_file": token_file,
            "ca_file": ca_file,
        }


BROKER_TIMEOUT_S = 10.0
"""Seconds for one request to the broker, and for the sample of one topic."""

_before_command: ContextVar[Connection] = ContextVar("connection", default=Connection())  # noqa: B039


def broker_timeout(option: float | None) -> float:
    """The time for one request to the broker: `--timeout` after the command (`option`) or before
    it, else BROKER_TIMEOUT_S. Raises BadUse for a negative one, with which librdkafka would wait
    forever."""
    seconds = option if option is not None else _before_command.get().timeout
    if seconds is None:
        return BROKER_TIMEOUT_S
    if not 0 < seconds <= _MAX_TIMEOUT_S:  # or NaN
        raise BadUse(
            f"--timeout {seconds:g} is invalid: it must be greater than 0, and at most "
            f"{_MAX_TIMEOUT_S:,.0f} s."
        )
    return seconds


def set_connection(connection: Connection) -> None:
    """Keeps the options that are given before the command."""
    _before_command.set(connection)
