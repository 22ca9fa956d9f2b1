"""The functions and operators of expressions, and the types of their results.

All are deterministic and total: they return a value or null for every input. So functions that may
fail in Spark (casts of text, calculations that overflow, division by zero) are missing or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from model.expressions.casts import CASTS, cast_type
from model.expressions.patterns import check_like, check_pattern
from model.expressions.types import (
    BOOLEAN,
    INT64_MAX,
    INT64_MIN,
    MAX_SECONDS,
    STRING,
    STRINGS,
    TIME,
    Kind,
    Type,
    integer,
)

_MAX_BYTES = 2**31 - 1
_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.NUMBER})
_ORDERED = _NUMBERS | {Kind.STRING, Kind.TIME, Kind.JSON}


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


def result_type(function: str, arguments: Arguments) -> Type:
    """The type of a function's or operator's result. Raises ValueError if the arguments are not
    allowed."""
    if function in CASTS:
        return cast_type(function, arguments[0].type)
    return (FUNCTIONS.get(function) or OPERATORS[function]).type_of(arguments)


def _check(name: str, arguments: Arguments, *kinds: Kind, least: int | None = None) -> bool:
    """Check the number and the kinds of arguments. Returns True if one of them may be null."""
    fewest = len(kinds) if least is None else least
    if not fewest <= len(arguments) <= len(kinds):
        count = f"{fewest}" if fewest == len(kinds) else f"{fewest} to {len(kinds)}"
        raise ValueError(f"{name} needs {count} arguments, not {len(arguments)}")
    for number, (argument, kind) in enumerate(zip(arguments, kinds, strict=False), 1):
        if argument.type.kind is not kind:
            raise ValueError(f"argument {number} of {name} is a {argument.type.kind}, not a {kind}")
    return any(argument.type.optional for argument in arguments)


def _function(name: str, result: Type, *kinds: Kind) -> Typing:
    def type_(arguments: Arguments) -> Type:
        return result.or_null(_check(name, arguments, *kinds))

    return type_


def _literal_int(name: str, argument: Argument, low: int, high: int) -> int:
    number = argument.literal
    if type(number) is not int or not low <= number <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}, written out")
    return number


def _bounded(name: str, low: int, high: int, optional: bool) -> Type:
    if low < INT64_MIN or high > INT64_MAX:
        raise ValueError(
            f"the result of {name} may not fit in 64 bits; give the fields a range, as in "
            '"long 0..1000000",'
        )
    return integer(low, high, optional)


def _plus(arguments: Arguments) -> Type:
    optional = _check("+", arguments, Kind.INTEGER, Kind.INTEGER)
    left, right = (argument.type for argument in arguments)
    return _bounded("+", left.low + right.low, left.high + right.high, optional)


def _minus(arguments: Arguments) -> Type:
    optional = _check("-", arguments, Kind.INTEGER, Kind.INTEGER)
    left, right = (argument.type for argument in arguments)
    return _bounded("-", left.low - right.high, left.high - right.low, optional)


def _times(arguments: Arguments) -> Type:
    optional = _check("*", arguments, Kind.INTEGER, Kind.INTEGER)
    left, right = (argument.type for argument in arguments)
    products = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return _bounded("*", min(products), max(products), optional)


def _negative(arguments: Arguments) -> Type:
    optional = _check("-", arguments, Kind.INTEGER)
    operand = arguments[0].type
    return _bounded("-", -operand.high, -operand.low, optional)


def _div(arguments: Arguments) -> Type:
    optional = _check("div", arguments, Kind.INTEGER, Kind.INTEGER)
    by = _literal_int("the divisor of div", arguments[1], 1, INT64_MAX)
    operand = arguments[0].type
    return integer(operand.low // by, operand.high // by, optional)


def _mod(arguments: Arguments) -> Type:
    optional = _check("mod", arguments, Kind.INTEGER, Kind.INTEGER)
    by = _literal_int("the divisor of mod", arguments[1], 1, INT64_MAX)
    return integer(0, by - 1, optional)


def _check_same_kind(name: str, kinds: set[Kind]) -> None:
    if len(kinds) > 1:
        hint = ""
        if kinds == {Kind.STRING, Kind.TIME}:
            hint = ". Write a time as timestamp '2026-01-01T10:00:00Z',"
        raise ValueError(f"{name} has values of different types: {', '.join(sorted(kinds))}{hint}")


def _compared(name: str) -> Typing:
    def type_(arguments: Arguments) -> Type:
        kinds = {argument.type.kind for argument in arguments}
        if not kinds <= _NUMBERS:
            _check_same_kind(name, kinds)
        [kind, *_] = kinds
        if kind not in _ORDERED and not (kind is Kind.BOOLEAN and name in ("=", "<>")):
            raise ValueError(f"{name} cannot compare a {kind}")
        return BOOLEAN.or_null(any(argument.type.optional for argument in arguments))

    return type_


def _in(arguments: Arguments) -> Type:
    if any(argument.literal is None for argument in arguments[1:]):
        raise ValueError("the values after in must be written out")
    return _compared("in")(arguments)


def _null_test(arguments: Arguments) -> Type:
    return BOOLEAN


def _common(name: str, arguments: Arguments) -> Type:
    """The type of a result that is one of the arguments."""
    _check_same_kind(name, {argument.type.kind for argument in arguments})
    types = [argument.type for argument in arguments]
    if len({type_.scale for type_ in types}) > 1:
        raise ValueError(f"{name} has decimals of different scale")
    return replace(
        types[0],
        optional=any(type_.optional for type_ in types),
        low=min(type_.low for type_ in types),
        high=max(type_.high for type_ in types),
        bits=max(type_.bits for type_ in types),
        subsecond=any(type_.subsecond for type_ in types),
    )


def _coalesce(arguments: Arguments) -> Type:
    if len(arguments) < 2:
        raise ValueError("coalesce needs at least 2 arguments")
    optional = all(argument.type.optional for argument in arguments)
    return replace(_common("coalesce", arguments), optional=optional)


def _if(arguments: Arguments) -> Type:
    if len(arguments) != 3:
        raise ValueError(f"if needs 3 arguments, not {len(arguments)}")
    _check("if", arguments[:1], Kind.BOOLEAN)
    return _common("if", arguments[1:])


def _concat(arguments: Arguments) -> Type:
    for argument in arguments:
        if argument.type.kind not in (Kind.STRING, Kind.INTEGER):
            raise ValueError(f"concat joins strings and whole numbers, not a {argument.type.kind}")
    return STRING.or_null(any(argument.type.optional for argument in arguments))


def _substring(arguments: Arguments) -> Type:
    optional = _check("substring", arguments, Kind.STRING, Kind.INTEGER, Kind.INTEGER, least=2)
    _literal_int("the start of substring", arguments[1], 1, _MAX_BYTES)
    if len(arguments) == 3:
        _literal_int("the length of substring", arguments[2], 0, _MAX_BYTES)
    return STRING.or_null(optional)


def _like(arguments: Arguments) -> Type:
    optional = _check("like", arguments, Kind.STRING, Kind.STRING)
    pattern = arguments[1].literal
    if not isinstance(pattern, str) or "\\" in pattern:
        raise ValueError("the pattern of like must be written out, and has no \\")
    check_like(pattern)
    return BOOLEAN.or_null(optional)


def _matched(name: str, result: Type, groups: bool) -> Typing:
    """A function of a text, a regular expression and (``groups``) the number of a group."""

    def type_(arguments: Arguments) -> Type:
        kinds = (Kind.STRING, Kind.STRING, *([Kind.INTEGER] if groups else []))
        optional = _check(name, arguments, *kinds, least=2)
        pattern = arguments[1].literal
        if not isinstance(pattern, str):
            raise ValueError(f"the pattern of {name} must be written out")
        count = check_pattern(pattern)
        if len(arguments) == 3:
            _literal_int(f"the group of {name}", arguments[2], 0, count)
        return result.or_null(optional)

    return type_


def _timestamp_seconds(arguments: Arguments) -> Type:
    optional = _check("timestamp_seconds", arguments, Kind.INTEGER)
    operand = arguments[0].type
    if max(-operand.low, operand.high) > MAX_SECONDS:
        raise ValueError(
            f"the number of timestamp_seconds may be more than {MAX_SECONDS}; give the fields a "
            "range,"
        )
    return replace(TIME, optional=optional, low=operand.low, high=operand.high)


def _unix(name: str, factor: int) -> Typing:
    def type_(arguments: Arguments) -> Type:
        optional = _check(name, arguments, Kind.TIME)
        operand = arguments[0].type
        return integer(factor * operand.low, factor * (operand.high + 1) - 1, optional)

    return type_


FUNCTIONS: dict[str, Function] = {
    "coalesce": Function(
        "coalesce(a, b, …)", "of one type", "theirs", "the first that is not null", _coalesce
    ),
    "if": Function(
        "if(condition, a, b)",
        "a boolean, two of one type",
        "theirs",
        "`a` if the condition is true, else `b`",
        _if,
    ),
    "div": Function(
        "div(a, 60)",
        "whole numbers",
        "whole number",
        "the quotient, rounded towards zero; the divisor is written out",
        _div,
    ),
    "mod": Function(
        "mod(a, 60)",
        "whole numbers",
        "whole number",
        "the remainder, never negative; the divisor is written out",
        _mod,
    ),
    "lower": Function(
        "lower(text)",
        "string",
        "string",
        "in small letters; Σ becomes σ, also at the end of a word",
        _function("lower", STRING, Kind.STRING),
    ),
    "upper": Function(
        "upper(text)",
        "string",
        "string",
        "in capital letters",
        _function("upper", STRING, Kind.STRING),
    ),
    "trim": Function(
        "trim(text)",
        "string",
        "string",
        "without the spaces around it",
        _function("trim", STRING, Kind.STRING),
    ),
    "length": Function(
        "length(text)",
        "string",
        "whole number",
        "the number of characters",
        _function("length", integer(0, _MAX_BYTES), Kind.STRING),
    ),
    "concat": Function(
        "concat(a, b, …)",
        "strings, whole numbers",
        "string",
        "the texts together; also `a \\|\\| b`",
        _concat,
    ),
    "substring": Function(
        "substring(text, 1, 3)",
        "string, whole numbers",
        "string",
        "from character 1; without a length, to the end",
        _substring,
    ),
    "regexp_like": Function(
        "regexp_like(text, pattern)",
        "strings",
        "boolean",
        "whether the pattern is found in the text",
        _matched("regexp_like", BOOLEAN, groups=False),
    ),
    "regexp_extract": Function(
        "regexp_extract(text, pattern, 1)",
        "strings, whole number",
        "string",
        "this group of the first match, or `''`",
        _matched("regexp_extract", STRING, groups=True),
    ),
    "regexp_extract_all": Function(
        "regexp_extract_all(text, pattern, 1)",
        "strings, whole number",
        "list of strings",
        "this group of all matches",
        _matched("regexp_extract_all", STRINGS, groups=True),
    ),
    "unix_seconds": Function(
        "unix_seconds(time)",
        "time",
        "whole number",
        "seconds since 1970, rounded down",
        _unix("unix_seconds", 1),
    ),
    "unix_millis": Function(
        "unix_millis(time)",
        "time",
        "whole number",
        "milliseconds since 1970, rounded down",
        _unix("unix_millis", 1000),
    ),
    "timestamp_seconds": Function(
        "timestamp_seconds(number)",
        "whole number",
        "time",
        "the time at this number of seconds since 1970",
        _timestamp_seconds,
    ),
}
"""By name, in the order of the docs."""


def _comparison(name: str, documentation: str) -> Function:
    return Function(
        f"a {name} b", "numbers, or of one type", "boolean", documentation, _compared(name)
    )


OPERATORS: dict[str, Function] = {
    "or": Function(
        "a or b",
        "boolean",
        "boolean",
        "true if one of them is true, else null if one is null",
        _function("or", BOOLEAN, Kind.BOOLEAN, Kind.BOOLEAN),
    ),
    "and": Function(
        "a and b",
        "boolean",
        "boolean",
        "false if one of them is false, else null if one is null",
        _function("and", BOOLEAN, Kind.BOOLEAN, Kind.BOOLEAN),
    ),
    "not": Function(
        "not a", "boolean", "boolean", "the opposite", _function("not", BOOLEAN, Kind.BOOLEAN)
    ),
    "=": _comparison("=", "whether they are equal"),
    "<>": _comparison("<>", "whether they are not equal; also `a != b`"),
    "<": _comparison("<", "whether `a` is less; strings by their code points"),
    "<=": _comparison("<=", "whether `a` is less or equal"),
    ">": _comparison(">", "whether `a` is greater"),
    ">=": _comparison(">=", "whether `a` is greater or equal"),
    "is null": Function("a is null", "any", "boolean", "whether there is no value", _null_test),
    "is not null": Function(
        "a is not null", "any", "boolean", "whether there is a value", _null_test
    ),
    "in": Function(
        "a in (1, 2)",
        "numbers, or of one type",
        "boolean",
        "whether it is one of these, which are written out",
        _in,
    ),
    "between": Function(
        "a between b and c",
        "numbers, or of one type",
        "boolean",
        "`a >= b and a <= c`",
        _compared("between"),
    ),
    "like": Function(
        "a like 'x%'",
        "strings",
        "boolean",
        "whether it has this form: `%` is any text, and `_` any character",
        _like,
    ),
    "+": Function("a + b", "whole numbers", "whole number", "the sum", _plus),
    "-": Function("a - b", "whole numbers", "whole number", "the difference", _minus),
    "*": Function("a * b", "whole numbers", "whole number", "the product", _times),
    "negative": Function(
        "-a", "whole number", "whole number", "the number with the other sign", _negative
    ),
}
"""By name, in the order of the docs."""
