"""Hints for SQL users: which type a field should have instead of a type of SQL."""

from __future__ import annotations

import re

_TYPES = {
    "string": "varchar, char, text, str, uuid, enum, character varying",
    "int": "integer, int32, smallint, tinyint, int4, number, serial",
    "long": "bigint, int64, int8, bigserial",
    "double": "float, float64, real, double precision, float8",
    "boolean": "bool",
    "decimal(2)": "decimal, numeric, money",
    "time": "timestamp, datetime, timestamptz, instant",
    "strings": "array, list, string[], text[], array<string>, list<string>",
    "longs": "ints, int[], bigint[], long[], array<int>, array<bigint>",
    "map": "object, struct, json, jsonb, map<string,string>",
}


def type_hint(text: str) -> str:
    """What to write instead of a type of SQL. Empty if there is no hint."""
    name = text.strip().lower().removesuffix(" not null")
    optional = "?" if name.endswith(("?", " null")) else ""
    name = name.removesuffix("?").removesuffix(" null")
    number = re.fullmatch(r"(?:decimal|numeric)\(\d+ *(?:, *(\d+))?\)", name, re.ASCII)
    if number is not None:
        scale = int(number[1] or 0)
        return f'write "{f"decimal({scale})" if scale else "long"}{optional}"; '
    if name == "date":
        return f'write "string{optional}"; if it has a clock and a zone, write "time{optional}"; '
    name = re.sub(r"\([0-9, ]*\)$| with time zone$| without time zone$", "", name)
    for ours, others in _TYPES.items():
        if name in others.split(", ") or name == ours:
            return f'write "{ours}{optional}"; '
    return ""
