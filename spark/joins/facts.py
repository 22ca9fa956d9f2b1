"""Joins of tables that change: the result follows every change of every table.

A topic is a table if its newest record for a key replaces the earlier ones, as in Kafka Streams'
``KTable``. Spark's own joins do not follow such changes: a join with a static table uses the rows
that the table had when a record arrived, and a join of two streams keeps the pairs with replaced
rows. Here the result only depends on the records, not on the order of reading, so a stream ends
with the same rows as a batch. No watermark limits the state: it has the newest row of each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark.joins.row_text import json_options, row_of_text, text_of_row

if TYPE_CHECKING:
    import pandas as pd

# Not the timestamp: compaction keeps the last record of a key in the log.
LOG_ORDER = ("partition", "offset")
"""The order of a topic's records, if all records of a key are in one partition."""

_FACTS = -1
_AS_TEXT = "row as text"  # decides between rows that are equal in `newest`
_ENCODED = ("key", "newest", "row", "on")
_INTEGERS = (BooleanType, ByteType, ShortType, IntegerType, LongType, StringType)


@dataclass(frozen=True, slots=True)
class Table:
    """The newest row of each ``key`` among ``rows``.

    ``key``: names of columns. ``newest``: names of columns; the row with the greatest values
    replaces the other rows of its key. These columns may be integers, strings, booleans, binary,
    dates and timestamps.
    """

    rows: DataFrame
    key: Sequence[str]
    newest: Sequence[str] = LOG_ORDER


@dataclass(frozen=True, slots=True)
class Reference:
    """A table, and the columns ``on`` of the facts that contain the table's key (a foreign key)."""

    table: Table
    on: Sequence[str]


def joined(facts: Table, buckets: int = 4, **references: Reference) -> DataFrame:
    """Each row of ``facts`` with its rows of the reference tables: a left join on foreign keys.

    The result has the columns of the facts, and for each reference a struct with its name, which is
    null if there is no row. A row is written again when the fact or one of its references changes.

    The facts are divided among ``buckets``. As with a ``GlobalKTable`` of Kafka Streams, each
    bucket has a copy of all references, so these must be small: some ten thousand rows. With more
    buckets, the state of each one is smaller. Another number of buckets needs a new checkpoint.
    """
    if duplicates := references.keys() & {*facts.rows.columns, "fact"}:
        raise ValueError(f"joined: {min(duplicates)} is the name of a reference and of a column")
    for name, reference in references.items():
        _check_types(name, facts, reference)
    tables = [reference.table for reference in references.values()]
    fact_rows = _encoded(facts, [reference.on for reference in references.values()])
    encoded = [_encoded(table, []) for table in tables]
    kinds = {rows.isStreaming for rows in (fact_rows, *encoded)}
    if kinds == {True, False}:
        raise ValueError("joined: streams and static tables; join static ones with DataFrame.join")
    if kinds == {True}:
        result = _as_stream(fact_rows, encoded, buckets)
    else:
        result = _as_batch(fact_rows, encoded)
    columns = [row_of_text(F.col("fact"), facts.rows.schema).alias("fact")]
    for number, (name, table) in enumerate(zip(references, tables, strict=True)):
        row = row_of_text(F.col(f"reference_{number}"), table.rows.schema)
        columns.append(row.alias(name))
    return result.select(*columns).select("fact.*", *references)


def merged(**tables: Table) -> DataFrame:
    """The rows of several tables with the same key: a full outer join on the key.

    The result has the key's columns, named as in the first table, and for each table a struct with
    its name, which is null if the table has no row. Spark's own aggregation does it, without
    Python.
    """
    first = next(iter(tables.values()))
    parts = []
    for name, table in tables.items():
        columns = [
            F.col(key).alias(column) for column, key in zip(first.key, table.key, strict=True)
        ]
        for column_name, column_table in tables.items():
            row = F.struct(*column_table.rows.columns)
            order = F.struct(*column_table.newest, F.to_json(row).alias(_AS_TEXT))
            if column_name != name:
                schema = StructType([StructField(column_name, column_table.rows.schema)])
                row = F.lit(None).cast(schema[column_name].dataType)
                order = F.lit(None).cast(_order_type(column_table))
            columns += [row.alias(column_name), order.alias(f"newest of {column_name}")]
        parts.append(table.rows.select(*columns))
    together = reduce(DataFrame.unionByName, parts)
    newest = [F.max_by(F.col(name), F.col(f"newest of {name}")).alias(name) for name in tables]
    return together.groupBy(*first.key).agg(*newest)


def _check_types(name: str, facts: Table, reference: Reference) -> None:
    """Raises ValueError if the keys of facts and those of the table never have the same JSON."""
    on = list(facts.rows.select(*reference.on).schema)
    keys = list(reference.table.rows.select(*reference.table.key).schema)
    if len(on) != len(keys):
        raise ValueError(f"{name}: on has {len(on)} columns, but the key has {len(keys)}")
    for fact_field, key_field in zip(on, keys, strict=True):
        if _form(fact_field.dataType) != _form(key_field.dataType):
            raise ValueError(
                f"{name}: {fact_field.name} is {fact_field.dataType.simpleString()}, but "
                f"{key_field.name} is {key_field.dataType.simpleString()}; cast one of them"
            )


def _form(data_type: DataType) -> str:
    """The form of a type. Values of types with the same form can have the same JSON."""
    if isinstance(data_type, ByteType | ShortType | IntegerType | LongType):
        return "decimal 0"
    if isinstance(data_type, DecimalType):
        return f"decimal {data_type.scale}"
    return "double" if isinstance(data_type, FloatType) else data_type.typeName()


