"""The aggregates of a derived view: columns for ``groupBy``, and the value from their results.

All results depend only on the set of records, never on their order: see each function.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from model.derive.derivation import Aggregate, Derivation, Select
from model.derive.expressions import Expression
from model.derive.types import INT64_MAX, INT64_MIN, STRINGS, Kind, Type
from spark.derive.columns import column, condition, long

_BY = "#by"
_SKETCH_BITS = 12
"""A sketch has 2^12 registers: the standard error is 1.6 %, and it takes 4 KiB."""


def grouped(derivation: Derivation) -> list[Column]:
    """The columns for ``agg``, with the names of the aggregates."""
    select = derivation.select
    return [_grouped(each, select).alias(_state(each.name)) for each in derivation.aggregates]


def results(derivation: Derivation) -> list[tuple[str, Column, Type]]:
    """The name, column and type of each field of the value, from the columns of ``grouped``. The
    type of a structure or a list is of no importance.

    If ``latest`` is the only aggregate and selects several values, these are the fields.
    """
    select = derivation.select
    only = derivation.only
    if only is not None and only.function == "latest" and select is not None and not select.single:
        return _selected(select, F.col(_state(only.name)))
    return [_result(each, select) for each in derivation.aggregates]


def json_object(fields: Sequence[tuple[str, Column, Type]]) -> Column:
    """A JSON object; fields that are null are omitted."""
    return F.to_json(F.struct(*(json_value(of, type_).alias(name) for name, of, type_ in fields)))


def json_value(of: Column, type_: Type) -> Column:
    """Times as text, such as 2013-01-01T10:17:00Z; those of records have milliseconds."""
    if type_.kind is not Kind.TIME:
        return of
    fraction = ".SSS" if type_.subsecond else ""
    return F.date_format(of, f"yyyy-MM-dd'T'HH:mm:ss{fraction}'Z'")


def bounded_sum(total: Column, type_: Type) -> Column:
    """A sum of whole numbers, which stops at the limits of int64 instead of failing."""
    found = F.least(total, F.lit(Decimal(INT64_MAX))) if type_.high > 0 else total
    return F.greatest(found, F.lit(Decimal(INT64_MIN))) if type_.low < 0 else found


def _state(name: str) -> str:
    return f"#{name}"  # not the name of a field


def _grouped(each: Aggregate, select: Select | None) -> Column:
    of = each.of
    if each.function == "count":
        return F.count(F.lit(1)) if of is None else F.count_if(condition(of))
    assert of is not None
    if each.function == "sum":
        total = F.sum(_exact(of))
        if of.type.kind is Kind.INTEGER:
            total = bounded_sum(total, each.type).cast("long")
        return F.coalesce(total, F.lit(0).cast("long")) if of.type.optional else total
    if each.function == "avg":
        # The sum is exact: Spark's own average adds doubles, whose sum depends on their order.
        return F.try_divide(F.sum(_exact(of)).cast("double"), F.count(column(of)).cast("double"))
    if each.function == "min":
        return F.min(column(of))
    if each.function == "max":
        return F.max(column(of))
    if each.function == "distinct":
        # A sketch that was never merged estimates by the order of its updates. The union of a
        # sketch with itself counts as merged, so the estimate depends on its registers alone.
        sketch = F.hll_sketch_agg(column(of), _SKETCH_BITS)
        return F.hll_sketch_estimate(F.hll_union(sketch, sketch))
    assert select is not None
    row = F.struct(*(column(value).alias(name) for name, value in _ranked(of, select)))
    return F.max(row) if each.function == "latest" else F.max_by(row, row, each.k)


def _ranked(by: Expression, select: Select) -> list[tuple[str, Expression]]:
    """What decides which record is the greatest: ``by``, then all selected values. So two records
    that are equal in all of it have the same result."""
    first = next((each for each in select.values if each[1] == by), (_BY, by))
    return [first, *(each for each in select.values if each != first)]


def _selected(select: Select, row: Column) -> list[tuple[str, Column, Type]]:
    return [(name, row[name], of.type) for name, of in select.values]


def _result(each: Aggregate, select: Select | None) -> tuple[str, Column, Type]:
    found = F.col(_state(each.name))
    if each.function not in ("latest", "top_k"):
        return each.name, found, each.type
    assert select is not None

    def value(row: Column) -> Column:
        fields = _selected(select, row)
        if select.single:
            [(_, of, type_)] = fields
            return json_value(of, type_)
        return F.struct(*(json_value(of, type_).alias(name) for name, of, type_ in fields))

    if each.function == "top_k":
        return each.name, F.transform(found, value), each.type
    [(_, of, type_), *_] = _selected(select, found)
    return (each.name, of, type_) if select.single else (each.name, value(found), STRINGS)


def _exact(of: Expression) -> Column:
    """A whole number wider than 64 bits, so that a sum of them cannot overflow; or a decimal."""
    return long(of).cast("decimal(19,0)") if of.type.kind is Kind.INTEGER else column(of)
