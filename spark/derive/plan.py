"""The plan of a derived view: from decoded rows to the records of its topic."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.derive.derivation import Derivation, Join, Windows
from model.expressions.tree import Field
from model.kinds.calendar_windows import CalendarWindows
from spark.derive.aggregates import grouped, json_object, results
from spark.derive.columns import column, condition, key_column, time_name
from spark.derive.decoder import DELETED
from spark.derive.joins import IS_NEW, VALUE, followed, rekeyed, with_row
from spark.derive.sessions import END, LIVE, START, sessions
from spark.derive.tables import ROWS, counted
from spark.event_time.calendar import with_calendar_window
from spark.event_time.watermarks import NEVER
from spark.formats.keys import int64, session_key, window_key

_DOUBLE = struct.Struct(">d")
_KEY = "#key"  # not the name of a field
_WINDOW = "#window"
_OTHER_KEY, _OTHER_TIME = "#other key", "#other time"


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
        if derivation.pairs is not None:
            [other] = tables
            pairs = _pairs(prepared, other, derivation, derivation.pairs)
            if derivation.where is not None and derivation.where_is_last:
                pairs = pairs.where(condition(derivation.where))
            return self._mapped(pairs.withColumn(_KEY, key))
        if derivation.changing:
            return self._followed(prepared.withColumn(_KEY, key), tables)
        if derivation.is_rekeyed:
            return self._rekeyed(prepared.withColumn(_KEY, key))
        if derivation.is_map:
            return self._mapped(prepared.withColumn(_KEY, key))
        if derivation.is_table:
            groups = counted(prepared.withColumn(_KEY, key), derivation, _KEY)
            value = F.when(F.col(ROWS) > 0, self._value())
            return self._records(groups, self._bare_key(_KEY), value)
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

    def _mapped(self, rows: DataFrame) -> DataFrame:
        """The records of a view without aggregates, in the order of the rows: no shuffle. A row of
        a table that is deleted, or for which ``where`` is not true, deletes its key."""
        derivation, bare, value = self.derivation, self._bare_key(_KEY), self._value()
        if derivation.is_table:
            is_row = ~F.col(DELETED)
            if derivation.where is not None:
                is_row &= condition(derivation.where)
            value = F.when(is_row, value)
        if not derivation.points or derivation.time is None:
            return self._records(rows, bare, value)
        start = F.unix_millis(time_name(derivation.time))
        return self._records(rows, window_key(bare, start), value, bare)

    def _rekeyed(self, rows: DataFrame) -> DataFrame:
        """The records of a view that has the rows of a table with other keys: of each key, its
        newest row, or a deletion if no row has it any more."""
        is_row = ~F.col(DELETED) & F.col(_KEY).isNotNull()
        if self.derivation.where is not None:
            is_row &= condition(self.derivation.where)
        newest = rekeyed(rows, _KEY, F.when(is_row, self._value()))
        return self._records(newest, self._bare_key(_KEY), F.col(f"`{VALUE}`"))

    def _followed(self, rows: DataFrame, tables: Sequence[DataFrame]) -> DataFrame:
        """The records of a view that joins tables that change: of each key, the newest row with
        its rows of the tables. As in ``_mapped``, a row may delete its key."""
        derivation = self.derivation
        if not derivation.is_table:
            # A row without a key is one for which ``where`` is not true, with any row of a table.
            rows = rows.where(F.col(_KEY).isNotNull()).withColumn(DELETED, F.lit(False))
        pairs = zip(derivation.joins, tables, strict=True)
        changing = [table for join, table in pairs if not join.static]
        rows = followed(rows, _KEY, derivation.changing, changing)
        is_row = ~F.col(DELETED)
        if derivation.where is not None and (derivation.is_table or derivation.where_is_last):
            is_row &= condition(derivation.where)
        rows = rows.where(is_row | ~F.col(IS_NEW))
        return self._records(rows, self._bare_key(_KEY), F.when(is_row, self._value()))

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
    if more or not isinstance(first, Field) or "." in first.name:
        return _KEY
    return first.name


def _prepared(rows: DataFrame, tables: Sequence[DataFrame], derivation: Derivation) -> DataFrame:
    """The rows that count, each once. Of a table, all rows."""
    time = derivation.time
    # Both orders give the same rows, but filtering first keeps fewer rows in the state. Also, the
    # decoder does not check the time of a record that does not count, so that time must not move
    # the watermark.
    filters_first = derivation.filters_records and not derivation.is_table
    if derivation.where is not None and filters_first:
        rows = rows.where(column(derivation.where))
    identity = [*derivation.identity]
    if time is not None:
        name = time_name(time)
        if time.field is None:
            rows = rows.withColumn(name, column(time.expression))
        if not derivation.is_map or derivation.pairs:  # a map has no state to free
            rows = rows.withWatermark(f"`{name}`", NEVER)  # Spark parses this name
        # The time follows from the identity. With it, Spark knows when it can free the state.
        identity += [name] if identity and name not in identity else []
    if identity:
        rows = rows.dropDuplicates(identity)
    for join, table in zip(derivation.joins, tables, strict=True):
        if join.static:
            rows = with_row(rows, join, table)
    if derivation.each is not None:
        name, array = derivation.each
        rows = rows.withColumn(name, F.explode(column(array)))
    is_done = filters_first or derivation.is_table or derivation.where_is_last
    if derivation.where is not None and not is_done:
        rows = rows.where(column(derivation.where))
    return rows


def _pairs(rows: DataFrame, other: DataFrame, derivation: Derivation, join: Join) -> DataFrame:
    """Each row with each one of the other stream that has its key, within the time between them.
    Spark writes each pair once, and frees a row when no other one can match it."""
    stream = join.stream
    assert stream is not None
    assert stream.time is not None
    assert derivation.time is not None
    fields = F.struct(*(F.col(name) for name, _ in join.fields)).alias(join.name)
    others = _prepared(other, (), stream).select(
        key_column(stream).alias(_OTHER_KEY),
        F.col(time_name(stream.time)).alias(_OTHER_TIME),
        fields,
    )
    time, bound = f"`{time_name(derivation.time)}`", f"interval {join.within} milliseconds"
    is_near = F.expr(f"`{_OTHER_TIME}` >= {time} - {bound} and `{_OTHER_TIME}` <= {time} + {bound}")
    matches = (column(join.on) == F.col(_OTHER_KEY)) & is_near
    return rows.join(others, matches).drop(_OTHER_KEY, _OTHER_TIME)


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
