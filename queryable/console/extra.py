"""What the commands need that look at a broker or a backend's own settings: the extra [server]."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from queryable.core.errors import BadUse

_OF_THE_EXTRA = ("confluent_kafka", "fastavro", "numpy", "pydantic", "pydantic_settings")


@contextmanager
def needs_server(command: str) -> Iterator[None]:
    """Around imports: BadUse with what to install where one of the extra's packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise BadUse(
            f"`queryable {command}` needs {error.name}, which is not installed: "
            f"pip install 'queryable-topics[server]'"
        ) from None
