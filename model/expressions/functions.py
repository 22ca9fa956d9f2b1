"""The functions and operators of expressions, and the types of their results.

All are deterministic and total: they return a value or null for every input. So functions that may
fail in Spark (casts of text, calculations that overflow, division by zero) are null there, or are
refused.
"""

from __future__ import annotations

from dataclasses import replace

from model.expressions.casts import CASTS, cast_type
from model.expressions.signatures import arithmetic, texts, times
from model.expressions.signatures.signature import (
    ORDERED,
    Arguments,
    Function,
    Typing,
    check,
    check_count,
    check_same_kind,
    common_type,
    function,
    may_be_null,
)
from model.expressions.types import (
    BOOLEAN,
    STRING,
    STRINGS,
    Kind,
    Type,
    WrongKindError,
    integer,
)


def result_type(name: str, arguments: Arguments) -> Type:
    """The type of a function's or operator's result. Raises ValueError if the arguments are not
    allowed."""
    if name in CASTS:
        return cast_type(name, arguments[0].type)
    return (FUNCTIONS.get(name) or OPERATORS[name]).type_of(arguments)


def _compared(name: str) -> Typing:
    def type_(arguments: Arguments) -> Type:
        kinds = {argument.type.kind for argument in arguments}
        check_same_kind(name, kinds)
        [kind, *_] = kinds
        if kind not in ORDERED and not (kind is Kind.BOOLEAN and name in ("=", "<>")):
            hint = ". Write a, or not a," if kind is Kind.BOOLEAN else ""
            raise WrongKindError(f"{name} cannot compare a {kind}{hint}")
        if Kind.DECIMAL in kinds and Kind.DOUBLE not in kinds:
            common_type(name, arguments)  # which has all digits of both
        return BOOLEAN.or_null(may_be_null(arguments))

    return type_


def _in(arguments: Arguments) -> Type:
    if any(argument.literal is None for argument in arguments[1:]):
        raise ValueError("the values after in must be literals")
    return _compared("in")(arguments)


def _null_test(arguments: Arguments) -> Type:
    return BOOLEAN


def _coalesce(arguments: Arguments) -> Type:
    if len(arguments) < 2:
        raise ValueError("coalesce needs at least 2 arguments")
    optional = all(argument.type.optional for argument in arguments)
    return replace(common_type("coalesce", arguments), optional=optional)


def _extreme(name: str) -> Typing:
    """``greatest`` and ``least``, which ignore nulls, as in PostgreSQL."""

    def type_(arguments: Arguments) -> Type:
        if len(arguments) < 2:
            raise ValueError(f"{name} needs at least 2 arguments")
        type_ = common_type(name, arguments)
        if type_.kind not in ORDERED:
            raise ValueError(f"{name} cannot compare a {type_.kind}")
        return replace(type_, optional=all(argument.type.optional for argument in arguments))

    return type_


def _nullif(arguments: Arguments) -> Type:
    check_count("nullif", arguments, 2, 2)
    _compared("=")(arguments)
    return arguments[0].type.or_null()


def _if(arguments: Arguments) -> Type:
    check_count("if", arguments, 3, 3)
    check("if", arguments[:1], Kind.BOOLEAN)
    return common_type("if", arguments[1:])


