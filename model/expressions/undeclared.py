"""Fields without a declared type: how they are read follows from what they are used with.

``delay > 60`` reads ``delay`` as a number, and ``lower(name)`` reads ``name`` as a string. A value
of another type is null. Two such fields are compared if their values have one JSON type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from model.expressions.tree import Call, Expression, Literal
from model.expressions.types import (
    BOOLEAN,
    NUMBER,
    STRING,
    TIME,
    Kind,
    Type,
    WrongKindError,
    integer,
)

_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.NUMBER})

TypeOfCall = Callable[[tuple[Expression, ...]], Type]
"""The type of a call with these arguments. Raises ValueError if they are not allowed."""


def with_types(
    arguments: tuple[Expression, ...], type_of: TypeOfCall
) -> tuple[tuple[Expression, ...], Type]:
    """The arguments, with types for the fields without a declared type, and the call's type. Raises
    ValueError if no type fits."""
    try:
        return arguments, type_of(arguments)
    except ValueError:
        if not any(argument.type.kind is Kind.JSON for argument in arguments):
            raise
        for type_ in _candidates(arguments):
            typed = tuple(read_as(argument, type_) for argument in arguments)
            try:
                return typed, type_of(typed)
            except WrongKindError:
                continue
        raise


def read_as(expression: Expression, type_: Type) -> Expression:
    """An expression whose value is that of a field without a declared type, such as ``coalesce(a,
    b)``: its fields get this type. Other expressions are returned unchanged."""
    if expression.type.kind is not Kind.JSON or isinstance(expression, Literal):
        return expression
    if isinstance(expression, Call):
        arguments = tuple(read_as(argument, type_) for argument in expression.arguments)
        return Call(expression.function, arguments, type_.or_null())
    return replace(expression, type=type_.or_null())


def _candidates(arguments: tuple[Expression, ...]) -> Iterator[Type]:
    others = [argument.type for argument in arguments if argument.type.kind is not Kind.JSON]
    if any(other.kind in _NUMBERS for other in others):
        yield NUMBER
    elif any(other.kind is Kind.TIME for other in others):
        yield TIME  # a text, also if the other time is a number in JSON
    elif others:
        yield others[0]
    yield from (STRING, NUMBER, integer(), BOOLEAN, TIME)
