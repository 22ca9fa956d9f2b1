"""Query Kafka topics over HTTP: `Client` for threads, `AsyncClient` for asyncio.

    from queryable import Client

    with Client("http://127.0.0.1:8080") as client:
        client.get("latest-departure", "N14228").value

Importing this imports neither Spark nor Flask nor RocksDB.
"""

from typing import TYPE_CHECKING, Any

from queryable.core.answers import (
    Answer,
    Appended,
    Change,
    Count,
    Entry,
    Ranking,
    Session,
    Source,
    Version,
    Window,
)
from queryable.core.calls import DELETE
from queryable.core.errors import (
    BadRequest,
    BadUse,
    NoAnswer,
    NotFound,
    OutsideHistory,
    QueryableError,
    ServerError,
    Unavailable,
    Unconfirmed,
)
from queryable.core.formats import Raw
from queryable.core.parts import ALL_KEYS
from queryable.core.views import View
from queryable.sync import Client, Rows

if TYPE_CHECKING:
    from queryable.asynchronous import AsyncClient, AsyncRows

__all__ = [
    "ALL_KEYS",
    "DELETE",
    "Answer",
    "Appended",
    "AsyncClient",
    "AsyncRows",
    "BadRequest",
    "BadUse",
    "Change",
    "Client",
    "Count",
    "Entry",
    "NoAnswer",
    "NotFound",
    "OutsideHistory",
    "QueryableError",
    "Ranking",
    "Raw",
    "Rows",
    "ServerError",
    "Session",
    "Source",
    "Unavailable",
    "Unconfirmed",
    "Version",
    "View",
    "Window",
]


def __getattr__(name: str) -> Any:
    """What needs aiohttp, when it is asked for: importing that takes longer than all else."""
    if name in ("AsyncClient", "AsyncRows"):
        from queryable import asynchronous

        return getattr(asynchronous, name)
    raise AttributeError(f"module 'queryable' has no attribute {name!r}")
