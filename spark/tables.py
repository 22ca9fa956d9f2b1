"""Views of tables: topics where the newest record of a key is its row, and a tombstone deletes it.

The functions take the well-formed rows of a decoder with ``is_table``: ``key`` (record bytes),
``deleted``, ``partition``, ``offset`` and the fields. A compacted topic has lost older records of
its keys, and gives the same views. The newest record of a key has the greatest offset, because all
records of one key are in one partition: compaction relies on this, too.

- A view with the topic's own keys needs only ``mapped``, and no state.
- A view that aggregates, or has keys of its own, uses ``changes``: an update or a tombstone
  subtracts the contribution of the key's previous record, as in a KTable of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructField, StructType

if TYPE_CHECKING:
    import pandas as pd

CHANGE = "change"
"""The column of ``changes``: 1 for a new row, -1 for a row that was removed."""

# Spark's default has milliseconds.
_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
# Only for writing. Spark reads any number of digits, also the milliseconds in earlier checkpoints.
_LOCAL_TIMES = {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
_RECORD = ["key", "partition", "offset"]


def mapped(rows: DataFrame, value: Column) -> DataFrame:
    """``key`` and ``value``, null for a deleted row: the view has the topic's keys.

    The order of a partition is kept, so the view topic ends with the newest row of each key. Encode
    the value afterwards (``spark.formats.encoders``): Spark calls Python functions for all rows,
    also for deleted ones.
    """
    return rows.select("key", F.when(~F.col("deleted"), value).alias("value"))


def latest(rows: DataFrame) -> DataFrame:
    """The newest row of each key, with ``deleted`` if it is a tombstone: the same columns.

    The state has every key, also those that were deleted.
    """
    columns = [name for name in rows.columns if name != "key"]
    newest = F.max_by(F.struct(*columns), F.struct("partition", "offset")).alias("row")
    return rows.groupBy("key").agg(newest).select("key", "row.*")


def changes(rows: DataFrame, *columns: str, groups: int = 1000) -> DataFrame:
    """The rows that appear and disappear, with the given columns and ``change``.

    ``F.sum("change")`` counts the rows of the table, ``F.sum(F.col("change") * F.col("amount"))``
    adds a field. If the number of rows of a group becomes 0, return a null value for its key.
    Minimum and maximum cannot be taken back.

    The state has ``columns`` of each key that is not deleted. Keys are hashed into ``groups``, each
    one state row: a group for each key would cost a hundred times as much. Use one group for some
    1,000 keys. The number cannot change for an existing checkpoint.
    """
    types = [StructField(name, rows.schema[name].dataType) for name in columns]
    if not rows.isStreaming:
        alive = latest(rows).where(~F.col("deleted"))
        return alive.select(*columns, F.lit(1).cast("long").alias(CHANGE))
    has_local_times = any("timestamp_ntz" in field.dataType.simpleString() for field in types)
    options = _JSON | _LOCAL_TIMES if has_local_times else _JSON
    text = F.when(~F.col("deleted"), F.to_json(F.struct(*columns), options)).alias("text")
    group = F.pmod(F.xxhash64("key"), F.lit(groups)).alias("group")
    keyed = rows.select(F.base64("key").alias("key"), *_RECORD[1:], text, group)
    changed = keyed.groupBy("group").applyInPandasWithState(
        _changed, "text string, change long", "rows binary", "append", GroupStateTimeout.NoTimeout
    )
    row = F.from_json("text", StructType(types), _JSON).alias("row")
    return changed.select(row, CHANGE).select(*(f"row.{name}" for name in columns), CHANGE)


def _changed(
    _: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The changes that a micro-batch makes to one group of keys.

    The state has (key, text of the row) of each row that is not deleted.
    """
    import pandas as pd  # only in Spark's workers: it takes half a second

    before: dict[str, str] = dict(orjson.loads(state.get[0])) if state.exists else {}
    newest: dict[str, tuple[tuple[int, int], str | None]] = {}
    for frame in frames:
        columns = [frame[name].tolist() for name in (*_RECORD, "text")]
        for key, partition, offset, text in zip(*columns, strict=True):
            at = (partition, offset)
            if key not in newest or at > newest[key][0]:
                newest[key] = at, text
    rows: list[tuple[str, int]] = []
    for key, (_, text) in newest.items():
        old = before.pop(key, None)
        if text is not None:
            before[key] = text
        if text != old:
            rows += [(old, -1)] if old is not None else []
            rows += [(text, 1)] if text is not None else []
    if before:
        state.update((orjson.dumps(list(before.items())),))
    elif state.exists:
        state.remove()
    yield pd.DataFrame(rows, columns=["text", CHANGE]).astype({"text": str, CHANGE: "int64"})
