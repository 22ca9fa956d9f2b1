"""Reads the values of a JSON object as the declared types of its fields.

A whole number, string and boolean is a Python value; a double is a finite float, a decimal a
``Decimal``, and a time a number of µs since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

from model.expressions.types import DECIMAL_DIGITS, TIME, AnyScalar, Kind, NumberTime, Type
from model.times import parse_instant

Value = str | int | float | Decimal | bool | list[str] | None
Read = Callable[[object], Value]

_PER_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0.001}
"""µs in a unit."""


def time_of_number(found: object, unit: str, low: int = TIME.low, high: int = TIME.high) -> int:
    """µs since 1970, from a number of s, ms, us or ns. ``low``, ``high``: its bounds in seconds.
    Raises ValueError."""
    if type(found) is int:
        at: float = found // 1000 if unit == "ns" else found * int(_PER_UNIT[unit])
    elif type(found) is float:
        at = found * _PER_UNIT[unit]
    else:
        raise ValueError("not a number")
    if not low * 1_000_000 <= at <= high * 1_000_000 + 999_999:
        raise ValueError(f"not within the years 1 to 9999 as {unit} since 1970")
    return round(at)


def text_of_scalar(found: object) -> str:
    """A text itself; a number or a boolean as JSON. Raises ValueError."""
    if type(found) is str:
        return found
    # A number beyond the range of a double has become an object.
    if not isinstance(found, int | float):
        raise ValueError("not a text, a number or a boolean")
    return json.dumps(found, allow_nan=False)


def double_of_number(found: object) -> float:
    """Raises ValueError."""
    if type(found) is not float and type(found) is not int:
        raise ValueError("not a number")
    try:
        number = float(found)
    except OverflowError:
        raise ValueError("not a number within the range of a double") from None
    if not abs(number) < float("inf"):
        raise ValueError("not a finite number")
    return number + 0.0  # -0.0 and 0.0 are equal, so one of them would be chosen by chance


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


def reader(of: Type) -> Read:
    """A function from a value in JSON to a value of the type; None if it is not one."""
    read = _reader(of)

    def read_or_null(found: object) -> Value:
        try:
            return read(found)
        except ValueError:
            return None

    return read_or_null


def _reader(of: Type) -> Read:
    if isinstance(of, NumberTime):
        return lambda found: time_of_number(found, of.unit, of.low, of.high)
    if isinstance(of, AnyScalar):
        return text_of_scalar
    if of.kind is Kind.DECIMAL:
        return lambda found: decimal_of_double(double_of_number(found), of.scale)
    if of.kind is Kind.INTEGER:
        return lambda found: found if type(found) is int and of.low <= found <= of.high else None
    return _READERS[of.kind]


def _time(found: object) -> int | None:
    return parse_instant(found) if type(found) is str else None


_READERS: dict[Kind, Read] = {
    Kind.STRING: lambda found: found if type(found) is str else None,
    Kind.BOOLEAN: lambda found: found if type(found) is bool else None,
    Kind.DOUBLE: double_of_number,
    Kind.TIME: _time,
}
