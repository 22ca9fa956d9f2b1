"""airports: how many flights left for each destination.

Key: destination (string). Value: JSON ``{"count": 17283}``, so that ``top?by=count`` ranks them.

Number, origin and scheduled time identify a flight. It counts once, even if it has several or late
records. Its destination is that of the record with the greatest (timestamp, partition, offset). If
that record is read after another one, the flight moves from one destination to the other. So the
state keeps every flight without limit: no watermark bounds it, because the partitions of a topic
with past flights are read days apart. Cancelled flights do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark.formats.records import POSITION
from spark.raw_topics.flights import FLIGHTS, departed
from spark.view import View

if TYPE_CHECKING:
    import pandas as pd

_DAY = 24 * 3600
_FLIGHT = ["flight", "origin", "scheduled"]
_RECORD = ["at", "partition", "offset", "dest"]


def airports(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► ``key``, ``value``, one row per destination.

    ``value`` is null, which deletes the key, if a destination no longer has flights.
    """
    left = departed(flights)
    if left.isStreaming:
        # A group per flight instead of one per day would cost a hundred times as much.
        days = left.select(
            "flight",
            "origin",
            "scheduled",
            F.unix_micros("timestamp").alias("at"),
            "partition",
            "offset",
            "dest",
            F.floor(F.col("scheduled") / _DAY).alias("day"),
        ).groupBy("origin", "day")
        # Checkpoints have state with the name "told".
        changes = days.applyInPandasWithState(
            _count_changes, "dest string, change long", "told binary", "append",
            GroupStateTimeout.NoTimeout,
        )  # fmt: skip
        counted = changes.groupBy("dest").agg(F.sum("change").alias("count"))
    else:
        last = F.max_by("dest", F.struct(*POSITION.names)).alias("dest")
        counted = left.groupBy(*_FLIGHT).agg(last).groupBy("dest").count()
    value = F.to_json(F.struct("count"))
    return counted.select(
        F.col("dest").alias("key"), F.when(F.col("count") > 0, value).alias("value")
    )


def _count_changes(
    _: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The changes of the counts that a micro-batch makes with the flights of one origin and day.

    The state has the newest record of each flight.
    """
    import pandas as pd  # only in Spark's workers: it takes half a second

    newest: dict[tuple[str, int], list[Any]] = {}
    if state.exists:
        newest = {(flight, at): record for flight, at, record in orjson.loads(state.get[0])}
    changes: Counter[str] = Counter()
    for frame in frames:
        columns = [frame[name].tolist() for name in ("flight", "scheduled", *_RECORD)]
        for flight, scheduled, *record in zip(*columns, strict=True):
            before = newest.get((flight, scheduled))
            if before is None or record > before:
                newest[flight, scheduled] = record
                changes[record[-1]] += 1
                if before is not None:
                    changes[before[-1]] -= 1
    state.update((orjson.dumps([(*flight, record) for flight, record in newest.items()]),))
    rows = sorted((dest, change) for dest, change in changes.items() if change)
    yield pd.DataFrame(rows, columns=["dest", "change"]).astype({"dest": str, "change": "int64"})


VIEW = View(
    name="airports",
    description="how many flights left for each destination",
    source="flights",
    topic="airports",
    decoder=FLIGHTS,
    derive=airports,
    revision=1,
)
