"""Joins by foreign keys without Spark: any changes, in any micro-batches, in any order within."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import orjson
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark.joins.foreign_keys import NEW, Matches, Subscriptions


class Values:
    """A value, as Spark keeps it for a group."""

    def __init__(self) -> None:
        self._value: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self._value

    def update(self, value: tuple[Any, ...]) -> None:
        self._value = value

    def clear(self) -> None:
        self._value = None


class Map(dict[tuple[Any, ...], tuple[Any, ...]]):
    """A map, as Spark keeps it for a group."""

    getValue = dict.get
    updateValue = dict.__setitem__

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self.pop(key, None)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return iter([*self.items()])


class Handle:
    def getMapState(self, *_: str) -> Map:
        return Map()

    def getValueState(self, *_: str) -> Values:
        return Values()


def started(processor: StatefulProcessor) -> StatefulProcessor:
    processor.init(cast(StatefulProcessorHandle, Handle()))
    return processor


class Change(NamedTuple):
    """A change of the table with this number, -1: the left side. ``row``: None deletes it."""

    table: int
    key: str
    on: tuple[str | None, ...]
    row: str | None


class Join:
    """The operators with the state of all their groups."""

    def __init__(self, seed: int, tables: int) -> None:
        self._random = random.Random(seed)
        self._first = [started(Subscriptions()) for _ in range(tables)]
        self._second = [defaultdict(lambda: started(Matches())) for _ in range(tables)]
        self._offset = 0
        self.table: dict[str, list[str | None]] = {}

    def read(self, changes: Sequence[Change]) -> None:
        """One micro-batch."""
        records = [(change, self._offset + n) for n, change in enumerate(changes)]
        self._offset += len(records)
        rows = [
            (c.key, 0, offset, c.on, None if c.row is None else _content([c.row], c.on))
            for c, offset in records
            if c.table == -1
        ]
        results: list[tuple[Any, ...]] = []
        for number, first in enumerate(self._first):
            left = [(key, part, offset, on[number], text) for key, part, offset, on, text in rows]
            groups = defaultdict(list)
            for on, lone, *message in self._called(
                first, ("bucket",), ["key", "partition", "offset", "on", "content"], left
            ):
                groups[on, lone].append((*message, 0, 0))
            for change, offset in records:
                if change.table == number:
                    groups[change.key, None].append((None, "table", change.row, 0, offset))
            columns = ["key", "kind", "content", "partition", "offset"]
            results = [
                result
                for group, messages in groups.items()
                for result in self._called(self._second[number][group], group, columns, messages)
            ]
            rows = [
                (key, 0, 0, orjson.loads(text)["on"] if text else (None,) * 2, text)
                for key, _, text in results
            ]
        assert max(Counter(key for key, *_ in results).values(), default=1) == 1
        for key, kind, text in results:
            assert kind != NEW or key not in self.table
            self.table.pop(key, None)
            if text is not None:
                self.table[key] = orjson.loads(text)["rows"]

    def _called(
        self, processor: StatefulProcessor, key: Any, columns: list[str], rows: list[Any]
    ) -> list[tuple[Any, ...]]:
        """The rows of a group in any order, in two frames."""
        if not rows:
            return []
        self._random.shuffle(rows)
        cut = self._random.randrange(len(rows) + 1)
        frames = [
            pd.DataFrame(part, columns=columns, dtype=object) for part in (rows[:cut], rows[cut:])
        ]
        found = processor.handleInputRows(key, iter(frames), cast(Any, None))
        return [row for frame in found for row in frame.itertuples(index=False, name=None)]


def _content(rows: list[str], on: tuple[str | None, ...]) -> str:
    return orjson.dumps({"rows": rows, "on": on}).decode()


def expected(changes: Sequence[Change]) -> dict[str, list[str | None]]:
    final: dict[int, dict[str, Change]] = defaultdict(dict)
    for change in changes:
        final[change.table].pop(change.key, None)
        if change.row is not None:
            final[change.table][change.key] = change

    def row(table: int, on: str | None) -> str | None:
        found = final[table].get(on or "")
        return None if found is None else found.row

    return {
        key: [change.row, *(row(table, on) for table, on in enumerate(change.on))]
        for key, change in final[-1].items()
    }


rows = st.one_of(st.none(), st.sampled_from(["a", "b", 'é "\\']))
foreign = st.one_of(st.none(), st.sampled_from("xyz"))
lefts = st.builds(Change, st.just(-1), st.sampled_from("1234"), st.tuples(foreign, foreign), rows)
tables = st.builds(Change, st.sampled_from([0, 1]), st.sampled_from("xyz"), st.just(()), rows)


@pytest.mark.slow
@given(st.lists(st.lists(st.one_of(lefts, tables), max_size=8), max_size=8), st.integers(0, 99))
def test_the_result_is_the_join_of_the_final_tables(batches: list[list[Change]], seed: int) -> None:
    join = Join(seed, 2)
    for number, batch in enumerate(batches):
        join.read(batch)
        assert join.table == expected([change for part in batches[: number + 1] for change in part])


def test_the_rows_of_one_record_have_an_order() -> None:
    """A record may become several rows with one key. The greatest one counts."""
    for row in ("a", "b"):
        first = started(Subscriptions())
        frames = [
            pd.DataFrame(
                [("k", 0, 0, "x", _content([text], ("x",)))],
                columns=["key", "partition", "offset", "on", "content"],
            )
            for text in ("b", row, "a")
        ]
        [found] = first.handleInputRows(("bucket",), iter(frames), cast(Any, None))
        assert [orjson.loads(text)["rows"] for text in found["content"]] == [["b"]]


def test_a_change_of_a_table_is_written_in_frames_of_bounded_size() -> None:
    second = started(Matches())
    columns = ["key", "kind", "content", "partition", "offset"]
    left = [(f"{n}", NEW, _content(["row"], ("x",)), 0, 0) for n in range(2500)]
    given_ = [pd.DataFrame(left, columns=columns)]
    assert sum(map(len, second.handleInputRows(("x", None), iter(given_), cast(Any, None)))) == 2500
    changed = [pd.DataFrame([(None, "table", "row", 0, 5)], columns=columns)]
    found = [*second.handleInputRows(("x", None), iter(changed), cast(Any, None))]
    assert [len(frame) for frame in found] == [1000, 1000, 500]
