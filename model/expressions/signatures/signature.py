"""What a function or operator accepts, and the type of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from model.expressions.types import (
    DOUBLE,
    MAX_DIGITS,
    NUMBER,
    Kind,
    Type,
    WrongKindError,
    decimal,
)

NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.NUMBER})
ORDERED = NUMBERS | {Kind.STRING, Kind.TIME, Kind.JSON}
RANGE_HINT = 'give the fields a range, as in "long 0..1000000" or "decimal(2) 0..1000",'


class Argument(NamedTuple):
    """``literal``: the value, if it is written in the expression."""

    type: Type
    literal: str | int | bool | Decimal | None


Arguments = Sequence[Argument]
Typing = Callable[[Arguments], Type]


@dataclass(frozen=True, slots=True)
class Function:
    """``form``: how a call is written, with names for its arguments. ``arguments``, ``result``: the
    types. ``documentation``: what the result is, in a line of the docs. ``type_of``: the type of a
    call's result. Raises ValueError if the arguments are not allowed."""

    form: str
    arguments: str
    result: str
    documentation: str
    type_of: Typing


def check_count(name: str, arguments: Arguments, fewest: int, most: int) -> None:
    """Raise ValueError unless there are from ``fewest`` to ``most`` arguments."""
    if not fewest <= len(arguments) <= most:
        count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        noun = "argument" if count == "1" else "arguments"
        raise ValueError(f"{name} needs {count} {noun}, not {len(arguments)}")


def check(name: str, arguments: Arguments, *kinds: Kind, least: int | None = None) -> bool:
    """Check the number and the kinds of arguments. Returns True if one of them may be null."""
    check_count(name, arguments, len(kinds) if least is None else least, len(kinds))
    for number, (argument, kind) in enumerate(zip(arguments, kinds, strict=False), 1):
        if argument.type.kind is not kind:
            raise WrongKindError(
                f"argument {number} of {name} is a {argument.type.kind}, not a {kind}"
                f"{_cast_hint(name, argument.type.kind, kind)}"
            )
    return may_be_null(arguments)


def _cast_hint(name: str, given: Kind, needed: Kind) -> str:
    if name in ("and", "or"):
        return f". Write a = 1 {name} a = 2,"
    if given is Kind.STRING and needed is Kind.INTEGER:
        return ". Write try_cast(a as long),"
    if given is Kind.STRING and needed is Kind.TIME:
        return (
            ". Declare the field as \"time\", or write a time as timestamp '2026-01-01T10:00:00Z',"
        )
    if given is Kind.INTEGER and needed is Kind.TIME:
        return '. Declare the field as "time ms", or write timestamp_millis(a),'
    if given is Kind.INTEGER and needed is Kind.STRING:
        return ". Write try_cast(a as string),"
    if given is Kind.INTEGER and needed is Kind.BOOLEAN:
        return ". Write a <> 0,"
    return ""


def may_be_null(arguments: Arguments) -> bool:
    return any(argument.type.optional for argument in arguments)


def function(name: str, result: Type, *kinds: Kind) -> Typing:
    """The typing of a function with these kinds of arguments, which is null if one of them is."""

    def type_(arguments: Arguments) -> Type:
        return result.or_null(check(name, arguments, *kinds))

    return type_


def literal_int(name: str, argument: Argument, low: int, high: int) -> int:
    """The value of an argument that must be a literal whole number. Raises ValueError."""
    number = argument.literal
    if type(number) is not int or not low <= number <= high:
        raise ValueError(f"{name} must be a literal from {low} to {high}")
    return number


def literal_text(name: str, argument: Argument) -> str:
    """The value of an argument that must be a literal string. Raises ValueError."""
    if not isinstance(argument.literal, str):
        raise ValueError(f"{name} must be a literal")
    return argument.literal


def check_same_kind(name: str, kinds: set[Kind]) -> None:
    """Raise ValueError if values of different kinds are compared or mixed."""
    if len(kinds) > 1 and not kinds <= NUMBERS:
        hint = ""
        if kinds == {Kind.STRING, Kind.TIME}:
            hint = ". Write a time as timestamp '2026-01-01T10:00:00Z',"
        elif kinds == {Kind.INTEGER, Kind.STRING}:
            hint = ". Write try_cast(a as long) for a text, or a number without quotes,"
        elif kinds == {Kind.INTEGER, Kind.TIME}:
            hint = ". Write unix_millis(a) for a time, or timestamp_millis(a) for a number,"
        elif kinds == {Kind.BOOLEAN, Kind.STRING}:
            hint = ". Write true and false without quotes,"
        elif kinds == {Kind.BOOLEAN, Kind.INTEGER}:
            hint = ". Write true or false instead of 1 or 0,"
        raise WrongKindError(
            f"{name} has values of different types: {', '.join(sorted(kinds))}{hint}"
        )


def as_decimal(type_: Type, scale: int) -> Type:
    """The type of a whole number or decimal as a decimal with this scale, which is not smaller than
    its own."""
    factor: int = 10 ** (scale - type_.scale)
    return decimal(type_.low * factor, type_.high * factor, scale, type_.optional)


def check_digits(name: str, digits: int) -> None:
    if digits > MAX_DIGITS:
        raise ValueError(
            f"the result of {name} may have more than {MAX_DIGITS} digits; {RANGE_HINT}"
        )


def common_type(name: str, arguments: Arguments) -> Type:
    """The type of a result that is one of the arguments. Whole numbers and decimals become the
    decimal with the greatest scale, and numbers and doubles become a double. Raises ValueError."""
    kinds = {argument.type.kind for argument in arguments}
    check_same_kind(name, kinds)
    types = [argument.type for argument in arguments]
    optional = any(type_.optional for type_ in types)
    if len(kinds) > 1 and Kind.NUMBER in kinds:
        return NUMBER.or_null(optional)
    if len(kinds) > 1 and Kind.DOUBLE in kinds:
        return DOUBLE.or_null(optional)
    if Kind.DECIMAL in kinds:
        scale = max(type_.scale for type_ in types)
        types = [as_decimal(type_, scale) for type_ in types]
        check_digits(name, max(type_.digits for type_ in types))
    return replace(
        types[0],
        optional=optional,
        low=min(type_.low for type_ in types),
        high=max(type_.high for type_ in types),
        bits=max(type_.bits for type_ in types),
        subsecond=any(type_.subsecond for type_ in types),
    )
