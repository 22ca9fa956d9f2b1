"""The aggregates of the rows of one key, and the value of its entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from model.derive.derivation import Aggregate, Derivation, Select
from model.derive.evaluation.rows import Compiled, Row
from model.derive.fractions import fraction_of, time_text
from model.expressions.exact import EXACT
from model.expressions.tree import Expression
from model.expressions.types import INT64_MAX, INT64_MIN, Kind

Json = Any


def value_of(
    derivation: Derivation, rows: Sequence[Row], compiled: Compiled, is_object: bool
) -> Json:
    """The value of an entry from its rows, as JSON. ``is_object``: whether the value is an
    object even if the view has one aggregate only."""
    only = derivation.only
    if derivation.is_map and derivation.select is not None:
        value = _selected(derivation.select, rows[-1], compiled)
        if derivation.select.single and is_object:
            return _without_nulls({derivation.select.values[0][0]: value})
        return value
    if only is not None and only.function == "latest":
        select = derivation.select
        assert select is not None
        value = _latest(only, select, rows, compiled)
        return {only.name: value} if select.single and is_object else value
    results = {
        aggregate.name: _result(aggregate, derivation.select, rows, compiled)
        for aggregate in derivation.aggregates
    }
    if only is not None and not is_object:
        return results[only.name]
    return _without_nulls(results)


def _without_nulls(values: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in values.items() if value is not None}


def _result(
    aggregate: Aggregate, select: Select | None, rows: Sequence[Row], compiled: Compiled
) -> Json:
    function, expression = aggregate.function, aggregate.expression
    if function == "count":
        return sum(compiled.is_true(expression, row) for row in rows)
    assert expression is not None
    if function == "latest":
        assert select is not None
        return _latest(aggregate, select, rows, compiled)
    if function == "top_k":
        assert select is not None
        ranked = sorted(rows, key=_rank(expression, select, compiled), reverse=True)
        return [_selected(select, row, compiled) for row in ranked[: aggregate.k]]
    values = [compiled.value(expression, row) for row in rows]
    given = [value for value in values if value is not None]
    if function == "distinct":
        return len(set(given))
    if function in ("min", "max"):
        chosen = (min if function == "min" else max)(given) if given else None
        return _json(expression, chosen)
    total = _sum(expression, given)
    if function == "avg":
        return float(total) / len(given) if given else None
    if isinstance(total, int):
        return max(INT64_MIN, min(total, INT64_MAX))
    return _json(expression, total)


def _sum(expression: Expression, values: Sequence[int | Decimal]) -> int | Decimal:
    if expression.type.kind is Kind.INTEGER:
        return sum(map(int, values))
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def _latest(aggregate: Aggregate, select: Select, rows: Sequence[Row], compiled: Compiled) -> Json:
    assert aggregate.expression is not None
    return _selected(select, max(rows, key=_rank(aggregate.expression, select, compiled)), compiled)


def _rank(by: Expression, select: Select, compiled: Compiled) -> Callable[[Row], list[Any]]:
    """What decides which row is the greatest: ``by``, then all selected values. A null is less than
    all others."""
    others = [expression for _, expression in select.values]
    if by in others:
        others.remove(by)

    def rank(row: Row) -> list[Any]:
        values = [compiled.value(expression, row) for expression in (by, *others)]
        return [(value is not None, value) for value in values]

    return rank


def _selected(select: Select, row: Row, compiled: Compiled) -> Json:
    values = {
        name: _json(expression, compiled.value(expression, row))
        for name, expression in select.values
    }
    return next(iter(values.values())) if select.single else _without_nulls(values)


def _json(expression: Expression, value: Any) -> Json:
    """A time as text, a decimal with the digits of its scale."""
    if value is None:
        return None
    if expression.type.kind is Kind.TIME:
        return time_text(value, fraction_of(expression) or "")
    if expression.type.kind is Kind.DECIMAL:
        return value.quantize(Decimal(1).scaleb(-expression.type.scale), context=EXACT)
    return value