FUNCTIONS: dict[str, Function] = {
    "coalesce": Function(
        "coalesce(a, b, …)",
        "numbers, or of one type",
        "theirs",
        "the first that is not null",
        _coalesce,
    ),
    "if": Function(
        "if(condition, a, b)",
        "a boolean, then numbers or two of one type",
        "theirs",
        "`a` if the condition is true, else `b`",
        _if,
    ),
    "div": Function(
        "div(a, 60)",
        "whole numbers",
        "whole number",
        "the quotient, rounded towards zero; the divisor is a literal",
        arithmetic.div,
    ),
    "mod": Function(
        "mod(a, 60)",
        "whole numbers",
        "whole number",
        "the remainder, never negative; the divisor is a literal",
        arithmetic.mod,
    ),
    "nullif": Function(
        "nullif(a, b)",
        "numbers, or of one type",
        "that of `a`",
        "null if they are equal, else `a`",
        _nullif,
    ),
    "greatest": Function(
        "greatest(a, b, …)",
        "numbers, or of one type",
        "theirs",
        "the greatest that is not null",
        _extreme("greatest"),
    ),
    "least": Function(
        "least(a, b, …)",
        "numbers, or of one type",
        "theirs",
        "the least that is not null",
        _extreme("least"),
    ),
    "abs": Function(
        "abs(a)", "number", "its type", "without its sign; null for -2^63", arithmetic.absolute
    ),
    "round": Function(
        "round(a, 2)",
        "number, whole number",
        "whole number, decimal",
        "to 2 digits after the point, or to a whole number",
        arithmetic.round_,
    ),
    "floor": Function(
        "floor(a)",
        "number",
        "whole number",
        "the next whole number below; null beyond 64 bits",
        arithmetic.whole("floor"),
    ),
    "ceil": Function(
        "ceil(a)",
        "number",
        "whole number",
        "the next whole number above; null beyond 64 bits",
        arithmetic.whole("ceil"),
    ),
    "lower": Function(
        "lower(text)",
        "string",
        "string",
        "in small letters; Σ becomes σ, also at the end of a word",
        function("lower", STRING, Kind.STRING),
    ),
    "upper": Function(
        "upper(text)",
        "string",
        "string",
        "in capital letters",
        function("upper", STRING, Kind.STRING),
    ),
    "trim": Function(
        "trim(text)",
        "string",
        "string",
        "without the spaces around it",
        function("trim", STRING, Kind.STRING),
    ),
    "length": Function(
        "length(text)",
        "string",
        "whole number",
        "the number of characters",
        function("length", integer(0, texts.MAX_BYTES), Kind.STRING),
    ),
    "concat": Function(
        "concat(a, b, …)",
        "strings, whole numbers",
        "string",
        "the texts together; also `a \\|\\| b`",
        texts.concat,
    ),
    "substring": Function(
        "substring(text, 1, 3)",
        "string, whole numbers",
        "string",
        "from character 1; without a length, to the end",
        texts.substring,
    ),
    "replace": Function(
        "replace(text, 'a', 'b')",
        "strings",
        "string",
        "with `b` for each `a`; null beyond 1,000,000 characters",
        texts.replace,
    ),
    "starts_with": Function(
        "starts_with(text, 'a')",
        "strings",
        "boolean",
        "whether the text begins with this one",
        function("starts_with", BOOLEAN, Kind.STRING, Kind.STRING),
    ),
    "ends_with": Function(
        "ends_with(text, 'a')",
        "strings",
        "boolean",
        "whether the text ends with this one",
        function("ends_with", BOOLEAN, Kind.STRING, Kind.STRING),
    ),
    "contains": Function(
        "contains(a, b)",
        "a string or list, its part",
        "boolean",
        "whether this text or element is in it",
        texts.contains,
    ),
    "split": Function(
        "split(text, ',')",
        "strings",
        "list of strings",
        "the parts between these texts",
        texts.split,
    ),
    "size": Function("size(a)", "list, map", "whole number", "the number of elements", texts.size),
    "map_keys": Function(
        "map_keys(a)", "map", "list of strings", "the names in a map", texts.map_keys
    ),
    "regexp_like": Function(
        "regexp_like(text, pattern)",
        "strings",
        "boolean",
        "whether the pattern is found in the text",
        texts.matched("regexp_like", BOOLEAN, groups=False),
    ),
    "regexp_extract": Function(
        "regexp_extract(text, pattern, 1)",
        "strings, whole number",
        "string",
        "this group of the first match, or `''`",
        texts.matched("regexp_extract", STRING, groups=True),
    ),
    "regexp_extract_all": Function(
        "regexp_extract_all(text, pattern, 1)",
        "strings, whole number",
        "list of strings",
        "this group of all matches",
        texts.matched("regexp_extract_all", STRINGS, groups=True),
    ),
    "unix_seconds": Function(
        "unix_seconds(time)",
        "time",
        "whole number",
        "seconds since 1970, rounded down",
        times.unix("unix_seconds", 1),
    ),
    "unix_millis": Function(
        "unix_millis(time)",
        "time",
        "whole number",
        "milliseconds since 1970, rounded down",
        times.unix("unix_millis", 1000),
    ),
    "unix_micros": Function(
        "unix_micros(time)",
        "time",
        "whole number",
        "microseconds since 1970",
        times.unix_micros,
    ),
    "timestamp_seconds": Function(
        "timestamp_seconds(number)",
        "whole number",
        "time",
        "the time this many seconds after 1970; null beyond 294246",
        times.of_number("timestamp_seconds", 1),
    ),
    "timestamp_millis": Function(
        "timestamp_millis(number)",
        "whole number",
        "time",
        "the same for milliseconds",
        times.of_number("timestamp_millis", 1000),
    ),
    "timestamp_micros": Function(
        "timestamp_micros(number)",
        "whole number",
        "time",
        "the same for microseconds",
        times.of_number("timestamp_micros", 1_000_000),
    ),
    "date_trunc": Function(
        "date_trunc('hour', time)",
        "string, time",
        "time",
        "the start of its hour, or of another [unit](#times)",
        times.date_trunc,
    ),
    "date": Function("date(time)", "time", "string", "its day: `2026-01-31`", times.date),
    **{
        name: Function(
            f"{name}(time)",
            "time",
            "whole number",
            documentation,
            times.part(name, integer(low, high)),
        )
        for name, low, high, documentation in (
            ("year", -300_000, 300_000, "its year"),
            ("month", 1, 12, "its month, from 1"),
            ("day", 1, 31, "its day of the month, from 1"),
            ("hour", 0, 23, "its hour, from 0"),
            ("minute", 0, 59, "its minute"),
            ("second", 0, 59, "its second"),
            ("dayofweek", 1, 7, "its day of the week: 1 is Sunday, 7 is Saturday"),
        )
    },
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
        function("or", BOOLEAN, Kind.BOOLEAN, Kind.BOOLEAN),
    ),
    "and": Function(
        "a and b",
        "boolean",
        "boolean",
        "false if one of them is false, else null if one is null",
        function("and", BOOLEAN, Kind.BOOLEAN, Kind.BOOLEAN),
    ),
    "not": Function(
        "not a", "boolean", "boolean", "the opposite", function("not", BOOLEAN, Kind.BOOLEAN)
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
        "whether it is one of these literals",
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
        texts.like,
    ),
    "+": Function("a + b", "numbers", "number", "the sum", arithmetic.plus),
    "-": Function("a - b", "numbers", "number", "the difference", arithmetic.minus),
    "*": Function("a * b", "numbers", "number", "the product", arithmetic.times),
    "/": Function(
        "a / b",
        "numbers",
        "number",
        "the quotient; of whole numbers, it is rounded towards zero; null if `b` is 0",
        arithmetic.divide,
    ),
    "%": Function(
        "a % b",
        "whole numbers",
        "whole number",
        "the remainder, with the sign of `a`; null if `b` is 0",
        arithmetic.remainder,
    ),
    "negative": Function(
        "-a", "number", "number", "the number with the other sign", arithmetic.negative
    ),
    "[]": Function(
        "a[1]",
        "list, whole number",
        "its element",
        "element 1, the first, or `a['name']` of a map; null if there is none",
        texts.element,
    ),
}
"""By name, in the order of the docs."""
