"""Reads the values of a JSON object as the declared types of its fields.

A whole number, string and boolean is a Python value; a double is a finite float, a decimal a
``Decimal``, and a time a number of µs since 1970. A list is a ``list``, a map a ``dict``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from model.expressions.signatures.signature import NUMBERS
from model.expressions.types import (
    DECIMAL_DIGITS,
    INT64_MAX,
    INT64_MIN,
    LISTS,
    TIME,
    AnyScalar,
    Kind,
    NumberTime,
    Objects,
    Type,
    element_type,
    unscaled,
)
from model.times import NOT_A_TIME, parse_instant

Value = str | int | float | Decimal | bool | list[str] | list[int] | dict[str, str] | None
Read = Callable[[object], Value]

NOT_A_NUMBER = "not a number"
NOT_A_STRING = "not a string"

_DIGITS = re.compile(r"-?[0-9]{1,1000}(\.[0-9]{1,1000})?", re.ASCII)
_PER_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0.001}
"""µs in a unit."""


def time_of_number(value: object, unit: str, low: int = TIME.low, high: int = TIME.high) -> int:
    """µs since 1970, from a number of s, ms, us or ns. ``low``, ``high``: its bounds in seconds.
    Raises ValueError."""
    if type(value) is int:
        at: float = value // 1000 if unit == "ns" else value * int(_PER_UNIT[unit])
    elif type(value) is float:
        at = value * _PER_UNIT[unit]
    else:
        raise ValueError(NOT_A_NUMBER)
    if not low * 1_000_000 <= at <= high * 1_000_000 + 999_999:
        raise ValueError(f"not within the years 1 to 9999 as {unit} since 1970")
    return round(at)


def text_of_scalar(value: object) -> str:
    """A text itself; a number or a boolean as JSON. Raises ValueError."""
    if type(value) is str:
        return value
    # A number beyond the range of a double has become an array.
    if not isinstance(value, int | float):
        raise ValueError("not a text, a number or a boolean")
    return json.dumps(value, allow_nan=False)


def double_of_number(value: object) -> float:
    """Raises ValueError."""
    if type(value) is not float and type(value) is not int:
        raise ValueError(NOT_A_NUMBER)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("not a number within the range of a double") from None
    if not abs(number) < float("inf"):
        raise ValueError("not a finite number")
    return number + 0.0  # -0.0 becomes 0.0: they are equal, so a result could be either


def number_of_digits(text: str) -> int | Decimal | None:
    """The number that a text such as -3.50 represents; None if it represents none."""
    digits = _DIGITS.fullmatch(text)
    if digits is None:
        return None
    return int(text) if digits[1] is None else Decimal(text)


def unquoted(value: object) -> object:
    """The number that a text such as -3.50 represents: a whole number if it is one, otherwise a
    double. Other values are returned unchanged."""
    digits = number_of_digits(value) if type(value) is str else None
    if isinstance(digits, Decimal):
        whole = int(digits)
        return whole if whole == digits else float(digits)
    return value if digits is None else digits


def unquoted_elements(value: object) -> object:
    """A list with `unquoted` elements. Other values are returned unchanged."""
    return list(map(unquoted, value)) if type(value) is list else value


def number(value: object) -> int | float:
    """A whole number of 64 bits, or a finite double. Raises ValueError."""
    if type(value) is int and INT64_MIN <= value <= INT64_MAX:
        return value
    if type(value) is float and abs(value) < float("inf"):
        return value
    raise ValueError(NOT_A_NUMBER)


def decimal_of_double(number: float, scale: int) -> Decimal:
    """Raises ValueError if the double has more digits than a decimal of this scale."""
    # The shortest text of a double has all digits that the JSON had, if those were at most 15.
    decimal = Decimal(repr(number))
    scaled = decimal.scaleb(scale)
    if scaled != scaled.to_integral_value():
        raise ValueError(f"more than {scale} digits after the point")
    if abs(scaled) >= 10**DECIMAL_DIGITS:
        raise ValueError(f"more than {DECIMAL_DIGITS} digits")
    return decimal


def reader(type_: Type, quotes_numbers: bool = False) -> Read:
    """A function from a value in JSON to a value of the type; None if it is not one.
    ``quotes_numbers``: a text of digits may be a number."""
    read = strict_reader(type_)
    is_quoted = quotes_numbers and is_of_number(type_)

    def read_or_null(value: object) -> Value:
        if is_quoted:
            value = unquoted(value)
        try:
            return None if value is None else read(value)
        except ValueError:
            return None

    return read_or_null


def is_of_number(type_: Type) -> bool:
    """Whether the values of the type are numbers in JSON."""
    return type_.kind in NUMBERS or isinstance(type_, NumberTime)


def strict_reader(type_: Type) -> Read:
    """A function from a value in JSON, except null, to a value of the type. It raises ValueError
    with the reason if the value is not one."""
    if isinstance(type_, NumberTime):
        return lambda value: time_of_number(value, type_.unit, type_.low, type_.high)
    if isinstance(type_, AnyScalar):
        return text_of_scalar
    if type_.kind is Kind.DECIMAL:
        return _decimal_reader(type_)
    if isinstance(type_, Objects):
        return _list_reader(_object_reader(type_))
    if type_.kind in LISTS:
        return _list_reader(strict_reader(element_type(type_)))
    if type_.kind is Kind.INTEGER:
        return _whole_reader(type_)
    return _READERS[type_.kind]


def not_of_type(type_: Type) -> str:
    """Why a value in JSON of another type is not read as this one."""
    if type_.kind is Kind.INTEGER:
        return f"not a whole number of {type_.bits} bits"
    return _NOT_OF_KIND[type_.kind]


def _whole_reader(type_: Type) -> Read:
    bound = 1 << (type_.bits - 1)
    low, high = type_.low, type_.high
    not_whole, not_within = not_of_type(type_), f"not within {low} to {high}"

    def read(value: object) -> int:
        if type(value) is int and low <= value <= high:
            return value
        is_whole = type(value) is int and -bound <= value < bound
        raise ValueError(not_within if is_whole else not_whole)

    return read


def _decimal_reader(type_: Type) -> Read:
    low, high, scale = type_.low, type_.high, type_.scale
    not_within = f"not within {Decimal(low).scaleb(-scale)} to {Decimal(high).scaleb(-scale)}"

    def read(value: object) -> Decimal:
        number = decimal_of_double(double_of_number(value), scale)
        if not low <= unscaled(number, scale) <= high:
            raise ValueError(not_within)
        return number

    return read


def _list_reader(read_element: Callable[[object], Any]) -> Read:
    def read(value: object) -> Value:
        if type(value) is not list:
            raise ValueError(_NOT_OF_KIND[Kind.STRINGS])
        elements = []
        for number, element in enumerate(value, 1):
            try:
                elements.append(read_element(element))
            except ValueError as error:
                raise ValueError(f"element {number}: {error}") from None
        return elements

    return read


def _object_reader(type_: Objects) -> Callable[[object], Any]:
    """A function from an object to the values of its declared members."""
    members = [(name, member.optional, strict_reader(member)) for name, member in type_.members]

    def read(value: object) -> dict[str, Value]:
        if type(value) is not dict:
            raise ValueError(_NOT_OF_KIND[Kind.MAP])
        values: dict[str, Value] = {}
        for name, is_optional, read_member in members:
            member = value.get(name)
            if member is None and not is_optional:
                raise ValueError(f"{name}: missing")
            try:
                values[name] = None if member is None else read_member(member)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return values

    return read


def _map(value: object) -> dict[str, str]:
    if type(value) is not dict:
        raise ValueError(_NOT_OF_KIND[Kind.MAP])
    texts = {}
    for name, member in value.items():
        if member is not None:
            try:
                texts[name] = text_of_scalar(member)
            except ValueError as error:
                raise ValueError(f"{str(name)[:40]}: {error}") from None
    return texts


def _string(value: object) -> str:
    if type(value) is not str:
        raise ValueError(NOT_A_STRING)
    return value


def _boolean(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError(_NOT_OF_KIND[Kind.BOOLEAN])
    return value


def _time(value: object) -> int:
    return parse_instant(_string(value))


_NOT_OF_KIND = {
    Kind.STRING: NOT_A_STRING,
    Kind.BOOLEAN: "not true or false",
    Kind.DOUBLE: NOT_A_NUMBER,
    Kind.NUMBER: NOT_A_NUMBER,
    Kind.DECIMAL: NOT_A_NUMBER,
    Kind.TIME: NOT_A_TIME,
    Kind.STRINGS: "not a list",
    Kind.LONGS: "not a list",
    Kind.OBJECTS: "not a list",
    Kind.MAP: "not an object",
}

_READERS: dict[Kind, Read] = {
    Kind.STRING: _string,
    Kind.BOOLEAN: _boolean,
    Kind.DOUBLE: double_of_number,
    Kind.NUMBER: number,
    Kind.TIME: _time,
    Kind.MAP: _map,
}
