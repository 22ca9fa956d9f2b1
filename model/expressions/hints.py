"""Hints for SQL users: what to write in an expression instead of what they try."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

QUOTES = (
    "strings have single quotes: 'text'; and a field with another name than an identifier has a "
    'path: fields = { to_city = { path = "to-city", type = "string" } }; "'
)

_FUNCTIONS: Mapping[str, str] = {
    "cast": "write try_cast(a as int): it is null where there is no number",
    "convert": "write try_cast(a as int)",
    "safe_cast": "write try_cast(a as int)",
    "to_number": "write try_cast(a as long)",
    "to_timestamp": "declare the field with the type time, or time ms for a number",
    "from_unixtime": "write timestamp_seconds(a), or declare the field with the type time s",
    "date_trunc": "use window, or div(unix_seconds(time), 3600)",
    "extract": "write mod(div(unix_seconds(time), 3600), 24) for the hour",
    "date": "write div(unix_seconds(time), 86400) for the day",
    "year": "use window, or div(unix_seconds(time), 86400) for the day",
    "now": "a view is computed from its records only: compare with record_timestamp",
    "current_timestamp": "a view is computed from its records only: compare with record_timestamp",
    "ifnull": "write coalesce(a, b)",
    "nvl": "write coalesce(a, b)",
    "isnull": "write a is null",
    "nullif": 'write case when; or "a <> b" in where',
    "iff": "write if(condition, a, b)",
    "len": "write length(a)",
    "char_length": "write length(a)",
    "substr": "write substring(a, 1, 3)",
    "left": "write substring(a, 1, 3)",
    "ltrim": "write trim(a)",
    "rtrim": "write trim(a)",
    "split": "write regexp_extract(a, '([^,]*),', 1), or regexp_extract_all with each",
    "regexp_matches": "write regexp_like(a, '…')",
    "json_extract": 'declare the field with a path: { path = "a.b", type = "string" }',
    "get_json_object": 'declare the field with a path: { path = "a.b", type = "string" }',
    "json_value": 'declare the field with a path: { path = "a.b", type = "string" }',
    "count": "an aggregate is a key of its own: count = true",
    "sum": 'an aggregate is a key of its own: sum = "amount"',
    "avg": 'an aggregate is a key of its own: avg = "amount"',
    "min": 'an aggregate is a key of its own: min = "amount"',
    "max": 'an aggregate is a key of its own: max = "amount"',
}
_WORDS: Mapping[str, str] = {
    "*": "an expression names fields; all records are counted by count = true",
    "::": "write try_cast(a as int)",
    ":": "write try_cast(a as int)",
    "[": 'declare the field with a path: { path = "a.b", type = "string" }',
    "==": "write =",
    "=": "a single = compares, and several comparisons are joined with and",
    "&": "write and",
    "|": "write or; || joins texts",
    "!": "write not, or <>",
    ";": "an expression has no end sign",
    "null": "write a is null, or coalesce(a, 0)",
    "case": "write case when a > 1 then 'x' else 'y' end",
    "select": "an expression has no select: use where, key and the aggregates",
    "distinct": 'an aggregate is a key of its own: distinct = "name"',
    "as": 'names for expressions are in let: let = { minute = "div(a, 60)" }',
    "ilike": "write lower(a) like '…'",
    "rlike": "write regexp_like(a, '…')",
    "interval": "times are compared as numbers: unix_seconds(a) + 3600",
}
_FIELDS: Mapping[str, str] = {
    "timestamp": "the time of a record is record_timestamp; times are written as timestamp "
    "'2026-01-01T10:00:00Z'",
    "_timestamp": "the time of a record is record_timestamp",
    "rowtime": "the time of a record is record_timestamp",
    "current_timestamp": "a view is computed from its records only: use record_timestamp",
    "key": "the key of a record is record_key",
    "_key": "the key of a record is record_key",
    "offset": "the offset of a record is record_offset",
    "partition": "the partition of a record is record_partition",
    "value": "the fields of a value are in fields; a value that is text is text",
    "select": _WORDS["select"],
    "distinct": _WORDS["distinct"],
    "interval": _WORDS["interval"],
}


def unexpected(text: str) -> str:
    """The error for a word or character that cannot be there."""
    return _with_hint(f"unexpected {text or 'end'}", _WORDS.get(text.lower()))


def unknown_function(name: str, known: Iterable[str]) -> str:
    """The error for a function that does not exist."""
    hint = _FUNCTIONS.get(name.lower()) or _close(name.lower(), known)
    return _with_hint(f"unknown function {name[:40]}; allowed: {', '.join(known)}", hint)


def unknown_field(name: str, known: Iterable[str]) -> str:
    """The error for a field that is not declared."""
    names = tuple(known)
    hint = _FIELDS.get(name.lower()) or _close(name, names)
    if hint is None and "." in name:
        hint = f'declare it with a path: {name.split(".")[-1]} = {{ path = "{name}", type = "…" }}'
    return _with_hint(f"unknown field {name}; known: {', '.join(names)}", hint)


def _close(name: str, known: Iterable[str]) -> str | None:
    similar = difflib.get_close_matches(name, tuple(known), 1)
    return f"did you mean {similar[0]}?" if similar else None


def _with_hint(text: str, hint: str | None) -> str:
    return text if hint is None else f"{text}. {hint[0].upper()}{hint[1:]},"
