"""The plan of a derived view: from decoded rows to the records of its topic."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.derive.derivation import Derivation, Windows
from model.expressions.tree import Field
from model.kinds.calendar_windows import CalendarWindows
from spark.derive.aggregates import grouped, json_object, results
from spark.derive.columns import column, key_column, time_name
from spark.derive.joins import with_row
from spark.derive.sessions import END, LIVE, START, sessions
from spark.event_time.calendar import with_calendar_window
from spark.event_time.watermarks import NEVER
from spark.formats.keys import int64, session_key, window_key

_DOUBLE = struct.Struct(">d")
_KEY = "#key"  # not the name of a field
_WINDOW = "#window"


@dataclass(frozen=True, slots=True)
class Plan:
    """A function of decoded rows, and of the tables that they are joined with. It returns ``key``,
    ``value``, and ``bare_key`` with windows or sessions.

    ``key`` and ``value``: the formats of the view's entry in views.toml.
    """

    derivation: Derivation
    key: str
    value: str

    def __call__(self, rows: DataFrame, *tables: DataFrame) -> DataFrame:
        derivation = self.derivation
        prepared = _prepared(rows, tables, derivation)
        key, name = key_column(derivation), _key_name(derivation)
        bare = self._bare_key(name)
        if derivation.session is not None:
            aggregated = sessions(prepared.withColumn(name, key), derivation, name)
            value = F.when(F.col(LIVE), self._value())
            return self._records(
                aggregated, session_key(bare, F.col(START), F.col(END)), value, bare
            )
        if derivation.shape == "keys" or derivation.time is None:
            aggregated = prepared.groupBy(key.alias(name)).agg(*grouped(derivation))
            return self._records(aggregated, bare, self._value())
        time = time_name(derivation.time)
        if derivation.window is None:
            window, start = F.col(time), F.unix_millis(time)
        else:
            if isinstance(derivation.window, CalendarWindows):
                prepared = with_calendar_window(prepared, time, derivation.window, _WINDOW)
                window = F.col(_WINDOW)
            else:
                window = _window(time, derivation.window).alias(_WINDOW)
            start = F.unix_millis(f"{_WINDOW}.start")
        aggregated = prepared.groupBy(window, key.alias(name)).agg(*grouped(derivation))
        return self._records(aggregated, window_key(bare, start), self._value(), bare)

    def _records(
        self, aggregated: DataFrame, key: Column, value: Column, bare: Column | None = None
    ) -> DataFrame:
        columns = [key.alias("key"), value.alias("value")]
        if bare is not None:
            columns.append(bare.alias("bare_key"))
        rows = aggregated.select(*columns)
        if self.value != "float64":
            return rows
        names = rows.columns
        binary = [F.col(name).cast("binary") for name in names if name != "value"]
        schema = ", ".join(f"{name} binary" for name in ["value", *names[:1], *names[2:]])
        return rows.select("value", *binary).mapInArrow(_with_double_bytes, schema)

    def _bare_key(self, name: str) -> Column:
        return int64(F.col(name)) if self.key == "int64" else F.col(name)

    def _value(self) -> Column:
        """The value from the results of the aggregates."""
        fields = results(self.derivation)
        if self.value == "json":
            return json_object(fields)
        [(_, value, _)] = fields
        if self.value == "float64":
            return value.cast("double")
        return int64(value) if self.value == "int64" else value


def _key_name(derivation: Derivation) -> str:
    """The name of the column with the key: the field's name, if the key is one record field."""
    first, *more = derivation.key
    if more or not isinstance(first, Field) or first.name in derivation.joined_fields:
        return _KEY
    return first.name


def _prepared(rows: DataFrame, tables: Sequence[DataFrame], derivation: Derivation) -> DataFrame:
    """The rows that count, each once."""
    time = derivation.time
    # Both orders give the same rows, but filtering first keeps fewer rows in the state. Also, the
    # decoder does not check the time of a record that does not count, so that time must not move
    # the watermark.
    filters_first = derivation.filters_records
    if derivation.filter is not None and filters_first:
        rows = rows.where(column(derivation.filter))
    identity = [*derivation.identity]
    if time is not None:
        name = time_name(time)
        if time.field is None:
            rows = rows.withColumn(name, column(time.expression))
        rows = rows.withWatermark(f"`{name}`", NEVER)  # Spark parses this name
        # The time follows from the identity. With it, Spark knows when it can free the state.
        identity += [name] if identity and name not in identity else []
    if identity:
        rows = rows.dropDuplicates(identity)
    for join, table in zip(derivation.joins, tables, strict=True):
        rows = with_row(rows, join, table)
    if derivation.each is not None:
        name, array = derivation.each
        rows = rows.withColumn(name, F.explode(column(array)))
    if derivation.filter is not None and not filters_first:
        rows = rows.where(column(derivation.filter))
    return rows


def _window(time: str, window: Windows) -> Column:
    size, advance = (f"{ms} milliseconds" for ms in (window.size, window.advance))
    return F.window(time, size, None if window.advance == window.size else advance)


def _with_double_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replaces a double by its 8 bytes, as Kafka's DoubleSerializer writes it. Spark has no
    function for that."""
    for batch in batches:
        numbers = batch.column("value").to_pylist()
        packed = [None if number is None else _DOUBLE.pack(number) for number in numbers]
        yield batch.set_column(
            batch.schema.get_field_index("value"), "value", pa.array(packed, pa.binary())
        )
