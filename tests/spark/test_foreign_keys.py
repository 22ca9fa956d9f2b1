"""Joins by foreign keys: after any order of reading, restarts and replays, the rows of a batch."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.joins.foreign_keys import DELETED, NEW, with_tables

Record = tuple[str, str | None, str | None, str | None]
"""Key, the two foreign keys, and the row; a table has only its key and row."""
Side = list[Record]

_SCHEMA = "key string, first string, second string, row string, partition int, offset long"
_SIDES = ("left", "first", "second")


def sides(seed: int) -> dict[str, Side]:
    """Changes of all rows, foreign keys and deletions of both sides."""
    chance = random.Random(seed)

    def row(name: str) -> str | None:
        return chance.choice([f'{name} "é\\', f"{name}{chance.randrange(9)}", None, ""])

    def foreign() -> str | None:
        return chance.choice(["a", "b", "c", "none", None])

    left = [(f"k{chance.randrange(8)}", foreign(), foreign(), row(f"row{n} ")) for n in range(60)]
    tables = {
        name: [(chance.choice("abc"), None, None, row(f"{name}{n} ")) for n in range(12)]
        for name in _SIDES[1:]
    }
    return {"left": left, **tables}


def expected(records: dict[str, Side]) -> dict[str, list[str | None]]:
    """The join of the final tables, in plain Python."""
    final = {
        name: {key: (first, second, row) for key, first, second, row in side if row is not None}
        for name, side in records.items()
    }
    for name, side in records.items():
        for key, *_, row in {record[0]: record for record in side}.values():
            if row is None:
                final[name].pop(key, None)
    none = (None, None, None)
    return {
        key: [row, final["first"].get(first, none)[2], final["second"].get(second, none)[2]]
        for key, (first, second, row) in final["left"].items()
    }


def joined(frames: dict[str, DataFrame]) -> DataFrame:
    left = frames["left"].withColumn("on", F.array("first", "second"))
    tables = [frames[name].select("key", "partition", "offset", "row") for name in _SIDES[1:]]
    return with_tables(left.select("key", "partition", "offset", "on", "row"), tables)


@dataclass
class Query:
    """A stream over files. Each file is read in a micro-batch of its own."""

    session: SparkSession
    folder: Path
    written: list[list[tuple[str, str, list[str | None] | None]]] = field(default_factory=list)
    _next: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, side: Side) -> None:
        rows = [(*record, 0, self._next[name] + n) for n, record in enumerate(side)]
        self._next[name] += len(side)
        frame = self.session.createDataFrame(rows, _SCHEMA)
        frame.coalesce(1).write.mode("append").parquet(f"{self.folder}/{name}")

    def run(self) -> None:
        frames = {
            name: self.session.readStream.schema(_SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(f"{self.folder}/{name}")
            for name in _SIDES
        }

        def write(batch: DataFrame, _: int) -> None:
            self.written.append([(row["key"], row["kind"], row["rows"]) for row in batch.collect()])

        query = (
            joined(frames)
            .writeStream.outputMode("append")
            .option("checkpointLocation", f"{self.folder}/checkpoint")
            .foreachBatch(write)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)

    def forget_last_commit(self) -> None:
        """As after a crash between writing a micro-batch and committing it."""
        commits = self.folder / "checkpoint" / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()),
                   key=lambda path: int(path.name))  # fmt: skip
        last.unlink()

    def table(self) -> dict[str, list[str | None]]:
        found: dict[str, Any] = {}
        for key, _, rows in (row for batch in self.written for row in batch):
            found.pop(key, None)
            if rows is not None:
                found[key] = rows
        return found


def test_a_join_equals_that_of_the_final_tables(session: SparkSession, tmp_path: Path) -> None:
    records = sides(6)
    wanted = expected(records)
    matched = [[row is not None for row in rows[1:]] for rows in wanted.values()]
    assert [False, True] in matched
    assert [True, True] in matched

    static = {
        name: session.createDataFrame([(*record, 0, n) for n, record in enumerate(side)], _SCHEMA)
        for name, side in records.items()
    }
    batch = {row["key"]: row["rows"] for row in joined(static).collect()}
    assert batch == wanted

    query = Query(session, tmp_path)
    chance = random.Random(7)
    parts = {
        name: sorted(chance.choices(range(1, len(side)), k=3)) for name, side in records.items()
    }
    for run in range(2):
        for name, side in records.items():
            cuts = [0, *parts[name], len(side)][2 * run : 2 * run + 3]
            for start, end in pairwise(cuts):
                query.add(name, side[start:end])
        query.run()
        query.forget_last_commit()
    before = [*query.written[-1]]
    query.run()  # the last micro-batch again
    assert sorted(query.written[-1]) == sorted(before)
    assert query.table() == wanted
    for written in query.written:  # each key at most once in a micro-batch
        assert max(Counter(key for key, *_ in written).values(), default=1) == 1


def test_only_what_changes_is_written(session: SparkSession, tmp_path: Path) -> None:
    query = Query(session, tmp_path)
    query.add("left", [("1", "a", None, "x"), ("2", "b", None, "y"), ("3", None, None, "z")])
    query.add("first", [("a", None, None, "A"), ("b", None, None, "B")])
    query.add("second", [])
    query.run()
    assert sorted(query.written[0]) == [
        ("1", NEW, ["x", "A", None]), ("2", NEW, ["y", "B", None]), ("3", NEW, ["z", None, None]),
    ]  # fmt: skip
    query.add("left", [("3", None, None, None), ("4", "a", None, "w"), ("4", "a", None, None)])
    query.add("first", [("a", None, None, "A"), ("b", None, None, None)])
    query.run()
    assert sorted(query.written[1], key=str) == [
        ("2", "changed", ["y", None, None]), ("3", DELETED, None),
    ]  # fmt: skip


def test_a_static_table_is_refused(session: SparkSession, tmp_path: Path) -> None:
    static = session.createDataFrame([], _SCHEMA)
    stream = session.readStream.schema(_SCHEMA).parquet(str(tmp_path))
    with pytest.raises(ValueError, match=r"streams and static tables; join static ones"):
        joined({"left": stream, "first": static, "second": static})
