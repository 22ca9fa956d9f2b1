"""Expressions of views.toml as columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from model.derive.derivation import Derivation, EventTime
from model.expressions.calendar import PARTS
from model.expressions.casts import CASTS, PLAIN_DECIMAL
from model.expressions.patterns import java_pattern
from model.expressions.signatures.signature import Argument, common_type
from model.expressions.signatures.texts import MAX_REPLACED
from model.expressions.tree import Call, Expression, Literal
from model.expressions.types import DECIMAL_DIGITS, LISTS, MAX_DIGITS, Kind, Type
from spark.derive import times
from spark.derive.numbers import (
    calculated,
    converted,
    decimal_type,
    rounded,
    whole_of_decimal,
)

Columns = Mapping[str, Column]
"""Columns by name, which replace the columns of the rows."""
_EXACT = 2**53
"""Above it, not every whole number is a double."""


def column(expression: Expression, names: Columns | None = None) -> Column:
    """The value of the expression in each row."""
    if isinstance(expression, Literal):
        return _written(expression)
    if isinstance(expression, Call):
        return _CALLS[expression.function](expression, names or {})
    return (names or {}).get(expression.name, F.col(expression.name))


def condition(expression: Expression, names: Columns | None = None) -> Column:
    """Whether the expression is true; null counts as false."""
    value = column(expression, names)
    return F.coalesce(value, F.lit(False)) if expression.type.optional else value


def _written(literal: Literal) -> Column:
    value = F.lit(literal.value)
    if literal.type.kind is Kind.TIME:
        return F.timestamp_micros(value)
    if literal.type.kind is Kind.DECIMAL:
        # not narrower: the value may be a column of the state of a view
        return value.cast(DecimalType(DECIMAL_DIGITS, literal.type.scale))
    return value


_Make = Callable[[Call, Columns], Column]
_Argument = Callable[[Expression, Columns], Column]


def _apply(make: Callable[..., Column], argument: _Argument | None = None) -> _Make:
    """Makes a column from the columns of all arguments. ``argument`` returns the column of one
    argument, by default the argument's value."""

    def call(expression: Call, names: Columns) -> Column:
        return make(*((argument or column)(operand, names) for operand in expression.arguments))

    return call


def _arithmetic(make: Callable[..., Column]) -> _Make:
    """Computes in 64 bits if 32 bits may not be enough. The types ensure that 64 bits are."""

    def call(expression: Call, names: Columns) -> Column:
        if expression.type.kind is not Kind.INTEGER:
            return _calculation(expression, names)
        operands = [long(operand, names) for operand in expression.arguments]
        if not _fits_32(expression) and all(map(_stays_32, expression.arguments)):
            operands[0] = operands[0].cast("long")
        return make(*operands)

    return call


def _fits_32(expression: Expression) -> bool:
    return expression.type.low >= -(2**31) and expression.type.high < 2**31


def _has_32(expression: Expression) -> bool:
    """Whether Spark has the whole number in 32 bits."""
    if isinstance(expression, Literal):
        return _fits_32(expression)
    if isinstance(expression, Call):
        if expression.function in ("coalesce", "if"):
            return all(map(_has_32, expression.arguments[expression.function == "if" :]))
        if expression.function in ("+", "-", "*", "negative", "mod"):
            return _fits_32(expression) and all(map(_stays_32, expression.arguments))
        return expression.function == "length"
    return expression.type.bits == 32 or expression.name == "record_partition"


def _stays_32(expression: Expression) -> bool:
    """Whether the number has 32 bits, also after ``long``."""
    is_kept = isinstance(expression, Literal) or expression.type.bits != 32
    return is_kept and _has_32(expression)


def long(expression: Expression, names: Columns | None = None) -> Column:
    """A whole number as 64 bits."""
    number = column(expression, names)
    is_short = not isinstance(expression, Literal) and expression.type.bits == 32
    return number.cast("long") if is_short else number


def _wide(expression: Expression, names: Columns) -> Column:
    """A value; a whole number as 64 bits."""
    value = column(expression, names)
    return value.cast("long") if expression.type.kind is Kind.INTEGER else value


def _calculation(call: Call, names: Columns) -> Column:
    operands = [_wide(argument, names) for argument in call.arguments]
    types = [argument.type for argument in call.arguments]
    return calculated(call.function, operands, types, call.type)


