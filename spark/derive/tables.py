"""Aggregates of a table, which take back what they have counted when a row changes or is deleted.

The state has what each row contributes. A change of the row subtracts it from the group of the
earlier row, and adds the new contribution to that of the new one. All sums are exact, so the result
is that of the rows that the table has at the end, in any order of reading.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.derive.derivation import Aggregate, Derivation
from model.expressions.types import Kind
from spark.derive.aggregates import bounded_sum, exact, state_name
from spark.derive.columns import column, condition
from spark.derive.decoder import DELETED, ORDER
from spark.tables import CHANGE, changes

ROWS = "#rows"  # not the name of a field
"""A column of the result: how many rows the group has. Without rows, it has no values."""


def counted(rows: DataFrame, derivation: Derivation, key: str) -> DataFrame:
    """Rows of a table with the column ``key`` ► ``key``, ``ROWS`` and the aggregates, with the
    names that ``results`` reads."""
    is_row = ~F.col(DELETED) & F.col(key).isNotNull()
    if derivation.where is not None:
        is_row &= condition(derivation.where)
    parts = dict(_parts(derivation))
    given = rows.select(
        F.col("record_key").cast("binary").alias("key"),
        *(F.col(name).alias(of) for name, of in zip(ORDER, ("partition", "offset"), strict=True)),
        (~is_row).alias("deleted"),
        F.col(key),
        *(value.alias(name) for name, value in parts.items()),
    )
    changed = changes(given, key, *parts)
    results = [_result(aggregate).alias(state_name(aggregate.name))
               for aggregate in derivation.aggregates]  # fmt: skip
    return changed.groupBy(key).agg(F.sum(CHANGE).alias(ROWS), *results)


def _parts(derivation: Derivation) -> Iterator[tuple[str, Column]]:
    """What a row contributes to each aggregate: the names and values of columns."""
    for aggregate in derivation.aggregates:
        expression = aggregate.expression
        name = state_name(aggregate.name)
        if aggregate.function == "count":
            counts = F.lit(True) if expression is None else condition(expression)
            yield name, counts.cast("long")
            continue
        assert expression is not None
        yield name, exact(expression)
        if aggregate.function == "avg":
            yield _counted(name), column(expression).isNotNull().cast("long")


def _result(aggregate: Aggregate) -> Column:
    name, expression = state_name(aggregate.name), aggregate.expression
    if aggregate.function == "count":
        return _sum(name)
    assert expression is not None
    # One digit is enough for 1 and -1, and leaves all others for the sum.
    total = F.sum(F.col(name) * F.col(CHANGE).cast("decimal(1,0)"))
    if aggregate.function == "avg":
        return F.try_divide(total.cast("double"), _sum(_counted(name)).cast("double"))
    if expression.type.kind is Kind.INTEGER:
        total = bounded_sum(total, aggregate.type).cast("long")
    return F.coalesce(total, F.lit(0).cast("long")) if expression.type.optional else total


def _sum(name: str) -> Column:
    return F.sum(F.col(name) * F.col(CHANGE))


def _counted(name: str) -> str:
    return f"{name} count"
