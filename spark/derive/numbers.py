"""Calculations with numbers as columns. None of them fails: the types ensure that the result fits,
or it is null.

The columns of whole numbers that are given have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from model.expressions.types import INT64_MAX, INT64_MIN, MAX_DIGITS, Kind, Type

_OPERATORS: dict[str, Callable[..., Column]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "negative": lambda operand: -operand,
    "abs": F.abs,
}

_WHOLE: dict[str, Callable[[Column], Column]] = {"floor": F.floor, "ceil": F.ceil}


def converted(value: Column, source: Type, target: Type) -> Column:
    """A number as the type of a result. A whole number that stays one is not changed."""
    if target.kind is Kind.DECIMAL:
        return value.cast(decimal_type(target))
    return value.cast("double") if target.kind is Kind.DOUBLE != source.kind else value


def decimal_type(type_: Type) -> DecimalType:
    """The narrowest type in Spark. So Spark never leaves out digits of a result."""
    return DecimalType(type_.digits, type_.scale)


def calculated(
    name: str, operands: Sequence[Column], types: Sequence[Type], result: Type
) -> Column:
    """A calculation with a decimal or a double, or ``/``, ``%`` or ``abs`` of whole numbers."""
    kinds = {type_.kind for type_ in types}
    if Kind.DOUBLE in kinds:
        return _of_doubles(name, [operand.cast("double") for operand in operands])
    if Kind.DECIMAL in kinds:
        narrow = [
            operand.cast(decimal_type(type_))
            for operand, type_ in zip(operands, types, strict=True)
        ]
        if name == "/":
            return _quotient(narrow[0], narrow[1], types, result)
        return _OPERATORS[name](*narrow).cast(decimal_type(result))
    if name == "abs":
        return F.when(operands[0] != F.lit(INT64_MIN), F.abs(operands[0]))
    dividend, divisor = operands
    if name == "%":
        # The remainder of -1 is always 0, and that of -2^63 and -1 may fail.
        by = F.when(divisor != 0, F.when(divisor == -1, F.lit(1).cast("long")).otherwise(divisor))
        return dividend % by
    fits = (divisor != 0) & ~((divisor == -1) & (dividend == F.lit(INT64_MIN)))
    return F.call_function("div", dividend, F.when(fits, divisor))


def _of_doubles(name: str, operands: Sequence[Column]) -> Column:
    if name == "/":
        number = operands[0] / F.when(operands[1] != 0, operands[1])
    else:
        number = _OPERATORS[name](*operands)
    # 0.0 instead of -0.0; null instead of a value that JSON does not have
    return F.when(F.abs(number) < float("inf"), number + F.lit(0.0))


def _quotient(dividend: Column, divisor: Column, types: Sequence[Type], result: Type) -> Column:
    """Spark's quotient of a dividend with 38 digits and a whole divisor has the scale of the
    dividend, at least 6: that of the result."""
    left, right = types
    if right.scale:
        power = F.lit(Decimal(10**right.scale)).cast(DecimalType(right.scale + 1, 0))
        dividend = dividend * power
        divisor = (divisor * power).cast(DecimalType(right.digits, 0))
    dividend = dividend.cast(DecimalType(MAX_DIGITS, left.scale))
    return F.try_divide(dividend, divisor).cast(decimal_type(result))


def rounded(name: str, operand: Column, type_: Type, result: Type) -> Column:
    """``round``, ``floor`` or ``ceil``, to the scale of the result."""
    if type_.kind is Kind.INTEGER:
        return operand
    if type_.kind is Kind.DOUBLE:
        return _whole_double(name, operand)
    number = operand.cast(decimal_type(type_))
    if name != "round":
        return _WHOLE[name](number).cast("long")
    target = "long" if result.kind is Kind.INTEGER else decimal_type(result)
    rounded = number.cast(
        DecimalType(max(type_.digits - type_.scale, 0) + result.scale + 1, result.scale)
    )
    return rounded.cast(target)


def _whole_double(name: str, number: Column) -> Column:
    if name == "round":
        # Exact, unlike floor(number + 0.5).
        whole = F.when(number < 0, -F.floor(-number).cast("double")).otherwise(
            F.floor(number).cast("double")
        )
        step = F.when(number < 0, F.lit(-1.0)).otherwise(F.lit(1.0))
        whole = F.when(F.abs(number - whole) >= 0.5, whole + step).otherwise(whole)
        within = F.when(F.abs(number) < 2.0**62, whole).otherwise(number)
    else:
        within = number
    fits = (within >= float(INT64_MIN)) & (within < float(INT64_MAX))
    kept = F.when(fits, within)
    return (kept if name == "round" else _WHOLE[name](kept)).cast("long")


def whole_of_decimal(number: Column) -> Column:
    """The decimal as a whole number; null if it has digits after the point, or beyond 64 bits."""
    whole = number.try_cast("bigint")
    return F.when(whole == number, whole)
