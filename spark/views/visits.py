"""visits: the visits of each client host. Half an hour without a request ends a visit.

Key: the client's address and the times of the first and last request, in Kafka Streams' session
layout. Value: JSON ``{"requests": 12, "bytes": 3456}``.

As in Kafka Streams, a visit appears with its first request. Each further request writes the longer
visit and deletes the visits that it replaces. Spark's own ``session_window`` returns a session only
after it has ended and late requests are excluded. See ``spark.raw_topics.weblog`` for late and
duplicate lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark.event_time.sessions import Session, merged, packed, unpacked, updated
from spark.formats.keys import session_key
from spark.raw_topics.weblog import WEBLOG, deduplicated
from spark.view import View

if TYPE_CHECKING:
    import pandas as pd

GAP = 30 * 60 * 1000
"""ms without a request after which a visit has ended."""

_VISIT = "client string, start long, end long, requests long, bytes long"
_STATE = "sessions binary"


def visits(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value`` (null deletes), ``bare_key``."""
    hosts = deduplicated(requests).groupBy("client")
    if requests.isStreaming:
        timeout = GroupStateTimeout.EventTimeTimeout
        rows = hosts.applyInPandasWithState(_update, _VISIT, _STATE, "update", timeout)
    else:
        rows = hosts.applyInPandas(_all, _VISIT)
    value = F.to_json(F.struct("requests", "bytes"))
    return rows.select(
        session_key(F.col("client"), F.col("start"), F.col("end")).alias("key"),
        F.when(F.col("requests").isNotNull(), value).alias("value"),
        F.col("client").alias("bare_key"),
    )


def _update(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The changes that a micro-batch makes to one host's visits: deletions, then new and longer
    visits."""
    [client] = key
    new = (visit for frame in frames for visit in _single(frame))
    yield _frame(client, *updated(state, new, GAP, unpacked, packed))


def _all(key: tuple[Any, ...], requests: pd.DataFrame) -> pd.DataFrame:
    """One host's visits, from all its requests."""
    [client] = key
    return _frame(client, (), merged(_single(requests), GAP))


def _single(requests: pd.DataFrame) -> Iterator[Session]:
    times = requests["time"].astype("datetime64[ms]").astype("int64")
    for time, size in zip(times.tolist(), requests["bytes"].tolist(), strict=True):
        yield Session(time, time, 1, size)


def _frame(client: str, ended: Iterable[Session], changed: Iterable[Session]) -> pd.DataFrame:
    import pandas as pd  # only in Spark's workers: it takes half a second

    rows: list[tuple[Any, ...]]
    rows = [(client, visit.start, visit.end, None, None) for visit in ended]
    rows += [(client, *visit) for visit in changed]
    names = ["client", "start", "end", "requests", "bytes"]
    return pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[1:], "Int64"))


VIEW = View(
    name="visits",
    description="the visits of each client host: requests at most half an hour apart",
    source="weblog",
    topic="visits",
    decoder=WEBLOG,
    derive=visits,
    revision=1,
)
