"""The client of Queryable Topics: `Client` for threads, `AsyncClient` for asyncio.

    from queryable import Client

    with Client("http://127.0.0.1:8080") as client:
        client.get("latest-departure", "N14228").value

It imports neither Spark, Flask nor RocksDB. `__version__` is that of the installed package.
"""

from typing import TYPE_CHECKING, Any

from queryable.client.protocol.answers import (
    Answer,
    Appended,
    Change,
    Count,
    DatedEntry,
    Entry,
    Ranking,
    Session,
    Source,
    Unreadable,
    Version,
    Window,
)
from queryable.client.protocol.calls.append import DELETE
from queryable.client.protocol.errors import (
    BadRequest,
    BadUse,
    Forbidden,
    NoAnswer,
    NotFound,
    OutsideHistory,
    QueryableError,
    ServerError,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unconfirmed,
    UnexpectedValue,
    ValueUnreadable,
)
from queryable.client.protocol.formats import Raw
from queryable.client.protocol.rows import ALL_KEYS
from queryable.client.protocol.views import View
from queryable.client.rows import AsyncRows, Rows
from queryable.client.sync_client import Client

if TYPE_CHECKING:
    from queryable.client.async_client import AsyncClient

    __version__: str

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
    "DatedEntry",
    "Entry",
    "Forbidden",
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
    "TooManyRequests",
    "Unauthenticated",
    "Unavailable",
    "Unconfirmed",
    "UnexpectedValue",
    "Unreadable",
    "ValueUnreadable",
    "Version",
    "View",
    "Window",
]


# a traceback names the public path: queryable.NotFound
for _public in list(globals().values()):
    if isinstance(_public, type) and issubclass(_public, QueryableError):
        _public.__module__ = __name__


def __getattr__(name: str) -> Any:
    """Attributes that are slow to import, on first access: AsyncClient imports aiohttp."""
    if name == "AsyncClient":
        from queryable.client.async_client import AsyncClient

        return AsyncClient
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("queryable-topics")
        except PackageNotFoundError:  # imported from source that is not installed
            return "0+unknown"
    raise AttributeError(f"module 'queryable' has no attribute {name!r}")
