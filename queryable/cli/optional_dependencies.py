"""Commands that need the packages of the extra [server]: `adopt`, `check` and `token`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from model.machine.extras import how_to_install
from queryable.client.protocol.errors import BadUse

_SERVER_PACKAGES = (
    "confluent_kafka",
    "cryptography",
    "fastavro",
    "jwt",
    "numpy",
    "orjson",
    "pydantic",
    "pydantic_settings",
)


@contextmanager
def server_extra(command: str) -> Iterator[None]:
    """Wraps imports. Raises BadUse, with the command to run, if a package is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SERVER_PACKAGES:
            raise
        raise BadUse(
            f"`queryable {command}` requires {error.name}, which is not installed. "
            f"{how_to_install('server')}"
        ) from None