def _order_type(table: Table) -> StructType:
    fields = [StructField(name, table.rows.schema[name].dataType) for name in table.newest]
    return StructType([*fields, StructField(_AS_TEXT, StringType())])


def _encoded(table: Table, foreign: Sequence[Sequence[str]]) -> DataFrame:
    """Rows as text, so that the state needs no schema: ``_ENCODED``, and ``order`` (typed)."""
    schema = table.rows.schema
    for name in table.newest:
        if not isinstance(schema[name].dataType, (*_INTEGERS, BinaryType, DateType, TimestampType)):
            raise ValueError(
                f"newest: {name} is {schema[name].dataType.simpleString()}; rows are compared by "
                "integers, strings, booleans, binary, dates and timestamps"
            )
    order = [_comparable(name, schema[name].dataType) for name in table.newest]
    keeps_nulls = {"ignoreNullFields": "false"}
    row = text_of_row(schema)
    return table.rows.select(
        _key(table.rows, table.key).alias("key"),
        F.to_json(F.struct(*order), keeps_nulls).alias("newest"),
        row.alias("row"),
        F.array(*(_key(table.rows, columns) for columns in foreign))
        .cast("array<string>")
        .alias("on"),
        F.struct(*order, row).alias("order"),
    ).where("key IS NOT NULL")


def _key(rows: DataFrame, columns: Sequence[str]) -> Column:
    """The values as JSON; null if one of them is null, because null equals nothing."""
    options = json_options([field.dataType for field in rows.select(*columns).schema])
    values = [F.col(name).alias(f"_{number}") for number, name in enumerate(columns)]
    has_all = reduce(Column.__and__, (F.col(name).isNotNull() for name in columns))
    return F.when(has_all, F.to_json(F.struct(*values), options))


def _comparable(name: str, data_type: DataType) -> Column:
    """The column, or a number or string in JSON that has the same order."""
    column = F.col(name)
    if isinstance(data_type, TimestampType):
        column = F.unix_micros(column)
    elif isinstance(data_type, DateType):
        column = F.unix_date(column)
    elif isinstance(data_type, BinaryType):
        column = F.hex(column)
    return column.alias(name)


def _as_batch(facts: DataFrame, references: Sequence[DataFrame]) -> DataFrame:
    result = _newest(facts).select(F.col("row").alias("fact"), "on")
    for number, rows in enumerate(references):
        reference = _newest(rows).select("key", F.col("row").alias(f"reference_{number}"))
        result = result.join(reference, F.col("on")[number] == F.col("key"), "left").drop("key")
    return result


def _newest(rows: DataFrame) -> DataFrame:
    latest = F.max_by(F.struct("row", "on"), "order")
    return rows.groupBy("key").agg(latest.alias("latest")).select("key", "latest.*")


def _as_stream(facts: DataFrame, references: Sequence[DataFrame], buckets: int) -> DataFrame:
    bucket = F.pmod(F.hash("key"), F.lit(buckets))
    parts = [facts.select(bucket.alias("bucket"), F.lit(_FACTS).alias("table"), *_ENCODED)]
    everywhere = F.explode(F.sequence(F.lit(0), F.lit(buckets - 1)))
    for number, rows in enumerate(references):
        parts.append(
            rows.select(everywhere.alias("bucket"), F.lit(number).alias("table"), *_ENCODED)
        )
    names = ["fact", *(f"reference_{number}" for number in range(len(references)))]
    return (
        reduce(DataFrame.unionByName, parts)
        .groupBy("bucket")
        .applyInPandasWithState(
            _update, ", ".join(f"{name} string" for name in names), "tables binary", "update",
            GroupStateTimeout.NoTimeout,
        )
    )  # fmt: skip


def _update(
    _: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The joined rows of a bucket that a micro-batch changes.

    For each table, the state has its rows by key: the value of ``newest``, the row, and, for facts,
    the keys of their references.
    """
    import pandas as pd  # only in Spark's workers: it takes half a second

    tables: dict[str, dict[str, list[Any]]] = orjson.loads(state.get[0]) if state.exists else {}
    changed: dict[int, set[str]] = {}
    width = 0
    for frame in frames:
        columns = [frame[name].tolist() for name in ("table", *_ENCODED)]
        for number, key, newest, row, on in zip(*columns, strict=True):
            table = tables.setdefault(str(number), {})
            order = [[value is not None, value] for value in orjson.loads(newest).values()]
            before = table.get(key)
            if before is None or [order, row] > before[:2]:
                table[key] = [order, row, list(on)]
                changed.setdefault(number, set()).add(key)
    facts = tables.get(str(_FACTS), {})
    state.update((orjson.dumps(tables),))
    changed_references = {number: keys for number, keys in changed.items() if number != _FACTS}
    changed_facts = changed.get(_FACTS, set())
    rows = []
    for key, (_order, row, on) in facts.items():
        width = len(on)
        if key in changed_facts or any(on[n] in keys for n, keys in changed_references.items()):
            references = (tables.get(str(n), {}).get(on_key) for n, on_key in enumerate(on))
            rows.append((row, *(None if stored is None else stored[1] for stored in references)))
    names = ["fact", *(f"reference_{number}" for number in range(width))]
    if rows:
        yield pd.DataFrame(rows, columns=names, dtype=object)
