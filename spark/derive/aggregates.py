"""The aggregates of a derived view: columns for ``groupBy``, and the value from their results.

All results depend only on the set of records, never on their order: see each function.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from model.derive.derivation import Aggregate, Derivation, Select
from model.derive.fractions import IF_ANY, MILLIS, NONE, fraction_of
from model.expressions.tree import Call, Expression
from model.expressions.types import INT64_MAX, INT64_MIN, Kind, Type
from spark.derive.columns import column, condition, long
from spark.derive.numbers import decimal_type

Result = tuple[str, Column, str | None]
"""A field of the value: its name, column, and how the fraction of a time is written."""

_MICROS = ".SSSSSS"

_BY = "#by"
_SKETCH_BITS = 12
"""A sketch has 2^12 registers: the standard error is 1.6 %, and it takes 4 KiB."""


def grouped(derivation: Derivation) -> list[Column]:
    """The columns for ``agg``, with the names of the aggregates."""
    select = derivation.select
    return [
        _grouped(aggregate, select).alias(state_name(aggregate.name))
        for aggregate in derivation.aggregates
    ]


def results(derivation: Derivation) -> list[Result]:
    """The fields of the value, from the columns of ``grouped``, or in a map from those of a row.

    If ``latest`` is the only aggregate and selects several values, these are the fields.
    """
    select = derivation.select
    only = derivation.only
    if derivation.is_map and select is not None:
        return [(name, column(value), fraction_of(value)) for name, value in select.values]
    if only is not None and only.function == "latest" and select is not None and not select.single:
        return _selected(select, F.col(state_name(only.name)))
    return [_result(aggregate, select) for aggregate in derivation.aggregates]


def json_object(fields: Sequence[Result]) -> Column:
    """A JSON object; fields that are null are omitted."""
    return F.to_json(
        F.struct(*(_json_value(value, form).alias(name) for name, value, form in fields))
    )


def _json_value(value: Column, fraction: str | None) -> Column:
    """Times as text, such as 2013-01-01T10:17:00Z."""
    if fraction is None:
        return value
    if fraction != IF_ANY:
        return _written(value, fraction)
    micros = F.pmod(F.unix_micros(value), F.lit(1_000_000))
    written = F.when(micros == 0, _written(value, NONE))
    written = written.when(F.pmod(micros, F.lit(1000)) == 0, _written(value, MILLIS))
    return written.otherwise(_written(value, _MICROS))


def _written(time: Column, fraction: str) -> Column:
    return F.date_format(time, f"yyyy-MM-dd'T'HH:mm:ss{fraction}'Z'")


def bounded_sum(total: Column, type_: Type) -> Column:
    """A sum of whole numbers, which stops at the limits of int64 instead of failing."""
    bounded = F.least(total, F.lit(Decimal(INT64_MAX))) if type_.high > 0 else total
    return F.greatest(bounded, F.lit(Decimal(INT64_MIN))) if type_.low < 0 else bounded


def state_name(name: str) -> str:
    """The column that has the result of an aggregate."""
    return f"#{name}"  # not the name of a field


def _grouped(aggregate: Aggregate, select: Select | None) -> Column:
    expression = aggregate.expression
    if aggregate.function == "count":
        return F.count(F.lit(1)) if expression is None else F.count_if(condition(expression))
    assert expression is not None
    if aggregate.function == "sum":
        total = F.sum(exact(expression))
        if expression.type.kind is Kind.INTEGER:
            total = bounded_sum(total, aggregate.type).cast("long")
        return F.coalesce(total, F.lit(0).cast("long")) if expression.type.optional else total
    if aggregate.function == "avg":
        # The sum is exact: Spark's own average adds doubles, whose sum depends on their order.
        return F.try_divide(
            F.sum(exact(expression)).cast("double"), F.count(column(expression)).cast("double")
        )
    if aggregate.function == "min":
        return F.min(column(expression))
    if aggregate.function == "max":
        return F.max(column(expression))
    if aggregate.function == "distinct":
        # A sketch that was never merged estimates by the order of its updates. The union of a
        # sketch with itself counts as merged, so the estimate depends on its registers alone.
        sketch = F.hll_sketch_agg(column(expression), _SKETCH_BITS)
        return F.hll_sketch_estimate(F.hll_union(sketch, sketch))
    assert select is not None
    row = F.struct(*(column(value).alias(name) for name, value in _ranked(expression, select)))
    return F.max(row) if aggregate.function == "latest" else F.max_by(row, row, aggregate.k)


def _ranked(by: Expression, select: Select) -> list[tuple[str, Expression]]:
    """What decides which record is the greatest: ``by``, then all selected values. So two records
    that are equal in all these values have the same result."""
    first = next((value for value in select.values if value[1] == by), (_BY, by))
    return [first, *(value for value in select.values if value != first)]


def _selected(select: Select, row: Column) -> list[Result]:
    return [(name, row[name], fraction_of(expression)) for name, expression in select.values]


def _result(aggregate: Aggregate, select: Select | None) -> Result:
    state = F.col(state_name(aggregate.name))
    if aggregate.function in ("min", "max") and aggregate.expression is not None:
        return aggregate.name, state, fraction_of(aggregate.expression)
    if aggregate.function not in ("latest", "top_k"):
        return aggregate.name, state, None
    assert select is not None

    def value(row: Column) -> Column:
        fields = _selected(select, row)
        if select.single:
            [(_, of, fraction)] = fields
            return _json_value(of, fraction)
        return F.struct(*(_json_value(of, form).alias(name) for name, of, form in fields))

    if aggregate.function == "top_k":
        return aggregate.name, F.transform(state, value), None
    [(_, of, fraction), *_] = _selected(select, state)
    return (aggregate.name, of, fraction) if select.single else (aggregate.name, value(state), None)


def exact(expression: Expression) -> Column:
    """A whole number wider than 64 bits, so that sums cannot overflow; or a decimal."""
    if expression.type.kind is Kind.INTEGER:
        return long(expression).cast("decimal(19,0)")
    value = column(expression)
    return value.cast(decimal_type(expression.type)) if isinstance(expression, Call) else value
