"""The types of fields and expressions.

    string  any  int  long  double  decimal(S)  boolean  time  time UNIT  strings  longs  map

``int`` has 32 bits, ``long`` 64. ``decimal(S)`` has 15 digits, S of them after the point. ``time``
is a time in UTC, from text; ``time ms`` from a number of ms since 1970. ``strings`` and ``longs``
are lists, ``map`` is an object whose values are read as text. ``any`` is a text, number or boolean,
read as text. Integers and decimals have a range, so that a calculation that could overflow is
refused before it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from enum import StrEnum

from model.expressions.sql_types import type_hint

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_INT32 = (-(2**31), 2**31 - 1)
DECIMAL_DIGITS = 15
"""The digits of a decimal field. More digits of a JSON number may be lost, because it is read as a
double."""
_WIDE = Context(prec=80)
MAX_DIGITS = 38
"""The digits of a decimal that is calculated, as in Spark."""

_FIELD_TYPE = re.compile(
    r"(?P<kind>strings?|any|int|longs?|double|boolean|time|map|decimal\((?P<scale>[0-9]{1,2})\))"
    r"(?P<optional>\?)?"
    r"( (?P<unit>s|ms|us|ns))?"
    r"( (?P<low>-?[0-9]{1,20}(\.[0-9]{1,14})?)\.\.(?P<high>-?[0-9]{1,20}(\.[0-9]{1,14})?))?",
    re.ASCII,
)


class Kind(StrEnum):
    STRING = "string"
    INTEGER = "whole number"
    DOUBLE = "double"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TIME = "time"
    STRINGS = "list of strings"
    LONGS = "list of whole numbers"
    OBJECTS = "list of objects"
    MAP = "map of strings"
    NUMBER = "number"
    JSON = "value of a field without a declared type"


class WrongKindError(ValueError):
    """An argument is of a kind that the function or operator does not take."""


@dataclass(frozen=True, slots=True)
class Type:
    """``optional``: whether a value may be null. ``low``, ``high``: the range of an integer, of a
    decimal in units of its last digit, or of a time in seconds since 1970; inclusive. ``scale``: of
    a decimal. ``bits``: of an integer field. ``subsecond``: whether a time may have
    milliseconds."""

    kind: Kind
    optional: bool = False
    low: int = INT64_MIN
    high: int = INT64_MAX
    scale: int = 0
    bits: int = 64
    subsecond: bool = False

    def __str__(self) -> str:
        return f"{self.kind}{' that may be null' if self.optional else ''}"

    def or_null(self, optional: bool = True) -> Type:
        return replace(self, optional=self.optional or optional)

    def never_null(self) -> Type:
        return replace(self, optional=False)

    @property
    def digits(self) -> int:
        """The number of digits that a whole number or a decimal may have, at least ``scale``."""
        return max(len(str(max(-self.low, self.high, 0))), self.scale, 1)

    @property
    def may_be_zero(self) -> bool:
        return self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class NumberTime(Type):
    """The type of a time that is a number in JSON. ``unit``: s, ms, us or ns since 1970."""

    unit: str = "ms"


@dataclass(frozen=True, slots=True)
class AnyScalar(Type):
    """The type of a field whose values are text, numbers or booleans, which are read as text."""


@dataclass(frozen=True, slots=True)
class Objects(Type):
    """The type of a list of objects. ``members``: the name and type of their fields."""

    members: tuple[tuple[str, Type], ...] = ()


STRING = Type(Kind.STRING)
BOOLEAN = Type(Kind.BOOLEAN)
DOUBLE = Type(Kind.DOUBLE)
STRINGS = Type(Kind.STRINGS)
LONGS = Type(Kind.LONGS)
MAP = Type(Kind.MAP)
LISTS = frozenset({Kind.STRINGS, Kind.LONGS})
COLLECTIONS = LISTS | {Kind.OBJECTS, Kind.MAP}
_COLLECTION_NAMES = {"strings": Kind.STRINGS, "longs": Kind.LONGS, "map": Kind.MAP}
_KIND_NAMES = {kind: name for name, kind in _COLLECTION_NAMES.items()} | {
    Kind.STRING: "string",
    Kind.DOUBLE: "double",
    Kind.BOOLEAN: "boolean",
    Kind.TIME: "time",
}
NUMBER = Type(Kind.NUMBER, optional=True)
"""A whole number of 64 bits, or a double: a number in JSON whose type is not declared."""
JSON = Type(Kind.JSON, optional=True)
"""Any value in JSON. What it is compared with, or given to, decides how it is read."""
MAX_SECONDS = INT64_MAX // 10**6
"""Spark's times are microseconds."""
# The years 1 to 9999. In UTC, one more day before and after them.
TIME = Type(Kind.TIME, low=-62_135_683_200, high=253_402_387_199)
TIMESTAMP = NumberTime(Kind.TIME, low=-MAX_SECONDS, high=MAX_SECONDS, subsecond=True, unit="us")
"""The timestamp of a record."""


