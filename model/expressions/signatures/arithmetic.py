"""The types of calculations. A calculation whose result may be too large is refused, or is null
where the docs say so. So no calculation fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from model.expressions.signatures.signature import (
    NUMBERS,
    RANGE_HINT,
    Arguments,
    Typing,
    as_decimal,
    check,
    check_count,
    check_digits,
    literal_int,
    may_be_null,
)
from model.expressions.types import (
    DOUBLE,
    INT64_MAX,
    INT64_MIN,
    MAX_DIGITS,
    Kind,
    Type,
    WrongKindError,
    decimal,
    integer,
)

FLOATING = frozenset({Kind.DOUBLE, Kind.NUMBER})
"""Kinds that are calculated as doubles."""
QUOTIENT_SCALE = 6
"""The least number of digits after the point of a quotient of decimals."""


def numbers(name: str, arguments: Arguments, count: int = 2) -> set[Kind]:
    """The kinds of the arguments. Raises ValueError unless they are ``count`` numbers."""
    check_count(name, arguments, count, count)
    for number, argument in enumerate(arguments, 1):
        kind = argument.type.kind
        if kind not in NUMBERS:
            raise WrongKindError(
                f"argument {number} of {name} is a {kind}, not a number{_hint(name, kind)}"
            )
    return {argument.type.kind for argument in arguments}


def _hint(name: str, kind: Kind) -> str:
    if kind is Kind.TIME and name == "-":
        return (
            ". Write unix_seconds(a) - unix_seconds(b), or timestamp_seconds(unix_seconds(a) - 60),"
        )
    if kind is Kind.TIME:
        return ". Write timestamp_seconds(unix_seconds(a) + 60),"
    if kind is Kind.STRING and name == "+":
        return ". Write a || b to join texts, or try_cast(a as long) for a number,"
    if kind is Kind.STRING:
        return ". Write try_cast(a as long), or double,"
    if kind is Kind.BOOLEAN:
        return ". Write if(a, 1, 0),"
    return ""


def _fits_64(name: str, low: int, high: int, optional: bool) -> Type:
    if low < INT64_MIN or high > INT64_MAX:
        raise ValueError(f"the result of {name} may not fit in 64 bits; {RANGE_HINT}")
    return integer(low, high, optional)


def _plus_range(left: Type, right: Type) -> tuple[int, int]:
    return left.low + right.low, left.high + right.high


def _minus_range(left: Type, right: Type) -> tuple[int, int]:
    return left.low - right.high, left.high - right.low


def _times_range(left: Type, right: Type) -> tuple[int, int]:
    products = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return min(products), max(products)


def _arithmetic(name: str, range_of: Callable[[Type, Type], tuple[int, int]]) -> Typing:
    def type_(arguments: Arguments) -> Type:
        kinds = numbers(name, arguments)
        optional = may_be_null(arguments)
        if kinds & FLOATING:
            return DOUBLE.or_null()  # null if it is beyond the range of a double
        left, right = (argument.type for argument in arguments)
        if Kind.DECIMAL not in kinds:
            return _fits_64(name, *range_of(left, right), optional)
        if name == "*":
            scale = left.scale + right.scale
            digits = left.digits + right.digits + 1
        else:
            scale = max(left.scale, right.scale)
            left, right = (as_decimal(side, scale) for side in (left, right))
            digits = max(left.digits, right.digits) + 1
        check_digits(name, digits)
        return decimal(*range_of(left, right), scale, optional)

    return type_


plus = _arithmetic("+", _plus_range)
minus = _arithmetic("-", _minus_range)
times = _arithmetic("*", _times_range)


def negative(arguments: Arguments) -> Type:
    kinds = numbers("-", arguments, 1)
    operand = arguments[0].type
    if kinds & FLOATING:
        return DOUBLE.or_null(operand.optional)
    if Kind.DECIMAL in kinds:
        return decimal(-operand.high, -operand.low, operand.scale, operand.optional)
    return _fits_64("-", -operand.high, -operand.low, operand.optional)


def _magnitude(type_: Type) -> int:
    return max(abs(type_.low), abs(type_.high))


def _least_divisor(type_: Type) -> int:
    """The least absolute value that is not 0."""
    return 1 if type_.may_be_zero else min(abs(type_.low), abs(type_.high))


def _signed(bound: int, *types: Type) -> tuple[int, int]:
    """The range of a quotient or remainder with at most this absolute value."""
    return (0 if all(type_.low >= 0 for type_ in types) else -bound), bound


def divide(arguments: Arguments) -> Type:
    """The quotient of whole numbers is a whole number, as in PostgreSQL. That of decimals has the
    scale of the dividend, at least 6. It is null if the divisor is 0."""
    kinds = numbers("/", arguments)
    if kinds & FLOATING:
        return DOUBLE.or_null()
    left, right = (argument.type for argument in arguments)
    optional = may_be_null(arguments) or right.may_be_zero
    if Kind.DECIMAL not in kinds:
        low, high = _signed(_magnitude(left) // _least_divisor(right), left, right)
        # -2^63 / -1 does not fit, and is null.
        return integer(low, min(high, INT64_MAX), optional or high > INT64_MAX)
    scale = max(left.scale, QUOTIENT_SCALE)
    # Spark divides with 39 digits after the point, and then rounds to the scale. The first
    # rounding changes nothing if the exact quotient cannot be that close to a half.
    needed = max(
        left.digits + right.scale + 2,
        left.digits - left.scale + right.scale + scale,
        scale + right.digits + 2,
    )
    if needed > MAX_DIGITS:
        raise ValueError(f"the result of / may have more than {MAX_DIGITS} digits; {RANGE_HINT}")
    units = _magnitude(left) * 10 ** (right.scale + scale - left.scale)
    low, high = _signed(units // _least_divisor(right) + 1, left, right)
    return decimal(low, high, scale, optional)


def remainder(arguments: Arguments) -> Type:
    """With the sign of the dividend, as in PostgreSQL. It is null if the divisor is 0."""
    kinds = numbers("%", arguments)
    if kinds != {Kind.INTEGER}:
        raise WrongKindError("% is for whole numbers only. Write a - b * floor(a / b) for others,")
    left, right = (argument.type for argument in arguments)
    bound = min(_magnitude(left), _magnitude(right) - 1 if _magnitude(right) else 0)
    low, high = _signed(bound, left)
    return integer(low, high, may_be_null(arguments) or right.may_be_zero)


def div(arguments: Arguments) -> Type:
    optional = check("div", arguments, Kind.INTEGER, Kind.INTEGER)
    by = literal_int("the divisor of div", arguments[1], 1, INT64_MAX)
    operand = arguments[0].type
    return integer(operand.low // by, operand.high // by, optional)


def mod(arguments: Arguments) -> Type:
    optional = check("mod", arguments, Kind.INTEGER, Kind.INTEGER)
    by = literal_int("the divisor of mod", arguments[1], 1, INT64_MAX)
    return integer(0, by - 1, optional)


def absolute(arguments: Arguments) -> Type:
    numbers("abs", arguments, 1)
    operand = arguments[0].type
    if operand.kind in FLOATING:
        return DOUBLE.or_null(operand.optional)
    high = _magnitude(operand)
    low = 0 if operand.may_be_zero else min(abs(operand.low), abs(operand.high))
    if operand.kind is Kind.DECIMAL:
        return decimal(low, high, operand.scale, operand.optional)
    # That of -2^63 does not fit, and is null.
    is_too_great = high > INT64_MAX
    return integer(min(low, INT64_MAX), min(high, INT64_MAX), operand.optional or is_too_great)


def _whole_part(name: str, operand: Type) -> Type:
    """The type of a number without the digits after its point."""
    if operand.kind in FLOATING:
        return integer(optional=True)  # null if it is beyond 64 bits
    factor = 10**operand.scale
    return _fits_64(name, operand.low // factor, -(-operand.high // factor), operand.optional)


def whole(name: str) -> Typing:
    """``floor`` and ``ceil``."""

    def type_(arguments: Arguments) -> Type:
        numbers(name, arguments, 1)
        return _whole_part(name, arguments[0].type)

    return type_


def round_(arguments: Arguments) -> Type:
    check_count("round", arguments, 1, 2)
    numbers("round", arguments[:1], 1)
    operand = arguments[0].type
    if len(arguments) == 1:
        return _whole_part("round", operand)
    if operand.kind in FLOATING:
        raise ValueError(
            "round(a, 2) is for decimals: declare the field as decimal(2). round(a) also rounds "
            "doubles, to a whole number,"
        )
    digits = literal_int("the number of digits of round", arguments[1], 0, 28)
    if digits >= operand.scale:
        return replace(operand, bits=64)
    if digits == 0:
        return _whole_part("round", operand)
    factor = 10 ** (operand.scale - digits)
    low, high = operand.low // factor, -(-operand.high // factor)
    return decimal(low, high, digits, operand.optional)
