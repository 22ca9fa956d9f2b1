"""Evaluates expressions in Python: a typed tree becomes one generated function.

The source of the function has names of variables and operators only. The values of literals, and
the names of fields, are variables of its closure, so no text of a client is ever in a source.

The function cannot fail. A value that is missing, or not of its field's declared type, is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, cast

from model.expressions.calendar import (
    PARTS,
    date_function,
    part_function,
    timestamp_function,
    trunc_function,
)
from model.expressions.casts import CASTS, cast_function
from model.expressions.exact import converter, extreme_function, number_function
from model.expressions.matching import (
    like_function,
    regexp_extract_all_function,
    regexp_extract_function,
    regexp_like_function,
)
from model.expressions.text_functions import list_element, map_value, replace_function
from model.expressions.tree import Call, Expression, Literal
from model.expressions.types import INT64_MAX, INT64_MIN, AnyScalar, Kind, NumberTime, Type
from model.expressions.values import Value, is_of_number, reader, unquoted, unquoted_elements

Row = Mapping[str, object]
"""Field ► value, as JSON has it."""
Evaluate = Callable[..., Value]
"""A function of the variables that `places` names; without places, of a row."""


class Place(NamedTuple):
    """Where a field's value is: the variable, and the names of the members that lead to it.
    `quotes_numbers`: a text of digits may be a number there."""

    variable: str
    path: tuple[str, ...]
    quotes_numbers: bool = False


_SHORT = 10_000  # characters of a source that is kept
_DEEPEST = 90
"""Python's source has up to 100 levels of indentation. A part that is deeper is evaluated even if
its value is not needed."""

_STRICT: dict[str, str] = {
    "+": "{} + {}",
    "-": "{} - {}",
    "*": "{} * {}",
    "negative": "-{}",
    "div": "{0} // {1} if {0} >= 0 else -(-{0} // {1})",
    "mod": "{} % {}",
    "not": "not {}",
    "lower": "{}.replace('Σ', 'σ').lower()",
    "upper": "{}.upper()",
    "trim": "{}.strip(' ')",
    "length": "len({})",
    "unix_seconds": "{} // 1000000",
    "unix_millis": "{} // 1000",
    "unix_micros": "{}",
    "starts_with": "{}.startswith({})",
    "ends_with": "{}.endswith({})",
    "contains": "{1} in {0}",
    "split": "{}.split({})",
    "size": "len({})",
    "map_keys": "list({})",
}
"""The Python source of functions and operators that are null if one of their arguments is."""
_NUMBERS = frozenset({"+", "-", "*", "negative", "/", "%", "abs", "round", "floor", "ceil"})
_WHOLE = frozenset({"+", "-", "*", "negative"})
"""Calculations with whole numbers for which Python has an operator."""
_PER_SECOND = {"timestamp_seconds": 1, "timestamp_millis": 1000, "timestamp_micros": 1_000_000}
_COMPARISONS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_COMPARE = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_AND = "False if {0} is False or {1} is False else None if {0} is None or {1} is None else True"
_OR = "True if {0} is True or {1} is True else None if {0} is None or {1} is None else False"


def compile_expression(
    expression: Expression,
    places: Mapping[str, Place] | None = None,
    variables: Sequence[str] = ("row",),
) -> Evaluate:
    """A function from a row to the value of the expression. A time is in µs since 1970.

    ``places``: where the value of each field is; without it, a field is a member of the row.
    ``variables``: the names of the function's arguments, which are identifiers.
    """
    return _Source(places or {}).compiled(expression, variables)


# Expressions that differ in their constants have the same source, and compiling it takes most of
# the time. A long source is not kept.
@lru_cache(maxsize=128)
def _make(source: str) -> Callable[..., Evaluate]:
    """The function `make` of a source."""
    made: dict[str, Any] = {}
    exec(source, made)
    make: Callable[..., Evaluate] = made["make"]
    return make


Known = dict[tuple[str, Type], str]


class _Source:
    """The source of one function. ``_null``: the variables that may be null."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        self._lines: list[str] = []
        self._constants: dict[str, object] = {}
        self._null: set[str] = set()
        self._variables = 0

    def compiled(self, expression: Expression, variables: Sequence[str]) -> Evaluate:
        result = self._value(expression, {}, 2)
        source = "\n".join(
            [
                f"def make({', '.join(self._constants)}):",
                f" def evaluate({', '.join(variables)}):",
                *self._lines,
                f"  return {result}",
                " return evaluate",
            ]
        )
        make = _make if len(source) <= _SHORT else _make.__wrapped__
        evaluate: Evaluate = make(source)(*self._constants.values())
        return evaluate

    def _line(self, level: int, text: str) -> None:
        self._lines.append(" " * level + text)

    def _constant(self, value: object) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _variable(self, level: int, text: str, may_be_null: bool) -> str:
        """A new variable with this value."""
        name = f"v{self._variables}"
        self._variables += 1
        self._line(level, f"{name} = {text}")
        if may_be_null:
            self._null.add(name)
        return name

    def _strict(self, level: int, text: str, *names: str, may_be_null: bool = False) -> str:
        """A variable that is null if one of these variables is, and otherwise has this value."""
        tests = [f"{name} is None" for name in dict.fromkeys(names) if name in self._null]
        if tests:
            text = f"None if {' or '.join(tests)} else {text}"
        return self._variable(level, text, may_be_null or bool(tests))

    def _value(self, expression: Expression, known: Known, level: int) -> str:
        """The name of the variable or constant that has the value. ``known``: the variables of
        fields that have been read."""
        if isinstance(expression, Literal):
            return self._constant(expression.value)
        if isinstance(expression, Call):
            return self._call(expression, known, level)
        # a field without a declared type may be read in several ways
        read = expression.name, expression.type
        if read not in known:
            known[read] = self._field(expression.name, expression.type, level)
        return known[read]

    def _member(self, name: str, level: int) -> str:
        """The source of a field's value."""
        place = self._places.get(name, Place("row", (name,)))
        *outer, last = place.path or [None]
        if last is None:
            return place.variable
        variable = place.variable
        for member in outer:
            text = f"{variable}.get({self._constant(member)}) if type({variable}) is dict else None"
            variable = self._variable(level, text, True)
        source = f"{variable}.get({self._constant(last)})"
        if not outer and name not in self._places:
            return source  # a row has members
        return f"({source} if type({variable}) is dict else None)"

    def _field(self, name: str, type_: Type, level: int) -> str:
        member = self._member(name, level)
        place = self._places.get(name)
        if place is not None and place.quotes_numbers and is_of_number(type_):
            member = f"{self._constant(unquoted)}({member})"
        elif place is not None and place.quotes_numbers and type_.kind is Kind.LONGS:
            member = f"{self._constant(unquoted_elements)}({member})"
        if type_.kind is Kind.JSON:
            return self._variable(level, member, True)
        if isinstance(type_, AnyScalar | NumberTime) or type_.kind not in _CHECKS:
            return self._variable(level, f"{self._constant(reader(type_))}({member})", True)
        # the plain types without a call, because most conditions only compare them
        variable = self._variable(level, member, True)
        wrong = _CHECKS[type_.kind].format(variable)
        if type_.kind is Kind.INTEGER:
            low, high = self._constant(type_.low), self._constant(type_.high)
            wrong = f"{wrong} or not {low} <= {variable} <= {high}"
        self._line(level, f"if {wrong}: {variable} = None")
        return variable

    def _call(self, call: Call, known: Known, level: int) -> str:
        lazy = {"and": self._and, "or": self._or, "if": self._if, "coalesce": self._coalesce}
        if call.function in lazy:
            return lazy[call.function](call, known, level)
        names = [self._value(argument, known, level) for argument in call.arguments]
        if call.function in _NUMBERS and not (call.function in _WHOLE and _is_whole(call)):
            types = [argument.type for argument in call.arguments]
            calculate = number_function(call.function, types, call.type)
            return self._applied(call, calculate, names, level)
        if call.function in _STRICT:
            return self._strict(level, _STRICT[call.function].format(*names), *names)
        if call.function in _COMPARISONS:
            return self._compared(call.function, call.arguments, names, level)
        if call.function in CASTS:
            cast = cast_function(call.function, call.arguments[0].type, call.type)
            return self._applied(call, cast, names, level)
        return _OTHERS[call.function](self, call, names, level)

    def _applied(
        self, call: Call, function: Callable[..., Any], names: list[str], level: int
    ) -> str:
        """A variable with the result of a function, which is null if an argument is."""
        text = f"{self._constant(function)}({', '.join(names)})"
        return self._strict(level, text, *names, may_be_null=call.type.optional)

    def _converted(self, name: str, source: Type, target: Type, level: int) -> str:
        """The number as one of the kind of ``target``."""
        convert = converter(source, target)
        return (
            name
            if convert is None
            else self._strict(level, f"{self._constant(convert)}({name})", name)
        )

    def _inner(self, level: int, test: str) -> int:
        """Begins a block that is skipped unless the test is true. Returns its level."""
        if level >= _DEEPEST:
            return level
        self._line(level, f"if {test}:")
        return level + 1

    def _and(self, call: Call, known: Known, level: int) -> str:
        return self._joined(call.arguments, known, level, "is not False", _AND)

    def _or(self, call: Call, known: Known, level: int) -> str:
        return self._joined(call.arguments, known, level, "is not True", _OR)

    def _joined(
        self,
        arguments: tuple[Expression, ...],
        known: Known,
        level: int,
        undecided: str,
        text: str,
    ) -> str:
        left, right = arguments
        result = self._variable(level, self._value(left, known, level), True)
        inner = self._inner(level, f"{result} {undecided}")
        other = self._value(right, known if inner == level else {**known}, inner)
        self._line(inner, f"{result} = {text.format(result, other)}")
        return result

    def _if(self, call: Call, known: Known, level: int) -> str:
        condition, then, other = call.arguments
        test = f"{self._value(condition, known, level)} is True"
        if level >= _DEEPEST:
            values = [
                self._converted(self._value(branch, known, level), branch.type, call.type, level)
                for branch in (then, other)
            ]
            return self._variable(level, f"{values[0]} if {test} else {values[1]}", True)
        result = self._variable(level, "None", True)
        for start, branch in ((f"if {test}:", then), ("else:", other)):
            self._line(level, start)
            value = self._value(branch, {**known}, level + 1)
            value = self._converted(value, branch.type, call.type, level + 1)
            self._line(level + 1, f"{result} = {value}")
        return result

    def _coalesce(self, call: Call, known: Known, level: int) -> str:
        first, *alternatives = call.arguments
        value = self._converted(self._value(first, known, level), first.type, call.type, level)
        result = self._variable(level, value, True)
        for alternative in alternatives:
            inner = self._inner(level, f"{result} is None")
            value = self._value(alternative, known if inner == level else {**known}, inner)
            value = self._converted(value, alternative.type, call.type, inner)
            self._line(inner, f"if {result} is None: {result} = {value}")
        return result

    def _compared(
        self, operator: str, arguments: tuple[Expression, ...], names: list[str], level: int
    ) -> str:
        """Compares by value. A decimal is compared with a double as the double of its text."""
        kinds = {argument.type.kind for argument in arguments}
        if Kind.JSON in kinds:
            quotes = any(place.quotes_numbers for place in self._places.values())
            compare = self._constant(partial(_compared_json, _COMPARE[operator], quotes))
            return self._strict(level, f"{compare}({', '.join(names)})", *names, may_be_null=True)
        sides = list(names)
        if Kind.DECIMAL in kinds and kinds & {Kind.DOUBLE, Kind.NUMBER}:
            for number, argument in enumerate(arguments):
                if isinstance(argument, Literal):
                    sides[number] = self._constant(float(argument.value))
                elif argument.type.kind is Kind.DECIMAL:
                    sides[number] = f"float({names[number]})"
        return self._strict(level, f" {_COMPARISONS[operator]} ".join(sides), *names)

    def _between(self, call: Call, names: list[str], level: int) -> str:
        operand, low, high = call.arguments
        least = self._compared(">=", (operand, low), [names[0], names[1]], level)
        most = self._compared("<=", (operand, high), [names[0], names[2]], level)
        return self._variable(level, _AND.format(least, most), True)

    def _in(self, call: Call, names: list[str], level: int) -> str:
        operand, *items = call.arguments
        is_double = operand.type.kind in (Kind.DOUBLE, Kind.NUMBER)
        values = {
            float(item.value) if is_double and isinstance(item.value, Decimal) else item.value
            for item in items
            if isinstance(item, Literal)
        }
        return self._strict(level, f"{names[0]} in {self._constant(frozenset(values))}", names[0])

    def _null_test(self, call: Call, names: list[str], level: int) -> str:
        return self._variable(level, f"{names[0]} {call.function.replace('null', 'None')}", False)

    def _concat(self, call: Call, names: list[str], level: int) -> str:
        texts = [
            f"str({name})" if argument.type.kind is Kind.INTEGER else name
            for name, argument in zip(names, call.arguments, strict=True)
        ]
        return self._strict(level, " + ".join(texts), *names)

    def _substring(self, call: Call, names: list[str], level: int) -> str:
        start, *length = _written(call)
        end = start - 1 + length[0] if length else None
        return self._strict(level, f"{names[0]}[{self._constant(slice(start - 1, end))}]", names[0])

    def _extreme(self, call: Call, names: list[str], level: int) -> str:
        types = [argument.type for argument in call.arguments]
        choose = self._constant(extreme_function(call.function, types, call.type))
        return self._variable(level, f"{choose}({', '.join(names)})", True)

    def _nullif(self, call: Call, names: list[str], level: int) -> str:
        equal = self._compared("=", call.arguments, names, level)
        return self._variable(level, f"None if {equal} else {names[0]}", True)

    def _element(self, call: Call, names: list[str], level: int) -> str:
        is_map = call.arguments[0].type.kind is Kind.MAP
        return self._applied(call, map_value if is_map else list_element, names, level)

    def _replace(self, call: Call, names: list[str], level: int) -> str:
        return self._applied(call, replace_function(*_written(call)), names[:1], level)

    def _timestamp(self, call: Call, names: list[str], level: int) -> str:
        per_second = _PER_SECOND[call.function]
        return self._applied(call, timestamp_function(per_second), names, level)

    def _part(self, call: Call, names: list[str], level: int) -> str:
        zone = next(iter(_written(call)), None)
        return self._applied(call, part_function(call.function, zone), names[:1], level)

    def _date(self, call: Call, names: list[str], level: int) -> str:
        zone = next(iter(_written(call)), None)
        return self._applied(call, date_function(zone), names[:1], level)

    def _date_trunc(self, call: Call, names: list[str], level: int) -> str:
        unit, _, *zone = call.arguments
        truncate = trunc_function(*(str(x.value) for x in (unit, *zone) if isinstance(x, Literal)))
        return self._applied(call, truncate, names[1:2], level)

    def _matched(self, call: Call, names: list[str], level: int) -> str:
        pattern, *group = _written(call)
        matched = _MATCHED[call.function](pattern, *group)
        return self._strict(level, f"{self._constant(matched)}({names[0]})", names[0])


