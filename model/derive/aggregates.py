"""Parses the aggregates of ``[views.NAME.derive]``, and the values that they aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from model.derive.derivation import Aggregate, Select
from model.derive.reading import (
    TableError,
    check_keys,
    check_name,
    read_expression,
    read_number,
    read_table,
)
from model.expressions.signatures.signature import RANGE_HINT
from model.expressions.tree import Expression, Field
from model.expressions.types import DOUBLE, STRINGS, Kind, Type, integer

FUNCTIONS = ("latest", "count", "sum", "min", "max", "avg", "distinct", "top_k")
IN_SESSIONS = ("count", "sum", "min", "max", "avg")
MAX_AGGREGATES = 32
MAX_SELECTED = 100
MAX_K = 100

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
_ORDERED = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIME)
_KINDS = {
    "sum": _NUMBERS,
    "avg": _NUMBERS,
    "min": _ORDERED,
    "max": _ORDERED,
    "distinct": (Kind.STRING, Kind.INTEGER),
}
_SUM_OF_DOUBLES = (
    'the sum of doubles depends on their order; declare the field as "decimal(2)", a number with 2 '
    'digits after the point, as in fields = { amount = "decimal(2)" }'
)
MAX_SUMMED_DIGITS = 28
"""A sum of up to 10^10 such decimals has 38 digits."""

Names = Mapping[str, Expression]


def parse_aggregates(table: Mapping[str, Any], names: Names) -> tuple[Aggregate, ...]:
    """Parse the aggregates of a table; none if the view is a map. Raises TableError."""
    aggregates: list[Aggregate] = []
    for key in FUNCTIONS:
        if key in table:
            aggregates += _parse(key, table[key], names)
    if len(aggregates) > MAX_AGGREGATES:
        raise TableError(
            (), f"has {len(aggregates)} aggregates; at most {MAX_AGGREGATES} are allowed"
        )
    functions: dict[str, str] = {}
    for aggregate in aggregates:
        function = functions.setdefault(aggregate.name.lower(), aggregate.function)
        if function != aggregate.function:
            raise TableError(
                (aggregate.function,), f"{aggregate.name} is also the name of a {function}"
            )
    return tuple(aggregates)


def parse_select(value: Any, names: Names) -> Select:
    """Parse ``"delay"``, ``["origin", "dest"]`` or ``{ day = "…" }``. Raises TableError."""
    path = ("select",)
    if isinstance(value, str):
        expression = read_expression(value, path, names)
        _check_selected(expression, path)
        return Select((("value", expression),), single=True)
    if isinstance(value, list):
        if not all(isinstance(name, str) for name in value) or len(set(value)) < len(value):
            raise TableError(path, 'must be a list of different names: ["origin", "dest"]')
        for name in value:
            check_name(name, path)
        value = {name: name for name in value}
    table = read_table(
        value, path, MAX_SELECTED, 'select = ["origin"], { day = "…" } or an expression'
    )
    values = []
    for name, text in table.items():
        expression = read_expression(text, (*path, name), names)
        _check_selected(expression, (*path, name))
        values.append((name, expression))
    return Select(tuple(values), single=False)


def select_all(names: Names) -> Select:
    """All fields of the record's value. Raises TableError."""
    values = [(name, field) for name, field in names.items() if isinstance(field, Field)]
    for _, field in values:
        _check_selected(field, ())
    return Select(tuple(values), single=False)


def _check_selected(expression: Expression, path: tuple[str, ...]) -> None:
    if expression.type.kind is Kind.OBJECTS:
        raise TableError(path, "a list of objects cannot be selected; it is for each")
    if expression.type.kind is Kind.MAP:
        raise TableError(
            path, "a map cannot be selected; write select = { colour = \"labels['colour']\" }"
        )


def _parse(function: str, value: Any, names: Names) -> Iterator[Aggregate]:
    path = (function,)
    if function == "latest":
        expression = read_expression(value, path, names, *_ORDERED)
        yield Aggregate(function, function, expression, expression.type)
    elif function == "top_k":
        if not isinstance(value, dict) or value.keys() != {"k", "by"}:
            check_keys(value if isinstance(value, dict) else {}, ("k", "by"), path)
            raise TableError(path, 'must be a table: top_k = { k = 3, by = "delay" }')
        k = read_number(value["k"], (*path, "k"), 1, MAX_K)
        expression = read_expression(value["by"], (*path, "by"), names, *_ORDERED)
        yield Aggregate(function, function, expression, STRINGS, k)
    elif isinstance(value, dict):
        for name, item in read_table(value, path, MAX_AGGREGATES, _example(function)).items():
            yield _simple(function, name, item, (*path, name), names)
    else:
        yield _simple(function, function, value, path, names)


def _simple(function: str, name: str, value: Any, path: tuple[str, ...], names: Names) -> Aggregate:
    if function == "count":
        if value is True:
            return Aggregate(function, name, None, integer(0))
        if not isinstance(value, str):
            raise TableError(path, f"{value!r} is not true or a condition: {_example(function)}")
        return Aggregate(
            function, name, read_expression(value, path, names, Kind.BOOLEAN), integer(0)
        )
    if not isinstance(value, str):
        raise TableError(path, f"{value!r} is not an expression: {_example(function)}")
    expression = read_expression(value, path, names)
    if expression.type.kind not in _KINDS[function]:
        if expression.type.kind is Kind.DOUBLE and function in ("sum", "avg"):
            raise TableError(path, _SUM_OF_DOUBLES)
        allowed = " or ".join(f"a {kind}" for kind in _KINDS[function])
        raise TableError(path, f'"{value[:60]}" is a {expression.type.kind}; it must be {allowed}')
    if function in ("sum", "avg") and expression.type.digits > MAX_SUMMED_DIGITS:
        raise TableError(
            path,
            f'"{value[:60]}" may have {expression.type.digits} digits, and a sum needs 10 more; '
            f"at most 38 are possible: {RANGE_HINT.rstrip(',')}",
        )
    return Aggregate(function, name, expression, _result(function, expression.type))


def _result(function: str, type_: Type) -> Type:
    if function == "avg":
        return DOUBLE.or_null(type_.optional)
    if function == "distinct":
        return integer(0)
    if function == "sum" and type_.kind is Kind.INTEGER:
        return integer(0 if type_.low >= 0 else -(2**63), 0 if type_.high <= 0 else 2**63 - 1)
    return type_.never_null() if function == "sum" else type_


def _example(function: str) -> str:
    if function == "count":
        return 'count = true, or count = { all = true, errors = "status >= 500" }'
    return f'{function} = "bytes", or {function} = {{ bytes = "bytes" }}'
