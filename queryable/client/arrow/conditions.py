"""Arrow's filters as conditions of a view (`where`).

An Arrow expression tells its parts only as text, in which names and strings are ambiguous. So the
expression that the text was read as is made again, and must equal the given one. A filter that is
not understood is no condition: Arrow filters all batches in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MAX_CHARACTERS = 8_000
"""Of a condition that is sent."""

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?Z)'
    r"|(?P<number>-?\d{1,19}(?:\.\d{1,14})?(?![\w.]))|(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<mark>==|!=|<=|>=|<|>|\(|\)|,)|(?P<options>\{[^{}]*\}|\[bool\])",
    re.ASCII | re.DOTALL,
)
_SPACE = re.compile(r"\s*")
_SQL = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "and", "or": "or"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_SET = re.compile(r"\{value_set=[^:]*:\[(.*)\], null_matching_behavior=MATCH\}", re.DOTALL)
_MAX_DIGITS = 15  # of a number that a condition may have
_MAKE: Mapping[str, Callable[[Any, Any], pc.Expression]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}


_Types = Callable[[object, pa.DataType], pa.Scalar]


class _NotUnderstood(Exception):
    pass


@dataclass
class _Part:
    """A part of an expression: as Arrow has it, and as a condition. `type`: of a column.
    `literal`: the text of a value, whose type depends on the column that it is compared with."""

    made: Any = None
    text: str = ""
    type: pa.DataType | None = None
    literal: tuple[str, str] | None = None
    or_null: str = ""  # of `in`: null if the column is null


def condition_of(
    expression: pc.Expression, names: Mapping[str, tuple[str, pa.DataType]]
) -> str | None:
    """The condition, or None. `names`: column ► its name in conditions, and its type; those that
    are missing cannot be compared."""
    for types in (_as_column, _as_python):  # DuckDB's constants are of the column's type
        text = _text_of(expression, names, types)
        if text is not None:
            return text if len(text) <= MAX_CHARACTERS else None
    return None


def _text_of(
    expression: pc.Expression, names: Mapping[str, tuple[str, pa.DataType]], types: _Types
) -> str | None:
    try:
        reader = _Reader(str(expression), names, types)
        part = reader.part()
        is_same = reader.is_at_end and not part.literal and part.made.equals(expression)
        return part.text if is_same else None
    except (_NotUnderstood, pa.ArrowException, ArithmeticError, ValueError, TypeError):
        return None
    except RecursionError:
        return None


def _as_column(value: object, type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(value, type_)


def _as_python(value: object, type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(value)


class _Reader:
    """`types`: makes a constant that is compared with a column."""

    def __init__(
        self, text: str, names: Mapping[str, tuple[str, pa.DataType]], types: _Types
    ) -> None:
        self._text, self._names, self._types, self._at = text, names, types, 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._text)

    def part(self) -> _Part:
        kind, token = self._next()
        if token == "(":
            left, operator = self.part(), self._next()[1]
            right = self.part()
            self._expect(")")
            return _joined(operator, left, right, self._types)
        if kind == "name" and token not in ("true", "false"):
            if self._text.startswith("(", self._at):
                return self._call(token)
            if token not in self._names:
                raise _NotUnderstood
            name, type_ = self._names[token]
            return _Part(pc.field(token), name, type_)
        if kind in ("string", "number", "time", "name"):
            return _Part(literal=(kind, token))
        raise _NotUnderstood

    def _call(self, function: str) -> _Part:
        self._expect("(")
        if function == "invert":
            inner = _condition(self.part())
            self._expect(")")
            return _Part(~inner.made, f"(not {inner.text})")
        if function == "if_else":  # as DuckDB writes `in`
            valid = self.part()
            self._expect(",")
            among = self.part()
            self._expect(",")
            if self._next()[1] != "null" or self._next()[1] != "[bool]":
                raise _NotUnderstood
            self._expect(")")
            made = pc.if_else(valid.made, among.made, pa.scalar(None, pa.bool_()))
            return _Part(made, among.or_null)
        column = self.part()
        if column.type is None:
            raise _NotUnderstood
        if function == "is_valid":
            self._expect(")")
            return _Part(column.made.is_valid(), f"({column.text} is not null)")
        self._expect(",")
        options = self._options()
        self._expect(")")
        if function == "is_null" and options == "{nan_is_null=false}":
            return _Part(column.made.is_null(), f"({column.text} is null)")
        if function == "is_in":
            return _among(column, options, self._types)
        raise _NotUnderstood

    def _options(self) -> str:
        """The options of a call. Texts in them are not escaped, so they end with the call."""
        start = _end_of_space(self._text, self._at)
        end = self._text.find("})", start)
        if end < 0 or self._text[start : start + 1] != "{":
            raise _NotUnderstood
        self._at = end + 1
        return self._text[start : end + 1]

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, _end_of_space(self._text, self._at))
        if match is None or match.lastgroup is None:
            raise _NotUnderstood
        self._at = match.end()
        return match.lastgroup, match[0]

    def _expect(self, token: str) -> None:
        if self._next()[1] != token:
            raise _NotUnderstood


def _end_of_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _condition(part: _Part) -> _Part:
    if part.literal is not None or (part.type is not None and not pa.types.is_boolean(part.type)):
        raise _NotUnderstood
    return part


def _joined(operator: str, left: _Part, right: _Part, types: _Types) -> _Part:
    if operator not in _SQL:
        raise _NotUnderstood
    if operator in ("and", "or"):
        left, right = _condition(left), _condition(right)
    elif left.type is None or right.literal is None:
        raise _NotUnderstood
    else:
        right = _value(right.literal, left.type, types)
    made = _MAKE[operator](left.made, right.made)
    return _Part(made, f"({left.text} {_SQL[operator]} {right.text})")


def _among(column: _Part, options: str, types: _Types) -> _Part:
    found = _SET.fullmatch(options)
    if found is None or column.type is None:
        raise _NotUnderstood
    lines = [line.strip().removesuffix(",") for line in found[1].strip().split("\n")]
    kind = "string" if pa.types.is_string(column.type) else "number"
    values = [_value((kind, line), column.type, types, escaped=False) for line in lines]
    made = column.made.isin(pa.array([value.made for value in values]))
    among = f"{column.text} in ({', '.join(value.text for value in values)})"
    # Arrow's own is false if the column is null
    return _Part(made, f"({column.text} is not null and {among})", or_null=f"({among})")


def _value(
    literal: tuple[str, str], type_: pa.DataType, types: _Types, escaped: bool = True
) -> _Part:
    """A constant that is compared with a column."""
    kind, written = literal
    if kind == "string" and pa.types.is_string(type_):
        text = written[1:-1]
        if escaped:
            text = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)
        elif written[:1] != '"' or written[-1:] != '"' or len(written) < 2:
            raise _NotUnderstood
        return _Part(types(text, type_), "'" + text.replace("'", "''") + "'")
    if kind == "name" and pa.types.is_boolean(type_):
        return _Part(types(written == "true", type_), written)
    if kind == "time" and pa.types.is_timestamp(type_):
        moment = datetime.fromisoformat(written.replace("Z", "+00:00")).astimezone(UTC)
        return _Part(types(moment, type_), f"'{written.replace(' ', 'T')}'")
    if kind == "number" and sum(map(str.isdigit, written)) <= _MAX_DIGITS:
        if pa.types.is_decimal(type_):
            return _Part(types(Decimal(written), type_), written)
        if pa.types.is_floating(type_):
            is_whole = types is _as_python and "." not in written
            return _Part(types(int(written) if is_whole else float(written), type_), written)
    if kind == "number" and pa.types.is_integer(type_):
        return _Part(types(int(written), type_), written)
    raise _NotUnderstood
