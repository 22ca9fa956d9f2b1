"""The calls of the API, one module per query. The clients run them.

`timeout` is in seconds, for a call with its retries. A call raises QueryableError (`errors`) for
everything that is not an answer.
"""

from queryable.client.protocol.calls.append import DELETE, append
from queryable.client.protocol.calls.batch import get_many
from queryable.client.protocol.calls.changes import changes
from queryable.client.protocol.calls.count import count
from queryable.client.protocol.calls.metadata import topology, view, views
from queryable.client.protocol.calls.point import get
from queryable.client.protocol.calls.scan import scan
from queryable.client.protocol.calls.time_ranges import sessions, versions, windows
from queryable.client.protocol.calls.top import top

__all__ = [
    "DELETE",
    "append",
    "changes",
    "count",
    "get",
    "get_many",
    "scan",
    "sessions",
    "top",
    "topology",
    "versions",
    "view",
    "views",
    "windows",
]
