"""Calculations in Python: decimals with all their digits, doubles as IEEE 754 has them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

from model.expressions.types import INT64_MAX, INT64_MIN, Kind, Type, unscaled

EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
"""More digits than any calculation has. The default context would round to 28."""

_ROUNDING = {"round": ROUND_HALF_UP, "floor": ROUND_FLOOR, "ceil": ROUND_CEILING}
_OF_DECIMALS: dict[str, Callable[..., Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "negative": EXACT.minus,
    "abs": EXACT.abs,
}
_OF_DOUBLES: dict[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "negative": operator.neg,
    "abs": abs,
}


def number_function(name: str, arguments: Sequence[Type], result: Type) -> Callable[..., Any]:
    """The function of a calculation with numbers that are not null."""
    kinds = {type_.kind for type_ in arguments}
    if name in _ROUNDING:
        operand = arguments[0].kind
        if operand in (Kind.DOUBLE, Kind.NUMBER):
            return _whole_of_double(name)
        if operand is Kind.INTEGER:
            return lambda value, digits=0: value
        return _rounded(name, result)
    if kinds & {Kind.DOUBLE, Kind.NUMBER}:
        return _divided_doubles if name == "/" else _finite(_OF_DOUBLES[name])
    if Kind.DECIMAL in kinds:
        return (
            _divided(arguments[0], arguments[1], result.scale)
            if name == "/"
            else _OF_DECIMALS[name]
        )
    return _OF_WHOLE[name]


def converter(source: Type, target: Type) -> Callable[[Any], Any] | None:
    """A function that converts a number to another kind; None if it need not be converted."""
    if source.kind is target.kind:
        return None
    if target.kind is Kind.NUMBER:
        return float if source.kind is Kind.DECIMAL else None
    return float if target.kind is Kind.DOUBLE else Decimal


def _finite(calculate: Callable[..., float]) -> Callable[..., float | None]:
    def calculated(*values: int | float | Decimal) -> float | None:
        number = calculate(*map(float, values))
        return number + 0.0 if math.isfinite(number) else None  # -0.0 becomes 0.0

    return calculated


def _divided_doubles(dividend: float, divisor: float) -> float | None:
    by = float(divisor)
    if by == 0:
        return None
    number = float(dividend) / by
    return number + 0.0 if math.isfinite(number) else None


def _divided(left: Type, right: Type, scale: int) -> Callable[..., Decimal | None]:
    factor = 10 ** (right.scale + scale - left.scale)

    def divide(dividend: int | Decimal, divisor: int | Decimal) -> Decimal | None:
        units, by = (
            unscaled(Decimal(value), type_.scale)
            for value, type_ in ((dividend, left), (divisor, right))
        )
        if by == 0:
            return None
        quotient, rest = divmod(abs(units) * factor, abs(by))
        quotient += 2 * rest >= abs(by)
        is_negative = (units < 0) != (by < 0)
        return EXACT.scaleb(Decimal(-quotient if is_negative else quotient), -scale)

    return divide


def _truncated(dividend: int, divisor: int) -> int | None:
    if divisor == 0:
        return None
    quotient = abs(dividend) // abs(divisor)
    number = -quotient if (dividend < 0) != (divisor < 0) else quotient
    return number if number <= INT64_MAX else None


def _remainder(dividend: int, divisor: int) -> int | None:
    if divisor == 0:
        return None
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def _absolute(number: int) -> int | None:
    return None if number == INT64_MIN else abs(number)


_OF_WHOLE: dict[str, Callable[..., int | None]] = {
    "/": _truncated,
    "%": _remainder,
    "abs": _absolute,
}


def _rounded(name: str, result: Type) -> Callable[..., Any]:
    """A function that rounds a decimal to the scale of the result."""
    step = Decimal(1).scaleb(-result.scale)
    is_whole = result.kind is Kind.INTEGER

    def rounded(value: Decimal, digits: int = 0) -> int | Decimal:
        number = value.quantize(step, rounding=_ROUNDING[name], context=EXACT)
        return int(number) if is_whole else number

    return rounded


def _whole_of_double(name: str) -> Callable[[float], int | None]:
    def nearest(number: float) -> int:
        whole = math.trunc(number)
        # Exact, unlike floor(number + 0.5).
        return whole + int(math.copysign(1, number)) if abs(number - whole) >= 0.5 else whole

    makes: dict[str, Callable[[float], int]] = {
        "round": nearest,
        "floor": math.floor,
        "ceil": math.ceil,
    }
    make = makes[name]

    def whole(number: float) -> int | None:
        value = make(number)
        return value if INT64_MIN <= value <= INT64_MAX else None

    return whole


def extreme_function(name: str, arguments: Sequence[Type], result: Type) -> Callable[..., Any]:
    """``greatest`` or ``least`` of the values that are not null."""
    choose: Callable[[list[Any]], Any] = max if name == "greatest" else min
    converters = [converter(type_, result) or _itself for type_ in arguments]

    def extreme(*values: Any) -> Any:
        given = [
            convert(value)
            for convert, value in zip(converters, values, strict=True)
            if value is not None
        ]
        return choose(given) if given else None

    return extreme


def _itself(value: Any) -> Any:
    return value
