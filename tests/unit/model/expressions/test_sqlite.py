"""SQLite as an independent reference of the language, where it has the same."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from hypothesis import given

from model.expressions.evaluator import compile_expression
from model.expressions.parser import parse
from model.expressions.tree import Call, Expression, Field, Literal
from model.expressions.types import COLLECTIONS, Kind
from tests.vectors.expression_cases import CASES, DECLARED, NAMES, PARTITION, ROW, Case
from tests.vectors.random_expressions import expressions, parsed_or_none, rows

_PREFIXES = {"not": "NOT", "negative": "-"}
_FUNCTIONS = {"if": "iif", "substring": "substr"}
_SAME = ("lower", "upper", "trim", "length", "coalesce", "nullif", "replace", "abs")
_INFIX = ("or", "and", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "like")
# Its times are texts, its decimals are doubles, and results that are not finite are not null.
_OTHER_FIELDS = {Kind.DECIMAL, Kind.TIME} | COLLECTIONS
_OTHER_RESULTS = _OTHER_FIELDS | {Kind.DOUBLE}
_NAMES = [name for name, type_ in DECLARED.items() if type_.kind not in _OTHER_FIELDS]
_NAMES.append("record_partition")


def sql(of: Expression) -> str:
    """The expression for SQLite, with parentheses. Raises KeyError if SQLite has not the same."""
    if isinstance(of, Field):
        if of.type.kind in _OTHER_FIELDS:
            raise KeyError(of.name)
        return f'"{of.name}"'
    if isinstance(of, Literal):
        if not isinstance(of.value, str):
            return str(of.value)
        return "'" + of.value.replace("'", "''") + "'"
    return _call(of, [sql(each) for each in of.arguments])


def _call(call: Call, given: list[str]) -> str:
    name = call.function
    if call.type.kind in _OTHER_RESULTS and name not in ("coalesce", "if"):
        raise KeyError(name)
    if name in _INFIX:
        return f"({given[0]} {name} {given[1]})"
    if name in _PREFIXES:
        return f"({_PREFIXES[name]} {given[0]})"
    if name in _FUNCTIONS or name in _SAME:
        return f"{_FUNCTIONS.get(name, name)}({', '.join(given)})"
    return {
        "is null": "({0} IS NULL)",
        "is not null": "({0} IS NOT NULL)",
        "in": f"({{0}} IN ({', '.join(given[1:])}))",
        "between": "({0} BETWEEN {1} AND {2})",
        "concat": f"({' || '.join(given)})",
        "div": "({0} / {1})",
        "mod": "((({0} % {1}) + {1}) % {1})",
        "contains": "(instr({0}, {1}) > 0)",
    }[name].format(*given)


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        yield database


def in_sqlite(database: sqlite3.Connection, of: Expression, row: dict[str, object]) -> object:
    values = {**row, "record_partition": PARTITION}
    columns = ", ".join(f'? AS "{name}"' for name in _NAMES)
    query = f"SELECT {sql(of)} FROM (SELECT {columns})"
    [(found,)] = database.execute(query, [values.get(name) for name in _NAMES])
    return found


def _portable(case: Case) -> bool:
    """Whether SQLite has the functions of the case; its case mappings know only ASCII."""
    try:
        text = sql(parse(case.text, NAMES))
    except KeyError:
        return False
    row = {**ROW, **case.given}
    if row.get("number") == -(2**63) and ("/" in text or "abs" in text):
        return False  # it fails, or returns a double
    if case.text.startswith("length(replace(replace"):
        return False  # its texts may be longer
    return ("lower" not in text and "upper" not in text) or str(row["word"]).isascii()


def test_the_table_of_cases() -> None:
    portable = [case for case in CASES if "any" not in case.text and _portable(case)]
    assert len(portable) > 200, "most functions are in SQLite"
    with _opened() as database:
        values = [
            (case, in_sqlite(database, parse(case.text, NAMES), {**ROW, **case.given}))
            for case in portable
        ]
    assert [(str(case), value) for case, value in values if value != case.value] == []


@given(expressions(sqlite=True), rows(ascii_only=True))
def test_python_and_sqlite_have_the_same_values(text: str, row: dict[str, object]) -> None:
    parsed = parsed_or_none(text)
    if parsed is None:
        return
    with _opened() as database:
        expected = in_sqlite(database, parsed, row)
    found = compile_expression(parsed)({**row, "record_partition": PARTITION})
    assert found == expected, (text, row)
