"""Joins of rows with tables by foreign keys, which follow every change of every side.

``joined`` of ``spark.joins`` keeps each table whole in each part of its state. Here, the state of a
row is one row in RocksDB, on both sides, so tables may be as large as a disk. Kafka Streams joins
two KTables by a foreign key in the same two steps (KIP-213):

1. ``Subscriptions`` knows the last foreign key of each left row. If a row gets another foreign
   key, the step tells the old one that the row has moved, and the new one about the row.
2. ``Matches`` has, for each foreign key, the row of the table and the left rows that refer to it.
   It writes a left row when it arrives, and all of them when the row of the table changes.

Both steps are in one micro-batch, and the second one sees all its messages at once. So a
micro-batch writes each left row at most once, with the foreign key and the row of the table that
are the newest ones at its end. The result depends on the newest records alone, not on their order.
With several tables, the result for one of them is the left side for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

if TYPE_CHECKING:
    import pandas as pd

NEW, CHANGED, DELETED = "new", "changed", "deleted"
"""Kinds of results: the key had no row before, the key may have had one, the row was deleted."""
_MOVED, _TABLE = "moved", "table"  # further kinds of messages for the second step

LEFT = ("key", "partition", "offset", "on", "row")
TABLE = ("key", "partition", "offset", "row")

_BUCKETS = 200
"""Spark calls Python for each group of keys, so single keys would be slow. It must not change: the
groups are part of the state."""
_ROWS_OF_FRAME = 1000
_CONTENT = "rows array<string>, on array<string>"
_MESSAGE = "key string, kind string, content string"
_SENT = f"on string, lone string, {_MESSAGE}"


def with_tables(left: DataFrame, tables: Sequence[DataFrame]) -> DataFrame:
    """Left rows with their rows of the tables: left joins.

    ``left`` has the columns ``LEFT``: ``on`` is an array with a foreign key for each table, null if
    there is none, and ``row`` is a text, null if the row was deleted. The tables have the columns
    ``TABLE``. The newest row of a key counts: that of the later micro-batch, and within one, that
    with the greatest ``partition`` and ``offset``.

    Returns ``key``, ``kind``, and ``rows``: an array with the text of the left row, and that of the
    row of each table or null. A deleted row has no ``rows``. Streams need the output mode
    ``append``. A change of one row of a table writes all left rows that refer to it, in frames of
    a thousand, from one task.
    """
    kinds = {rows.isStreaming for rows in (left, *tables)}
    if kinds == {True, False}:
        raise ValueError("streams and static tables; join static ones with DataFrame.join")
    if kinds == {False}:
        return _batch(left, tables)
    content = F.to_json(F.struct(F.array("row").alias("rows"), "on"), {"ignoreNullFields": "false"})
    changes = left.select(
        *("key", "partition", "offset"),
        F.col("on").alias("ons"),
        F.when(F.col("row").isNotNull(), content).alias("content"),
    )
    results = changes
    for number, table in enumerate(tables):
        results = _stream(changes, table, number)
        parsed = F.from_json("content", _CONTENT)
        changes = results.select(
            "key",
            F.lit(0).alias("partition"),
            F.lit(0).cast("long").alias("offset"),
            parsed["on"].alias("ons"),
            "content",
        )
    return results.select("key", "kind", F.from_json("content", _CONTENT)["rows"].alias("rows"))


def _batch(left: DataFrame, tables: Sequence[DataFrame]) -> DataFrame:
    rows = _newest(left, "on", "row").where("row IS NOT NULL")
    rows = rows.select("key", "on", F.array("row").alias("rows"))
    for number, table in enumerate(tables):
        newest = _newest(table, "row").select(F.col("key").alias("#key"), "row")
        rows = rows.join(newest, F.col("on")[number] == F.col("#key"), "left")
        rows = rows.select("key", "on", F.concat("rows", F.array("row")).alias("rows"))
    return rows.select("key", F.lit(NEW).alias("kind"), "rows")


def _newest(rows: DataFrame, *columns: str) -> DataFrame:
    newest = F.max_by(F.struct(*columns), F.struct("partition", "offset", "row")).alias("newest")
    return rows.groupBy("key").agg(newest).select("key", "newest.*")


def sent(changes: DataFrame, number: int) -> DataFrame:
    """The messages of ``Subscriptions`` for the foreign key with a number. ``changes``: ``key``,
    ``partition``, ``offset``, an array ``ons`` and ``content``."""
    bucket = F.pmod(F.xxhash64("key"), F.lit(_BUCKETS)).alias("bucket")
    left = changes.select(
        bucket, "key", "partition", "offset", F.get("ons", F.lit(number)).alias("on"), "content"
    )
    return left.groupBy("bucket").transformWithStateInPandas(
        Subscriptions(), _SENT, "append", "none"
    )


def _stream(changes: DataFrame, table: DataFrame, number: int) -> DataFrame:
    messages = sent(changes, number)
    columns = ["on", "lone", "key", "kind", "content", "partition", "offset"]
    none = F.lit(None).cast("string")
    left = messages.withColumn("partition", F.lit(0)).withColumn("offset", F.lit(0).cast("long"))
    rows = table.select(
        F.col("key").alias("on"),
        none.alias("lone"),
        none.alias("key"),
        F.lit(_TABLE).alias("kind"),
        F.col("row").alias("content"),
        *("partition", "offset"),
    )
    both = left.select(columns).unionByName(rows.select(columns))
    return both.groupBy("on", "lone").transformWithStateInPandas(
        Matches(), _MESSAGE, "append", "none"
    )


class Subscriptions(StatefulProcessor):
    """Remembers the foreign key of each left row. Input: ``bucket``, ``key``, ``partition``,
    ``offset``, ``on``, ``content`` (null: the row was deleted). Output: ``_SENT``; ``lone`` is the
    key of a row without a foreign key, so that such rows are not all in one group."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._keys = handle.getMapState("keys", "key string", "on string")

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        newest: dict[str, tuple[tuple[int, int], str | None, str | None]] = {}
        for frame in rows:
            names = ("key", "partition", "offset", "on", "content")
            columns = [frame[name].tolist() for name in names]
            for left, partition, offset, on, content in zip(*columns, strict=True):
                at, before = (partition, offset), newest.get(left)
                if (
                    before is None
                    or at > before[0]
                    or (at == before[0] and _row(content) > _row(before[2]))
                ):
                    newest[left] = at, on, content
        messages: list[tuple[str | None, ...]] = []
        for left, (_, on, content) in newest.items():
            stored = self._keys.getValue((left,))
            if content is None:
                if stored is not None:
                    self._keys.removeKey((left,))
                    messages.append(_message(stored[0], left, DELETED, None))
                continue
            if stored is None or stored[0] != on:
                self._keys.updateValue((left,), (on,))
                if stored is not None and stored[0] is not None:
                    messages.append(_message(stored[0], left, _MOVED, None))
            messages.append(_message(on, left, NEW if stored is None else CHANGED, content))
        yield from frames(messages, ["on", "lone", "key", "kind", "content"])

    def close(self) -> None:
        pass


