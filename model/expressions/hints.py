"""Hints for SQL users: what to write in an expression instead of what they try."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

QUOTES = (
    "strings have single quotes: 'text'; and a field whose name is not an identifier needs a "
    'path: fields = { to_city = { path = "to-city", type = "string" } }; "'
)
EXPONENT = (
    "a number is a whole number, or a decimal such as 0.5, without an exponent; this is neither"
)
CASE_ELSE = "case needs else before end, such as else 'other',"
CASE_END = "case needs end: case when a > 1 then 'x' else 'y' end,"
EXTRACT = (
    "Dayofweek(a) is 1 on Sunday, date_trunc('week', a) is the Monday before, and unix_seconds(a) "
    "counts from 1970,"
)

_CAST = "write try_cast(a as int), or decimal(2): it is null where there is no number"
_NO_CLOCK = "a view is computed from its records only: compare with record_timestamp"
_ADD = "write timestamp_seconds(unix_seconds(a) + 3600) for an hour later"
_DIFFERENCE = "write (unix_seconds(a) - unix_seconds(b)) / 86400 for days"
_DATE = "write date(a) for 2026-01-31, or date_trunc('day', a) for a time"
_PATH = 'declare the field with a path: { path = "a.b", type = "string" }, or as a map'
_EACH = 'write each = { item = "items" } for a row per element'
_RECORDS = 'an expression sees one record: use latest = "time" or top_k = { k = 3, by = "size" }'
_COLLECT = 'write top_k = { k = 100, by = "time" } for a list'
_FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(("cast", "convert", "safe_cast", "int", "integer", "float", "double"), _CAST),
    **dict.fromkeys(("to_number", "to_int", "bigint", "long"), "write try_cast(a as long)"),
    **dict.fromkeys(
        ("string", "varchar", "text", "to_string", "str"), "write try_cast(a as string)"
    ),
    **dict.fromkeys(
        ("to_timestamp", "parse_timestamp", "stringtotimestamp", "str_to_date", "strptime"),
        "declare the field with the type time, or time ms for a number",
    ),
    "from_unixtime": "write timestamp_seconds(a), or declare the field with the type time s",
    **dict.fromkeys(
        (
            "now",
            "current_timestamp",
            "current_date",
            "localtimestamp",
            "getdate",
            "sysdate",
            "unix_timestamp",
            "today",
        ),
        _NO_CLOCK,
    ),
    **dict.fromkeys(("ifnull", "nvl", "isnull"), "write coalesce(a, b), or a is null"),
    **dict.fromkeys(("iff", "iif"), "write if(condition, a, b)"),
    **dict.fromkeys(("len", "char_length", "character_length"), "write length(a)"),
    **dict.fromkeys(("substr", "mid", "left"), "write substring(a, 1, 3)"),
    "right": "write regexp_extract(a, '.{3}$')",
    **dict.fromkeys(("ltrim", "rtrim", "btrim"), "write trim(a)"),
    **dict.fromkeys(("ucase", "initcap"), "write upper(a)"),
    "lcase": "write lower(a)",
    "concat_ws": "write a || '-' || b",
    **dict.fromkeys(
        ("instr", "position", "charindex", "strpos", "locate"), "write contains(a, 'b')"
    ),
    "startswith": "write starts_with(a, 'b')",
    "endswith": "write ends_with(a, 'b')",
    **dict.fromkeys(("regexp_matches", "regexp", "rlike"), "write regexp_like(a, '…')"),
    **dict.fromkeys(("regexp_replace", "translate"), "write replace(a, 'b', 'c')"),
    **dict.fromkeys(("split_part", "split_to_array"), "write split(a, ',')[1]"),
    "ceiling": "write ceil(a)",
    **dict.fromkeys(("trunc", "truncate"), "write floor(a), or date_trunc('day', a) for a time"),
    **dict.fromkeys(("pow", "power"), "write a * a"),
    "sign": "write case when a > 0 then 1 when a < 0 then -1 else 0 end",
    **dict.fromkeys(("date_add", "dateadd", "date_sub", "timestampadd"), _ADD),
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff"), _DIFFERENCE),
    **dict.fromkeys(("to_date", "date_format", "to_char", "strftime", "formatdate"), _DATE),
    **dict.fromkeys(("timestamptostring", "format_timestamp"), _DATE),
    **dict.fromkeys(("weekday", "dow", "day_of_week"), "write dayofweek(a): 1 is Sunday"),
    **dict.fromkeys(("dayofmonth", "day_of_month"), "write day(a)"),
    "to_unixtime": "write unix_seconds(a)",
    **dict.fromkeys(
        ("tumble", "hop", "window_start", "tumble_start"),
        'windows are a key of the table: window = "1m"',
    ),
    **dict.fromkeys(("explode", "unnest", "flatten"), _EACH),
    "array_contains": "write contains(a, b)",
    **dict.fromkeys(("cardinality", "array_length", "array_size", "array_count"), "write size(a)"),
    "element_at": "write a[1]",
    **dict.fromkeys(
        ("json_extract", "get_json_object", "json_value", "json_query", "extractjsonfield"), _PATH
    ),
    "count": 'an aggregate is a key of its own: count = true, or distinct = "name"',
    **{name: f'an aggregate is a key of its own: {name} = "amount"' for name in ("sum", "avg")},
    "mean": 'an aggregate is a key of its own: avg = "amount"',
    **{
        name: f'an aggregate is a key of its own: {name} = "amount"; of two values, {ours}(a, b)'
        for name, ours in (("min", "least"), ("max", "greatest"))
    },
    **dict.fromkeys(
        ("approx_count_distinct", "count_distinct"),
        'an aggregate is a key of its own: distinct = "name"',
    ),
    **dict.fromkeys(
        ("collect_list", "array_agg", "listagg", "string_agg", "group_concat"), _COLLECT
    ),
    **dict.fromkeys(
        ("row_number", "rank", "lag", "lead", "latest_by_offset", "last_value"), _RECORDS
    ),
}
_WORDS: Mapping[str, str] = {
    "*": "an expression names fields; all records are counted by count = true",
    "**": "write a * a",
    "^": "write a * a",
    "~": "write regexp_like(a, '…')",
    "::": "write try_cast(a as int)",
    ":": "write try_cast(a as int)",
    "[": "elements are a[1] and a['name']; the values after in have parentheses",
    "{": "elements are a[1] and a['name']",
    "`": "names have no quotes; a field with an odd name has a path",
    "==": "write =",
    "=": "a single = compares, and several comparisons are joined with and",
    "&": "write and",
    "|": "write or; || joins texts",
    "!": "write not, or <>",
    ";": "an expression does not end with a semicolon",
    ",": 'write and between conditions; several values are a list in TOML: key = ["a", "b"]',
    "null": "write a is null, or coalesce(a, 0)",
    "case": "write case when a > 1 then 'x' else 'y' end",
    "select": "an expression has no select: use where, key and the aggregates",
    "distinct": 'an aggregate is a key of its own: distinct = "name"; '
    "instead of is distinct from, write a <> b or a is null",
    "as": 'names for expressions are in let: let = { minute = "div(a, 60)" }',
    "from": 'the topic is a key of its own: from = "orders". Write substring(a, 1, 3) without from',
    "where": 'a condition is a key of its own: where = "a > 1"',
    "group": 'write key = "a"',
    "over": _RECORDS,
    "order": _RECORDS,
    "ilike": "write lower(a) like '…'",
    **dict.fromkeys(("rlike", "regexp", "similar"), "write regexp_like(a, '…')"),
    "glob": "write a like 'x%'",
    "escape": "write contains(a, '%')",
    "at": "functions of times have a zone: hour(a, 'Europe/Berlin')",
    "collate": "write lower(a) = lower(b)",
    "interval": "times are compared as numbers: unix_seconds(a) + 3600",
    "exists": 'a condition has no subquery; write join.NAME = { from = "…", on = "…", … }',
}
_MAX_NAMED = 50  # fields in an error
_FIELDS: Mapping[str, str] = {
    "timestamp": "the time of a record is record_timestamp; times are written as timestamp "
    "'2026-01-01T10:00:00Z'",
    "date": "write timestamp '2026-01-01T00:00:00Z', or date(a) = '2026-01-01'",
    "_timestamp": "the time of a record is record_timestamp",
    "rowtime": "the time of a record is record_timestamp",
    **dict.fromkeys(
        ("current_timestamp", "current_date", "localtimestamp", "proctime"),
        "a view is computed from its records only: use record_timestamp",
    ),
    "key": "the key of a record is record_key",
    "_key": "the key of a record is record_key",
    "rowkey": "the key of a record is record_key",
    "offset": "the offset of a record is record_offset",
    "rowoffset": "the offset of a record is record_offset",
    "partition": "the partition of a record is record_partition",
    "rowpartition": "the partition of a record is record_partition",
    "value": "the fields of a value are in fields; a value that is text is text",
    "windowstart": "the start of a window is in the key of its entry",
    **dict.fromkeys(("both", "leading", "trailing"), "write trim(a)"),
    **{word: _WORDS[word] for word in ("select", "distinct", "interval", "exists", "from")},
}


def unexpected(text: str) -> str:
    """The error for a word or character that cannot be there."""
    return _with_hint(f"unexpected {text or 'end'}", _WORDS.get(text.lower()))


def expected(needed: str, text: str) -> str:
    """The error for a word or character that is there instead of another one."""
    return _with_hint(f"expected {needed}, not {text or 'the end'}", _WORDS.get(text.lower()))


def unknown_function(name: str, known: Iterable[str]) -> str:
    """The error for a function that does not exist."""
    hint = _FUNCTIONS.get(name.lower()) or _WORDS.get(name.lower()) or _close(name.lower(), known)
    return _with_hint(f"unknown function {name[:40]}; allowed: {', '.join(known)}", hint)


def unknown_field(name: str, known: Iterable[str]) -> str:
    """The error for a field that is not declared."""
    names = tuple(known)
    if '"' in name:  # a name with quotes, where these are allowed
        return f"unknown field {name}: {QUOTES}"
    hint = _FIELDS.get(name.lower())
    if hint is None and "." in name:
        first, last = name.split(".")
        hint = f'declare it with a path: {last} = {{ path = "{name}", type = "…" }}'
        if first in names:
            hint = f"write {first}['{last}'] for a map, or {hint}"
        elif any(known_name.startswith(f"{first}.") for known_name in names):
            hint = None
    hint = hint or _close(name, names)
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return _with_hint(f"unknown field {name}; known: {', '.join(names[:_MAX_NAMED])}{more}", hint)


def _close(name: str, known: Iterable[str]) -> str | None:
    similar = difflib.get_close_matches(name, tuple(known), 1)
    return f"did you mean {similar[0]}?" if similar else None


def _with_hint(text: str, hint: str | None) -> str:
    return text if hint is None else f"{text}. {hint[0].upper()}{hint[1:]},"
