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
_OF_DOUBLES = (
    "the sum of doubles depends on their order; declare the field as decimal(2), which has 2 "
    "digits after the point"
)

Names = Mapping[str, Expression]


def parse_aggregates(table: Mapping[str, Any], names: Names) -> tuple[Aggregate, ...]:
    """Raises TableError."""
    found = [each for key in FUNCTIONS if key in table for each in _parse(key, table[key], names)]
    if not found:
        raise TableError((), f"has no aggregate; add one of: {', '.join(FUNCTIONS)}")
    if len(found) > MAX_AGGREGATES:
        raise TableError((), f"has {len(found)} aggregates; at most {MAX_AGGREGATES} are allowed")
    known: dict[str, str] = {}
    for each in found:
        other = known.setdefault(each.name.lower(), each.function)
        if other != each.function:
            raise TableError((each.function,), f"{each.name} is also the name of a {other}")
    return tuple(found)


def parse_select(value: Any, names: Names) -> Select:
    """Parse ``"delay"``, ``["origin", "dest"]`` or ``{ day = "…" }``. Raises TableError."""
    path = ("select",)
    if isinstance(value, str):
        found = read_expression(value, path, names)
        _check_selected(found, path)
        return Select((("value", found),), single=True)
    if isinstance(value, list):
        if not all(isinstance(each, str) for each in value) or len(set(value)) < len(value):
            raise TableError(path, 'must be a list of different names: ["origin", "dest"]')
        for name in value:
            check_name(name, path)
        value = {name: name for name in value}
    table = read_table(
        value, path, MAX_SELECTED, 'select = ["origin"], { day = "…" } or an expression'
    )
    values = []
    for name, text in table.items():
        found = read_expression(text, (*path, name), names)
        _check_selected(found, (*path, name))
        values.append((name, found))
    return Select(tuple(values), single=False)


def select_all(names: Names) -> Select:
    """All fields of the record's value."""
    values = [(name, each) for name, each in names.items() if isinstance(each, Field)]
    return Select(tuple(values), single=False)


def _check_selected(found: Expression, path: tuple[str, ...]) -> None:
    if found.type.kind is Kind.STRINGS:
        raise TableError(path, "a list of strings is only for each")


def _parse(function: str, value: Any, names: Names) -> Iterator[Aggregate]:
    path = (function,)
    if function == "latest":
        by = read_expression(value, path, names, *_ORDERED)
        yield Aggregate(function, function, by, by.type)
    elif function == "top_k":
        if not isinstance(value, dict) or value.keys() != {"k", "by"}:
            check_keys(value if isinstance(value, dict) else {}, ("k", "by"), path)
            raise TableError(path, 'must be a table: top_k = { k = 3, by = "delay" }')
        k = read_number(value["k"], (*path, "k"), 1, MAX_K)
        by = read_expression(value["by"], (*path, "by"), names, *_ORDERED)
        yield Aggregate(function, function, by, STRINGS, k)
    elif isinstance(value, dict):
        for name, each in read_table(value, path, MAX_AGGREGATES, _example(function)).items():
            yield _simple(function, name, each, (*path, name), names)
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
    of = read_expression(value, path, names)
    if of.type.kind not in _KINDS[function]:
        if of.type.kind is Kind.DOUBLE and function in ("sum", "avg"):
            raise TableError(path, _OF_DOUBLES)
        allowed = " or ".join(f"a {kind}" for kind in _KINDS[function])
        raise TableError(path, f'"{value[:60]}" is a {of.type.kind}; it must be {allowed}')
    return Aggregate(function, name, of, _result(function, of.type))


def _result(function: str, of: Type) -> Type:
    if function == "avg":
        return DOUBLE.or_null(of.optional)
    if function == "distinct":
        return integer(0)
    if function == "sum" and of.kind is Kind.INTEGER:
        return integer(0 if of.low >= 0 else -(2**63), 0 if of.high <= 0 else 2**63 - 1)
    return of.never_null() if function == "sum" else of


def _example(function: str) -> str:
    if function == "count":
        return 'count = true, or count = { all = true, errors = "status >= 500" }'
    return f'{function} = "bytes", or {function} = {{ bytes = "bytes" }}'
