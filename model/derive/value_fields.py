"""The fields of the JSON values of a derived view, and their types."""

from __future__ import annotations

from collections.abc import Iterator

from model.derive.derivation import Aggregate, Derivation, Select
from model.expressions.types import DECIMAL_DIGITS, DOUBLE, LONGS, STRINGS, Kind, Type
from model.formats.format import DeclaredField


def value_fields(derivation: Derivation) -> Iterator[DeclaredField]:
    """The fields of values that are JSON objects. A decimal that may have more than 15 digits is a
    double: that is how conditions read it."""
    select, only = derivation.select, derivation.only
    is_row = derivation.is_map or (only is not None and only.function == "latest")
    if is_row and select is not None and (derivation.is_map or not select.single):
        yield from _selected(select)
        return
    for aggregate in derivation.aggregates:
        if aggregate.function == "latest" and select is not None and not select.single:
            yield from _selected(select, (aggregate.name,))
        elif (type_ := _type_of(aggregate, select)) is not None:
            yield (aggregate.name,), type_


def _selected(select: Select, prefix: tuple[str, ...] = ()) -> Iterator[DeclaredField]:
    for name, expression in select.values:
        yield (*prefix, name), _read(expression.type)


def _type_of(aggregate: Aggregate, select: Select | None) -> Type | None:
    if aggregate.function == "sum" and aggregate.type.kind is Kind.DECIMAL:
        return DOUBLE.or_null(aggregate.type.optional)  # it grows beyond the type of its numbers
    if aggregate.function not in ("latest", "top_k"):
        return _read(aggregate.type)
    if select is None or not select.single:
        return None  # a list of objects
    [(_, expression)] = select.values
    if aggregate.function == "latest":
        return _read(expression.type)
    if expression.type.optional:
        return None
    is_text = expression.type.kind in (Kind.STRING, Kind.TIME)
    return STRINGS if is_text else LONGS if expression.type.kind is Kind.INTEGER else None


def _read(type_: Type) -> Type:
    is_long = type_.kind is Kind.DECIMAL and type_.scale and type_.digits > DECIMAL_DIGITS
    return DOUBLE.or_null(type_.optional) if is_long else type_
