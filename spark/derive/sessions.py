"""Sessions with any sums, counts and extremes of whole numbers.

As in the view visits, a session appears with its first record, and each further record writes the
longer session and deletes those that it replaces.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StructField,
    StructType,
)

from model.derive.derivation import Aggregate, Derivation
from model.expressions.types import INT64_MAX, INT64_MIN
from spark.derive.columns import column, condition, long, time_name
from spark.event_time.sessions import merged, updated

if TYPE_CHECKING:
    import pandas as pd

START, END, LIVE = "#start", "#end", "#live"  # not the names of fields
_TIME = "#time"
_STATE = "sessions binary"

Numbers = tuple[int | None, ...]
_JOIN: dict[str, Callable[[int, int], int]] = {"sum": operator.add, "min": min, "max": max}


class Session(NamedTuple):
    """Times (ms) of the first and last record; ``functions`` (sum, min or max) join the ``numbers``
    of two sessions. None means no number."""

    start: int
    end: int
    numbers: Numbers
    functions: tuple[str, ...]

    def joined(self, later: Session) -> Session:
        triples = zip(self.functions, self.numbers, later.numbers, strict=True)
        numbers = tuple(
            b if a is None else a if b is None else _JOIN[function](a, b)
            for function, a, b in triples
        )
        return Session(self.start, max(self.end, later.end), numbers, self.functions)


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one key, updated by its records. Spark sends it to its workers.

    ``functions``: the functions of a record's columns ``#n0``, ``#n1``, …. ``aggregates``: the name
    and function of each result. An average has two numbers, all others have one.
    """

    key: str
    gap: int
    functions: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]

    def update(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """The changes that a micro-batch makes: deletions, then new and longer sessions."""
        new = (session for frame in frames for session in self._single(frame))
        yield self._frame(key[0], *updated(state, new, self.gap, self._unpacked, _packed))

    def all(self, key: tuple[Any, ...], records: pd.DataFrame) -> pd.DataFrame:
        """The sessions of all records."""
        return self._frame(key[0], (), merged(self._single(records), self.gap))

    def columns(self, key: DataType) -> StructType:
        """The columns of the result."""
        names = [(START, LongType()), (END, LongType()), (LIVE, BooleanType())]
        results = [
            (f"#{name}", DoubleType() if function == "avg" else LongType())
            for name, function in self.aggregates
        ]
        return StructType(
            [StructField(self.key, key), *(StructField(*column) for column in (*names, *results))]
        )

    def _single(self, records: pd.DataFrame) -> Iterator[Session]:
        times = records[_TIME].tolist()
        columns = [records[f"#n{n}"].tolist() for n in range(len(self.functions))]
        rows = zip(*columns, strict=True) if columns else iter([()] * len(times))
        for time, row in zip(times, rows, strict=True):
            numbers = tuple(None if number is None else int(number) for number in row)
            yield Session(time, time, numbers, self.functions)

    def _unpacked(self, content: bytes) -> list[Session]:
        return [
            Session(start, end, tuple(numbers), self.functions)
            for start, end, numbers in json.loads(content)
        ]

    def _frame(
        self, key: Any, ended: Iterable[Session], changed: Iterable[Session]
    ) -> pd.DataFrame:
        import pandas as pd  # only in Spark's workers: it takes half a second

        nothing = (None,) * len(self.aggregates)
        rows = [(key, session.start, session.end, False, *nothing) for session in ended]
        rows += [
            (key, session.start, session.end, True, *self._results(session)) for session in changed
        ]
        frame = pd.DataFrame(rows, columns=self.columns(LongType()).names)
        types = {START: "int64", END: "int64", LIVE: "bool"}
        types |= {
            f"#{name}": "Float64" if function == "avg" else "Int64"
            for name, function in self.aggregates
        }
        return frame.astype(types)

    def _results(self, session: Session) -> Iterator[int | float | None]:
        numbers = iter(session.numbers)
        for _, function in self.aggregates:
            number = next(numbers)
            if function == "avg":
                count = next(numbers)
                yield number / count if number is not None and count else None
            else:
                yield None if number is None else max(INT64_MIN, min(number, INT64_MAX))


def sessions(rows: DataFrame, derivation: Derivation, key: str) -> DataFrame:
    """Rows with the column ``key`` ► ``key``, ``START`` and ``END`` (ms), ``LIVE`` (false: deletes
    the session), and a column for each aggregate."""
    assert derivation.session is not None
    assert derivation.time is not None
    numbers = [number for aggregate in derivation.aggregates for number in _numbers(aggregate)]
    made = Sessions(
        key,
        derivation.session,
        tuple(function for function, _ in numbers),
        tuple((aggregate.name, aggregate.function) for aggregate in derivation.aggregates),
    )
    # As text, because pandas would turn numbers with nulls into doubles, which lose digits.
    columns = [number.cast("string").alias(f"#n{n}") for n, (_, number) in enumerate(numbers)]
    name = time_name(derivation.time)
    time = F.unix_millis(name).alias(_TIME)
    groups = rows.select(key, time, name, *columns).groupBy(key)
    schema = made.columns(rows.schema[key].dataType)

    # Functions, because Spark counts the arguments of a method wrongly.
    def update(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        return made.update(key, frames, state)

    def all_(key: tuple[Any, ...], records: pd.DataFrame) -> pd.DataFrame:
        return made.all(key, records)

    if not rows.isStreaming:
        return groups.applyInPandas(all_, schema)
    timeout = GroupStateTimeout.EventTimeTimeout
    return groups.applyInPandasWithState(update, schema, _STATE, "update", timeout)


def _numbers(aggregate: Aggregate) -> Iterator[tuple[str, Column]]:
    """Yields for each number of an aggregate: the function that joins it, and its column."""
    expression = aggregate.expression
    if aggregate.function == "count":
        counts = F.lit(True) if expression is None else condition(expression)
        yield "sum", counts.cast("long")
        return
    assert expression is not None
    number = long(expression)
    if aggregate.function == "sum":
        yield "sum", F.coalesce(number, F.lit(0)) if expression.type.optional else number
    elif aggregate.function == "avg":
        yield "sum", number
        yield "sum", F.when(column(expression).isNotNull(), F.lit(1).cast("long")).otherwise(0)
    else:
        yield aggregate.function, number


def _packed(merged_sessions: Iterable[Session]) -> bytes:
    # not orjson: a sum may have more than 64 bits
    return json.dumps(
        [(session.start, session.end, session.numbers) for session in merged_sessions]
    ).encode()