def _rounding(call: Call, names: Columns) -> Column:
    operand = call.arguments[0]
    return rounded(call.function, _wide(operand, names), operand.type, call.type)


def _one_of(make: Callable[..., Column], first: int = 0) -> _Make:
    """A function whose result is one of its arguments, from number ``first`` on."""

    def call(expression: Call, names: Columns) -> Column:
        values = [column(argument, names) for argument in expression.arguments]
        types = [argument.type for argument in expression.arguments]
        kinds = {(type_.kind, type_.scale) for type_ in types[first:]}
        if len(kinds) > 1:
            values[first:] = [
                converted(value, type_, expression.type)
                for value, type_ in zip(values[first:], types[first:], strict=True)
            ]
        return make(*values)

    return call


def _extreme(make: Callable[..., Column]) -> _Make:
    """``greatest`` and ``least``, which need arguments of one type."""

    def call(expression: Call, names: Columns) -> Column:
        return make(
            *(
                converted(_wide(argument, names), argument.type, expression.type)
                for argument in expression.arguments
            )
        )

    return call


def _nullif(call: Call, names: Columns) -> Column:
    left, right = call.arguments
    value = _wide(left, names)
    return F.when(~F.coalesce(_compare("=", left, right, names), F.lit(False)), value)


def _contains(call: Call, names: Columns) -> Column:
    container, part = call.arguments
    if container.type.kind in LISTS:
        return F.array_contains(column(container, names), _wide(part, names))
    return F.contains(column(container, names), column(part, names))


def _element(call: Call, names: Columns) -> Column:
    collection, at = call.arguments
    values = column(collection, names)
    if collection.type.kind is Kind.MAP:
        return F.try_element_at(values, column(at, names))
    number = _wide(at, names)
    # Spark counts from the end with negative numbers, and fails with 0.
    is_there = (number >= 1) & (number <= F.size(values))
    return F.try_element_at(values, F.when(is_there, number).cast("int"))


def _size(call: Call, names: Columns) -> Column:
    values = column(call.arguments[0], names)
    return F.when(values.isNotNull(), F.size(values)).cast("long")


def _replace(call: Call, names: Columns) -> Column:
    text, old, new = call.arguments
    value = column(text, names)
    replaced = F.replace(value, column(old, names), column(new, names))
    lengths = [len(str(part.value)) for part in (old, new) if isinstance(part, Literal)]
    added = lengths[1] - lengths[0]
    if added <= 0:
        return replaced
    rest = F.length(F.replace(value, column(old, names), F.lit("")))
    count = F.call_function("div", F.length(value) - rest, F.lit(lengths[0]))
    return F.when(F.length(value) + count * F.lit(added) <= MAX_REPLACED, replaced)


def _split(call: Call, names: Columns) -> Column:
    text, separator = call.arguments
    assert isinstance(separator, Literal)
    # no quoting with \\Q, because the separator may have \\E
    pattern = re.sub(r"([^\w\s])", r"\\\1", str(separator.value), flags=re.ASCII)
    return F.split(column(text, names), F.lit(pattern), -1)


def _timestamp(per_second: int) -> _Make:
    def call(expression: Call, names: Columns) -> Column:
        [number] = expression.arguments
        return times.timestamp(_wide(number, names), per_second, number.type)

    return call


def _zone(arguments: Sequence[Expression]) -> str | None:
    return next((str(zone.value) for zone in arguments if isinstance(zone, Literal)), None)


def _local(call: Call, names: Columns) -> Column:
    time, *zone = call.arguments
    return times.local(column(time, names), _zone(zone), time.type)


def _part(call: Call, names: Columns) -> Column:
    return times.part(call.function, _local(call, names))


def _date_trunc(call: Call, names: Columns) -> Column:
    unit, time, *zone = call.arguments
    assert isinstance(unit, Literal)
    return times.truncated(str(unit.value), column(time, names), _zone(zone), time.type)


def _texts(make: Callable[..., Column]) -> _Make:
    """A function of strings, and of numbers as text."""
    return _apply(make, text)


def text(expression: Expression, names: Columns | None = None) -> Column:
    """A string, or a whole number in decimal."""
    value = column(expression, names)
    return value.cast("string") if expression.type.kind is Kind.INTEGER else value