def _is_whole(call: Call) -> bool:
    return all(argument.type.kind is Kind.INTEGER for argument in call.arguments)


def _compared_json(
    compare: Callable[[Any, Any], bool], quotes_numbers: bool, left: object, right: object
) -> bool | None:
    """Compares two values in JSON; null unless both are strings, numbers, or booleans.
    `quotes_numbers`: if both are numbers or texts of digits, they are compared as numbers."""
    if quotes_numbers:
        numbers = unquoted(left), unquoted(right)
        if _json_kind(numbers[0]) is _json_kind(numbers[1]) is float:
            left, right = numbers
    kinds = {_json_kind(left), _json_kind(right)}
    if len(kinds) > 1 or None in kinds or (kinds == {bool} and compare not in (eq, ne)):
        return None
    return compare(left, right)


def _json_kind(value: object) -> type | None:
    kind = type(value)
    if kind is int:
        return float if INT64_MIN <= cast(int, value) <= INT64_MAX else None
    return kind if kind in (str, float, bool) else None


def _written(call: Call) -> list[Any]:
    """The values of the literals after the first argument."""
    return [argument.value for argument in call.arguments[1:] if isinstance(argument, Literal)]


_CHECKS = {
    Kind.STRING: "type({}) is not str",
    Kind.BOOLEAN: "type({}) is not bool",
    Kind.INTEGER: "type({}) is not int",
}
_MATCHED: dict[str, Callable[..., Callable[[str], Value]]] = {
    "like": like_function,
    "regexp_like": regexp_like_function,
    "regexp_extract": regexp_extract_function,
    "regexp_extract_all": regexp_extract_all_function,
}
_OTHERS: dict[str, Callable[[_Source, Call, list[str], int], str]] = {
    "between": _Source._between,
    "in": _Source._in,
    "is null": _Source._null_test,
    "is not null": _Source._null_test,
    "concat": _Source._concat,
    "substring": _Source._substring,
    **dict.fromkeys(_MATCHED, _Source._matched),
    "greatest": _Source._extreme,
    "least": _Source._extreme,
    "nullif": _Source._nullif,
    "[]": _Source._element,
    "replace": _Source._replace,
    **dict.fromkeys(_PER_SECOND, _Source._timestamp),
    **dict.fromkeys(PARTS, _Source._part),
    "date": _Source._date,
    "date_trunc": _Source._date_trunc,
}
