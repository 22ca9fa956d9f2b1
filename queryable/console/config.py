"""Where the console finds its deployment: `--url`, else QUERYABLE_URL, else the configuration file.

# ~/.config/queryable/config.toml (or where QUERYABLE_CONFIG says)
url = "https://topics.example.org"
timeout = 10          # seconds
direct = false
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.core.errors import BadUse

_KNOWN: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "timeout": (int, float),
    "direct": (bool,),
}

Url = Annotated[
    str | None,
    typer.Option("--url", help="The proxy, or a backend. Else QUERYABLE_URL, else the file's url."),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds for a request (10).")]
AsJson = Annotated[
    bool, typer.Option("--json", help="JSON lines, as into a pipe, on a terminal too.")
]


def config_path() -> Path:
    if given := os.environ.get("QUERYABLE_CONFIG"):
        return Path(given)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "queryable" / "config.toml"


def read_config() -> dict[str, Any]:
    """What the file says; nothing if it is not there. BadUse."""
    path = config_path()
    try:
        said = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadUse(f"{path} cannot be read: {error}.") from None
    for name, value in said.items():
        if name not in _KNOWN:
            raise BadUse(f"{path}: {name!r} is no setting; there are {', '.join(_KNOWN)}.")
        if type(value) not in _KNOWN[name]:  # true is an int, too
            raise BadUse(f"{path}: {name} cannot be {value!r}.")
    return said


@dataclass(frozen=True, slots=True)
class Common:
    """What every command takes."""

    url: str | None = None
    timeout: float | None = None

    def client(self, url: str | None = None) -> Client:
        """A client of `url`, or of the deployment that is meant. BadUse."""
        config = read_config()
        chosen = url or self.url or os.environ.get("QUERYABLE_URL") or config.get("url")
        timeout = self.timeout if self.timeout is not None else config.get("timeout", 10.0)
        return Client(chosen, timeout=timeout, direct=config.get("direct", False))