def _matched(make: Callable[[Column, Column, Column], Column]) -> _Make:
    """A function of a text, a pattern and a group; by default, the group is the whole match."""

    def call(expression: Call, names: Columns) -> Column:
        operand, pattern, *group = expression.arguments
        assert isinstance(pattern, Literal)
        number = column(group[0], names) if group else F.lit(0)
        return make(column(operand, names), F.lit(java_pattern(str(pattern.value))), number)

    return call


def _regexp_extract(string: Column, pattern: Column, group: Column) -> Column:
    return F.call_function("regexp_extract", string, pattern, group)


def _substring(string: Column, start: Column, length: Column | None = None) -> Column:
    return F.substr(string, start) if length is None else F.substr(string, start, length)


def _whole(text: Column, low: int, high: int) -> Column:
    """A whole number in a text, such as 42, 42.0 or 1e2; null if it is not within the bounds."""
    number = F.trim(text)
    digits = F.regexp_replace(number, r"\.0*$", "")
    exact = F.when(number.rlike(r"\A[+-]?[0-9]{1,19}(\.0*)?\z"), digits.try_cast("bigint"))
    return _within(F.coalesce(exact, _whole_of_double(_double(text))), low, high)


def _whole_of_double(number: Column) -> Column:
    is_whole = (F.abs(number) <= _EXACT) & (F.floor(number).cast("double") == number)
    return F.when(is_whole, number.try_cast("bigint"))


def _within(number: Column, low: int, high: int) -> Column:
    return F.when(number.between(low, high), number)


def _double(text: Column) -> Column:
    trimmed = F.trim(text)
    is_number = trimmed.rlike(r"\A[+-]?[0-9]{1,400}(\.[0-9]{0,400})?([eE][+-]?[0-9]{1,4})?\z")
    number = F.when(is_number, trimmed).try_cast("double")
    return F.when(F.abs(number) < float("inf"), number + F.lit(0.0))


def _decimal(value: Column, source: Kind, target: Type) -> Column:
    """A text, a whole number or a decimal, rounded; null if it has too many digits."""
    number = value.cast("string") if source is Kind.INTEGER else value
    if source is not Kind.DECIMAL:
        text = F.trim(number)
        number = F.when(text.rlike(rf"\A{PLAIN_DECIMAL.pattern}\z"), text)
    wide = number.try_cast(DecimalType(MAX_DIGITS, target.scale))
    return wide.try_cast(decimal_type(target))


_Compare = Callable[[Column, Column], Column]

_OPERATORS: dict[str, _Compare] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compare(operator: str, left: Expression, right: Expression, names: Columns) -> Column:
    """Compares by value. A decimal is compared with a double as the double of its text."""
    kinds = left.type.kind, right.type.kind
    if kinds == (Kind.DOUBLE, Kind.INTEGER):
        return _compare(_MIRRORED[operator], right, left, names)
    sides = column(left, names), column(right, names)
    if kinds == (Kind.INTEGER, Kind.DOUBLE) and not _fits_double(left):
        return _compare_exactly(operator, sides[0].cast("long"), sides[1])
    if Kind.DOUBLE in kinds:
        sides = sides[0].cast("double"), sides[1].cast("double")
    elif Kind.DECIMAL in kinds:
        # Spark's own common type may have too few digits.
        common = common_type(operator, [Argument(left.type, None), Argument(right.type, None)])
        sides = converted(sides[0], left.type, common), converted(sides[1], right.type, common)
    return _OPERATORS[operator](*sides)


def _fits_double(expression: Expression) -> bool:
    """Whether each number of the type is a double."""
    return expression.type.low >= -_EXACT and expression.type.high <= _EXACT


def _compare_exactly(operator: str, whole: Column, number: Column) -> Column:
    """Compares a whole number of 64 bits with a double, which may round it to the same double."""
    rounded = whole.cast("double")
    # Only 2^63 is not a whole number of 64 bits and may be equal to a rounded one. Spark casts it
    # to 2^63 - 1.
    exact = F.when(number < 2.0**63, number.try_cast("bigint"))

    def less(is_less: Column) -> Column:
        return (rounded < number) | ((rounded == number) & F.coalesce(is_less, F.lit(True)))

    if operator == "<":
        return less(whole < exact)
    if operator == "<=":
        return less(whole <= exact)
    if operator == "=":
        return less(whole <= exact) & ~less(whole < exact)
    opposite = {"<>": "=", ">": "<=", ">=": "<"}[operator]
    return ~_compare_exactly(opposite, whole, number)