class Matches(StatefulProcessor):
    """The row of the table with one foreign key, and the left rows that refer to it. Input:
    ``_SENT`` with ``partition`` and ``offset``. Output: ``_MESSAGE``."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._row = handle.getValueState("row", "row string")
        self._left = handle.getMapState("left", "key string", "content string")

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        left: dict[str, tuple[str, str | None]] = {}
        newest: tuple[tuple[int, int], str | None] | None = None
        for frame in rows:
            names = ("key", "kind", "content", "partition", "offset")
            columns = [frame[name].tolist() for name in names]
            for left_key, kind, content, partition, offset in zip(*columns, strict=True):
                if kind != _TABLE:
                    left[left_key] = kind, content
                elif newest is None or (partition, offset) > newest[0]:
                    newest = (partition, offset), content
        results = self._matched(left, newest) if isinstance(key[0], str) else self._alone(left)
        yield from frames(results, ["key", "kind", "content"])

    def close(self) -> None:
        pass

    def _alone(self, left: dict[str, tuple[str, str | None]]) -> Iterator[tuple[str | None, ...]]:
        """The results for left rows without a foreign key, for which no state is kept."""
        for key, (kind, content) in left.items():
            yield key, kind, _with_row(content, None)

    def _matched(
        self,
        left: dict[str, tuple[str, str | None]],
        newest: tuple[tuple[int, int], str | None] | None,
    ) -> Iterator[tuple[str | None, ...]]:
        stored = self._row.get()
        row: str | None = None if stored is None else stored[0]
        is_changed = newest is not None and newest[1] != row
        if newest is not None and is_changed:
            row = newest[1]
            if row is None:
                self._row.clear()
            else:
                self._row.update((row,))
        for key, (kind, content) in left.items():
            if content is None:
                self._left.removeKey((key,))
            else:
                self._left.updateValue((key,), (content,))
            if kind != _MOVED:
                yield key, kind, _with_row(content, row)
        if is_changed:
            for (key,), (content,) in self._left.iterator():
                if key not in left:
                    yield key, CHANGED, _with_row(content, row)


def _message(on: str | None, key: str, kind: str, content: str | None) -> tuple[str | None, ...]:
    return on, key if on is None else None, key, kind, content


def _row(content: str | None) -> str:
    """The text of the left row, which decides between rows of a key from one record."""
    return "" if content is None else orjson.loads(content)["rows"][0]


def _with_row(content: str | None, row: str | None) -> str | None:
    if content is None:
        return None
    document = orjson.loads(content)
    document["rows"].append(row)
    return orjson.dumps(document).decode()


def frames(
    rows: Sequence[tuple[str | None, ...]] | Iterator[tuple[str | None, ...]], names: list[str]
) -> Iterator[pd.DataFrame]:
    """The rows in frames of a bounded size."""
    import pandas as pd  # only in Spark's workers: it takes half a second

    waiting: list[tuple[str | None, ...]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS_OF_FRAME:
            yield pd.DataFrame(waiting, columns=names, dtype=object)
            waiting = []
    if waiting:
        yield pd.DataFrame(waiting, columns=names, dtype=object)
