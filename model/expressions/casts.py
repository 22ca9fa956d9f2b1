"""``try_cast(a as int)``: a value as another type, or null if it has no value of that type."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from model.expressions.exact import EXACT
from model.expressions.types import (
    BOOLEAN,
    DECIMAL_DIGITS,
    DOUBLE,
    INT64_MAX,
    INT64_MIN,
    STRING,
    Kind,
    Type,
    decimal,
    integer,
    unscaled,
)

_CASTS: dict[str, Type] = {
    "int": integer(-(2**31), 2**31 - 1),
    "long": integer(),
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "string": STRING,
}
_CASTS |= {
    f"decimal({scale})": decimal(1 - 10**DECIMAL_DIGITS, 10**DECIMAL_DIGITS - 1, scale)
    for scale in range(1, DECIMAL_DIGITS)
}
_SAME = {"integer": "int", "bigint": "long", "float": "double", "varchar": "string"}
_FROM = (Kind.STRING, Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.BOOLEAN)
_EXACT_NUMBERS = (Kind.STRING, Kind.INTEGER, Kind.DECIMAL)
_TEXTUAL = (Kind.STRING, Kind.INTEGER, Kind.BOOLEAN)
CAST_TYPES = "try_cast(a as …) has int, long, double, boolean, string and decimal(2)"


def cast_name(type_name: str) -> str | None:
    """The name of the function that casts to this type; None if there is none."""
    name = type_name.lower()
    name = _SAME.get(name, name)
    return f"try_cast {name}" if name in _CASTS else None


def cast_type(name: str, source: Type) -> Type:
    """The type of the result of a cast. Raises ValueError."""
    kind = name.removeprefix("try_cast ")
    target = _CASTS[kind]
    if source.kind not in _FROM:
        hint = ". Write date(a), or unix_millis(a)," if source.kind is Kind.TIME else ""
        raise ValueError(f"try_cast is not for a {source.kind}{hint}")
    if target.kind is Kind.DECIMAL and source.kind not in _EXACT_NUMBERS:
        raise ValueError(
            f"try_cast as {kind} is for text, whole numbers and decimals, not for a {source.kind}; "
            f'declare the field as "{kind}"'
        )
    if kind == "boolean" and source.kind not in (Kind.STRING, Kind.BOOLEAN):
        raise ValueError(f"try_cast as boolean is for text, not for a {source.kind}; write a <> 0")
    if kind == "string" and source.kind not in _TEXTUAL:
        raise ValueError(f"try_cast as string is for whole numbers, not for a {source.kind}")
    if kind == "string":
        return target.or_null(source.optional)  # every value of these types has a text
    return target.or_null()


CASTS = tuple(f"try_cast {name}" for name in _CASTS)

PLAIN_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{0,30})?", re.ASCII)
"""The texts that are cast to a decimal."""
_DIGITS = re.compile(r"([+-]?[0-9]{1,19})(?:\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_EXACT = 2**53
"""Above this, some whole numbers are not exactly a double."""


def cast_function(name: str, source: Type, target: Type) -> Callable[[Any], Any]:
    """The function of a cast from a value that is not null, in Python."""
    kind = name.removeprefix("try_cast ")
    if target.kind is Kind.DECIMAL:
        return _decimal_function(target)
    if kind == "string":
        return _text
    if kind == "boolean":
        return _boolean
    if kind == "double":
        return _double_of_text if source.kind is Kind.STRING else float
    whole: Callable[[Any], int | None] = (
        _whole_of_text if source.kind is Kind.STRING else _whole_of_number
    )

    def cast(value: Any) -> int | None:
        number = whole(value)
        return number if number is not None and target.low <= number <= target.high else None

    return cast


def _decimal_function(target: Type) -> Callable[[Any], Decimal | None]:
    step = Decimal(1).scaleb(-target.scale)

    def cast(value: str | int | Decimal) -> Decimal | None:
        if isinstance(value, str):
            text = value.strip(" ")
            if not PLAIN_DECIMAL.fullmatch(text):
                return None
            value = Decimal(text)
        number = Decimal(value).quantize(step, context=EXACT)
        return number if target.low <= unscaled(number, target.scale) <= target.high else None

    return cast


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _boolean(value: str | bool) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip(" ").lower())


def _double_of_text(value: str) -> float | None:
    text = value.strip(" ")
    number = float(text) if _NUMBER.fullmatch(text) else None
    return None if number is None or abs(number) == float("inf") else number + 0.0


def _whole_of_text(value: str) -> int | None:
    """42, 42.0 or 1e2."""
    digits = _DIGITS.fullmatch(value.strip(" "))
    if digits is not None and INT64_MIN <= int(digits[1]) <= INT64_MAX:
        return int(digits[1])
    number = _double_of_text(value)
    return None if number is None else _whole_of_number(number)


def _whole_of_number(value: int | float | Decimal) -> int | None:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else None
    return int(value) if abs(value) <= _EXACT and value.is_integer() else None