def _comparison(operator: str) -> _Make:
    def call(expression: Call, names: Columns) -> Column:
        left, right = expression.arguments
        return _compare(operator, left, right, names)

    return call


def _in(call: Call, names: Columns) -> Column:
    operand, *values = call.arguments
    return reduce(lambda a, b: a | b, (_compare("=", operand, value, names) for value in values))


def _between(call: Call, names: Columns) -> Column:
    operand, low, high = call.arguments
    return _compare(">=", operand, low, names) & _compare("<=", operand, high, names)


def _cast(kind: str) -> _Make:
    def call(expression: Call, names: Columns) -> Column:
        [argument] = expression.arguments
        source, value = argument.type.kind, column(argument, names)
        if kind in ("int", "long"):
            low, high = expression.type.low, expression.type.high
            if source is Kind.STRING:
                return _whole(value, low, high)
            if source is Kind.INTEGER:
                return _within(long(argument, names), low, high)
            if source is Kind.BOOLEAN:
                return value.cast("long")
            if source is Kind.DECIMAL:
                return _within(whole_of_decimal(value), low, high)
            return _within(_whole_of_double(value), low, high)
        if expression.type.kind is Kind.DECIMAL:
            return _decimal(value, source, expression.type)
        if kind == "double":
            return _double(value) if source is Kind.STRING else value.cast("double")
        if kind == "boolean" and source is Kind.STRING:
            word = F.lower(F.trim(value))
            return F.when(word == "true", F.lit(True)).when(word == "false", F.lit(False))
        return value.cast(kind)

    return call


_CALLS: dict[str, _Make] = {
    **{name: _cast(name.removeprefix("try_cast ")) for name in CASTS},
    "or": _apply(lambda left, right: left | right),
    "and": _apply(lambda left, right: left & right),
    "not": _apply(lambda operand: ~operand),
    **{operator: _comparison(operator) for operator in _OPERATORS},
    "is null": _apply(Column.isNull),
    "is not null": _apply(Column.isNotNull),
    "in": _in,
    "between": _between,
    "like": _apply(F.like),
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "negative": _arithmetic(lambda operand: -operand),
    "div": _arithmetic(lambda operand, by: F.call_function("div", operand, by)),
    "mod": _arithmetic(F.pmod),
    "lower": _apply(lambda text: F.lower(F.translate(text, "Σ", "σ"))),
    "upper": _apply(F.upper),
    "trim": _apply(F.trim),
    "length": _apply(F.length),
    "concat": _texts(F.concat),
    "substring": _apply(_substring),
    "regexp_like": _matched(lambda operand, pattern, _: F.regexp_like(operand, pattern)),
    "regexp_extract": _matched(_regexp_extract),
    "regexp_extract_all": _matched(F.regexp_extract_all),
    "coalesce": _one_of(F.coalesce),
    "if": _one_of(lambda operand, then, other: F.when(operand, then).otherwise(other), 1),
    "nullif": _nullif,
    "greatest": _extreme(F.greatest),
    "least": _extreme(F.least),
    **dict.fromkeys(("/", "%", "abs"), _calculation),
    **dict.fromkeys(("round", "floor", "ceil"), _rounding),
    "replace": _replace,
    "starts_with": _apply(F.startswith),
    "ends_with": _apply(F.endswith),
    "contains": _contains,
    "split": _split,
    "size": _size,
    "map_keys": _apply(F.map_keys),
    "[]": _element,
    "unix_seconds": _apply(F.unix_seconds),
    "unix_millis": _apply(F.unix_millis),
    "unix_micros": _apply(F.unix_micros),
    "timestamp_seconds": _timestamp(1),
    "timestamp_millis": _timestamp(1000),
    "timestamp_micros": _timestamp(1_000_000),
    **dict.fromkeys(PARTS, _part),
    "date": lambda call, names: times.date(_local(call, names)),
    "date_trunc": _date_trunc,
}


def key_parts(derivation: Derivation, names: Columns | None = None) -> list[Column]:
    """The parts of a key as text."""
    return [text(expression, names) for expression in derivation.key]


def key_column(derivation: Derivation, names: Columns | None = None) -> Column:
    """The key before it is encoded: text, or a whole number."""
    if len(derivation.key) == 1:
        return column(derivation.key[0], names)
    return F.concat_ws(derivation.separator, *key_parts(derivation, names))


def time_name(time: EventTime) -> str:
    """The name of the column with the time of a record."""
    return time.field or "#event time"  # not the name of a field