def integer(low: int = INT64_MIN, high: int = INT64_MAX, optional: bool = False) -> Type:
    return Type(Kind.INTEGER, optional, low, high)


def decimal(low: int, high: int, scale: int, optional: bool = False) -> Type:
    """``low``, ``high``: in units of the last digit."""
    return Type(Kind.DECIMAL, optional, low, high, scale=scale)


def unscaled(value: Decimal, scale: int) -> int:
    """The number of units of the last digit; further digits are left out."""
    return int(value.scaleb(scale, _WIDE))


def element_type(collection: Type) -> Type:
    """The type of the elements of a list, or of the values of a map."""
    return integer() if collection.kind is Kind.LONGS else STRING


def decimal_literal(value: Decimal) -> Type:
    """The type of a literal decimal. Raises ValueError."""
    scale = -int(value.as_tuple().exponent)
    if scale >= DECIMAL_DIGITS or abs(value.scaleb(scale)) >= 10**DECIMAL_DIGITS:
        raise ValueError(
            f"a decimal has up to {DECIMAL_DIGITS} digits, {DECIMAL_DIGITS - 1} of them after the "
            "point"
        )
    return decimal(unscaled(value, scale), unscaled(value, scale), scale)


def time_literal(micros: int) -> Type:
    """The type of a literal time, in µs since 1970."""
    second = micros // 1_000_000
    return replace(TIME, low=second, high=second)


def parse_field_type(text: str) -> Type:
    """Parse a type such as ``int? 0..59``. Raises ValueError."""
    match = _FIELD_TYPE.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text[:40]}" is not a type; {type_hint(text)}use string, any, int, long, double, '
            'decimal(2), boolean or time, or "time ms" for a number of ms since 1970 (s, ms, us, '
            "ns); strings or longs for a list, map for an object; with ? if it may be null; "
            'numbers with a range, as in "int? 0..59"'
        )
    optional = match["optional"] is not None
    kind = match["kind"]
    scale = None if match["scale"] is None else int(match["scale"])
    if match["low"] is not None and kind not in ("int", "long") and scale is None:
        raise ValueError("only int, long and decimal have a range")
    if match["unit"] is not None and kind != "time":
        raise ValueError("only time has a unit")
    if scale is not None:
        if not 1 <= scale < DECIMAL_DIGITS:
            raise ValueError(
                f"a decimal has 1 to {DECIMAL_DIGITS - 1} digits after the point, not {scale}"
            )
        most = 10**DECIMAL_DIGITS - 1
        low, high = _bounds(match["low"], match["high"], -most, most, scale)
        if not -most <= low <= high <= most:
            raise ValueError(f"{match['low']}..{match['high']} is not a range of {kind}")
        return decimal(low, high, scale, optional)
    if kind == "time" and match["unit"] is not None:
        return NumberTime(Kind.TIME, optional, TIME.low, TIME.high, unit=match["unit"])
    if kind == "time":
        return TIME.or_null(optional)
    if kind == "any":
        return AnyScalar(Kind.STRING, optional)
    if kind not in ("int", "long"):
        return Type(_COLLECTION_NAMES.get(kind) or Kind(kind), optional)
    least, most = _INT32 if kind == "int" else (INT64_MIN, INT64_MAX)
    low, high = _bounds(match["low"], match["high"], least, most, 0)
    if not least <= low <= high <= most:
        raise ValueError(f"{match['low']}..{match['high']} is not a range of {kind}")
    return Type(Kind.INTEGER, optional, low, high, bits=32 if kind == "int" else 64)


def text_of_field_type(type_: Type) -> str | None:
    """The text of a field's type, which `parse_field_type` reads, without a range; None if a field
    of a JSON document cannot have the type. A time is a text there."""
    is_decimal = type_.kind is Kind.DECIMAL and 1 <= type_.scale < DECIMAL_DIGITS
    name = f"decimal({type_.scale})" if is_decimal else _KIND_NAMES.get(type_.kind)
    if type_.kind is Kind.INTEGER:
        is_short = _INT32[0] <= type_.low and type_.high <= _INT32[1]
        name = "int" if is_short else "long"
    return f"{name}?" if name is not None and type_.optional else name


def _bounds(
    low: str | None, high: str | None, least: int, most: int, scale: int
) -> tuple[int, int]:
    """The declared range, in units of the last digit; the greatest range if none is declared.
    Raises ValueError if a bound has more digits."""
    if low is None or high is None:
        return least, most
    bounds = Decimal(low).scaleb(scale), Decimal(high).scaleb(scale)
    if any(bound != bound.to_integral_value() for bound in bounds):
        raise ValueError(f"{low}..{high} has more than {scale} digits after the point")
    return int(bounds[0]), int(bounds[1])
