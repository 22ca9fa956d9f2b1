"""Rows of a table with keys of their own, without Spark: any changes, in any micro-batches. After
each of them, a key has the newest of its rows, and each key is written at most once."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from spark.joins.foreign_keys import Subscriptions
from spark.joins.shared_keys import Owners
from tests.unit.spark.test_foreign_keys import started

RUNS = 60


class Record(NamedTuple):
    """``on``: the key of the row; None deletes it."""

    key: str
    offset: int
    on: str | None
    at: int
    row: str


def called(
    processor: StatefulProcessor, group: tuple[Any, ...], names: list[str], rows: list[Any]
) -> Iterator[tuple[Any, ...]]:
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    for results in processor.handleInputRows(group, iter([frame]), cast(Any, None)):
        yield from results.itertuples(index=False, name=None)


class Table:
    """The operators with the state of all their groups, and what was written."""

    def __init__(self) -> None:
        self._first = started(Subscriptions())
        self._second = defaultdict(lambda: started(Owners()))
        self.written: dict[str, str] = {}

    def read(self, records: list[Record]) -> None:
        """One micro-batch."""
        rows = [
            (record.key, 0, record.offset, record.on,
             None if record.on is None else json.dumps({"at": record.at, "rows": [record.row]}))
            for record in records
        ]  # fmt: skip
        groups = defaultdict(list)
        names = ["key", "partition", "offset", "on", "content"]
        for on, _, *message in called(self._first, ("bucket",), names, rows):
            groups[on].append(message)
        for on, messages in groups.items():
            columns = ["key", "kind", "content"]
            results = list(called(self._second[on], (on,), columns, messages))
            assert len(results) <= 1
            for key, content in results:
                assert key == on
                before = self.written.pop(key, None)
                if content is not None:
                    [self.written[key]] = json.loads(content)["rows"]
                assert self.written.get(key) != before, "only changes are written"


def wanted(records: list[Record]) -> dict[str, str]:
    final = {record.key: record for record in records}
    rows = [record for record in final.values() if record.on is not None]
    return {
        record.on: record.row
        for record in sorted(rows, key=lambda record: (record.at, record.key))
        if record.on is not None
    }


def test_the_newest_row_of_each_key_after_each_micro_batch() -> None:
    for seed in range(RUNS):
        chance = random.Random(seed)
        keys = chance.choice([2, 5])
        records = [
            Record(f"r{chance.randrange(keys)}", offset, chance.choice(["a", "b", "É", None]),
                   chance.randrange(4), chance.choice("xyz"))
            for offset in range(chance.randrange(1, 25))
        ]  # fmt: skip
        table, start = Table(), 0
        while start < len(records):
            end = start + chance.randrange(1, 6)
            table.read(records[start:end])
            assert table.written == wanted(records[:end]), seed
            start = end
