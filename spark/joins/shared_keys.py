"""Rows of a table with keys of their own, which follow every change: several rows may have one key.

Of the rows with one key, the newest counts: that with the greatest time, and of those, with the
greatest record key. So the result depends on the final rows of the table alone. There are two
steps. ``Subscriptions`` knows the last key of each row, and tells the old key if the row gets
another one. ``Owners`` has the rows of each key. So if the newest row of a key is deleted or gets
another key, the next one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from spark.joins.foreign_keys import frames, sent

if TYPE_CHECKING:
    import pandas as pd

ROWS = ("key", "partition", "offset", "on", "at", "row")
_CONTENT = "at bigint, rows array<string>"

_Order = tuple[int, str]
"""The time of a row, and its record key."""


def newest_of_keys(rows: DataFrame) -> DataFrame:
    """The newest row of each key ``on``: ``key`` and ``row``, which is null if no row is left.

    ``rows`` has the columns ``ROWS``: ``key`` is the record's key, ``on`` the row's own one, ``at``
    its time in µs, and ``row`` a text, null if the row was deleted. The newest record of a record
    key counts: that of the later micro-batch, and within one, that with the greatest ``partition``
    and ``offset``. Streams need the output mode ``append``.
    """
    if not rows.isStreaming:
        return _batch(rows)
    content = F.to_json(F.struct("at", F.array("row").alias("rows")))
    changes = rows.select(
        *("key", "partition", "offset"),
        F.array("on").alias("ons"),
        F.when(F.col("row").isNotNull(), content).alias("content"),
    )
    results = (
        sent(changes, 0)
        .groupBy("on")
        .transformWithStateInPandas(Owners(), "key string, content string", "append", "none")
    )
    return results.select("key", F.from_json("content", _CONTENT)["rows"][0].alias("row"))


def _batch(rows: DataFrame) -> DataFrame:
    newest = F.max_by(F.struct("on", "at", "row"), F.struct("partition", "offset"))
    final = rows.groupBy("key").agg(newest.alias("newest")).select("key", "newest.*")
    winner = F.max_by("row", F.struct("at", "key")).alias("row")
    return final.where("row IS NOT NULL").groupBy(F.col("on").alias("key")).agg(winner)


class Owners(StatefulProcessor):
    """The rows of one key. Input: messages of ``Subscriptions``. Output: ``key``, and ``content``
    of the newest row, null if there is none. It is written if it has changed."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._rows = handle.getMapState("rows", "key string", "content string")
        self._newest = handle.getValueState("newest", "at bigint, key string")

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        [on] = key
        changed: dict[str, str | None] = {}
        for frame in rows:
            for record_key, content in zip(
                frame["key"].tolist(), frame["content"].tolist(), strict=True
            ):
                changed[record_key] = content
        stored = self._newest.get()
        before: _Order | None = None if stored is None else (stored[0], stored[1])
        content_before = self._content(before)
        now = None if before is not None and before[1] in changed else before
        must_search = now is None and before is not None
        for record_key, content in changed.items():
            if content is None:
                self._rows.removeKey((record_key,))
                continue
            self._rows.updateValue((record_key,), (content,))
            order = _at(content), record_key
            now = order if now is None or order > now else now
        if must_search and (now is None or before is None or now < before):
            # the newest row is gone or older now, so any other may be the newest one
            for (record_key,), (content,) in self._rows.iterator():
                order = _at(content), record_key
                now = order if now is None or order > now else now
        if now is None:
            self._newest.clear()
        elif now != before:
            self._newest.update(now)
        content_now = self._content(now)
        if _rows(content_now) != _rows(content_before):
            yield from frames([(on, content_now)], ["key", "content"])

    def _content(self, order: _Order | None) -> str | None:
        row = None if order is None else self._rows.getValue((order[1],))
        return None if row is None else row[0]

    def close(self) -> None:
        pass


def _rows(content: str | None) -> Any:
    return None if content is None else orjson.loads(content)["rows"]


def _at(content: str) -> int:
    at: int = orjson.loads(content)["at"]
    return at
