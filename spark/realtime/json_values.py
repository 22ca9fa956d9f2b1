"""Strict JSON as expressions of Spark: the rule of ``spark.formats.strict_json`` without Python.

Spark's ``try_parse_json`` is strict where ``from_json`` is lenient: quotes, numbers, escapes,
surrogates. Four differences to Python's parser remain, and are handled here:

- It reads the first value of a text, and ignores what follows. So the text becomes part of two
  arrays, which have one and two elements only if the text is one value.
- Like ``from_json``, it reads bytes that are not UTF-8 as U+FFFD. They are checked before.
- It reads numbers above the range of a double as infinite. They are looked for in the text.
- It refuses a number of more than 1,000 characters, a name of more than 50,000, and values that are
  nested more deeply than 998 levels. This is stricter than Python, and stays so.

For a name that is there several times, the last value counts, in both. This needs the setting
``spark.sql.variant.allowDuplicateKeys`` (``spark.required``).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark.errors import JobError
from spark.formats.strict_json import MAX_JSON_BYTES

REASON = "#reason"
"""The column that says why a value is malformed, or is null."""

_ISO = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(Z|[+-]((0[0-9]|1[0-7]):[0-5][0-9]|18:00))\z"
)
# Numbers that may be too great for a double, in a text without strings.
_LONG_NUMBER = r"-?(?:[0-9][0-9.]*[eE][+-]?[0-9]+|[0-9]{309}[0-9.]*)"
_MAYBE_LONG = "[0-9][eE][+]?[0-9]{2}|[0-9]{309}"
_NUMBERS = ("DECIMAL", "DOUBLE", "FLOAT")


def check_schema(schema: StructType) -> None:
    """``JobError`` if a field cannot be read without Python."""
    for field in schema:
        if type(field.dataType) not in _WHAT:
            raise JobError(f"field {field.name}: the type {field.dataType.simpleString()}")
        if not field.name or set(field.name) & {'"', "\\"}:
            raise JobError(f'field {field.name!r}: an empty name, or one with " or \\')


def decoded(value: Column, schema: StructType) -> Column:
    """The JSON of a binary column ► an array of one struct, for ``inline``: the fields, which may
    be null, and ``REASON``. Only the reason counts if it is not null."""
    text = value.cast("string")
    is_readable = (F.octet_length(value) <= MAX_JSON_BYTES) & F.is_valid_utf8(text)
    parsed = F.when(is_readable, F.try_parse_json(F.concat(F.lit("["), text, F.lit(",0]"))))
    numbers = range(len(schema))

    # Each step names what it uses more than once. Otherwise Spark would compute it each time.
    def find(document: Column) -> Column:
        problem = _problem(value, text, document)
        found = (_member(document, field.name).alias(f"v{n}") for n, field in enumerate(schema))
        return F.struct(problem.alias("problem"), *found)

    def classify(found: Column) -> Column:
        kinds = (_kind(found[f"v{n}"]).alias(f"k{n}") for n in numbers)
        return F.struct(found.alias("found"), *kinds)

    def read(step: Column) -> Column:
        found = step["found"]
        columns, reasons = [], [found["problem"]]
        for n, field in enumerate(schema):
            of, reason = _read_field(found[f"v{n}"], step[f"k{n}"], field)
            columns.append(of.alias(field.name))
            reasons.append(reason)
        return F.struct(*columns, F.coalesce(*reasons).alias(REASON))

    return F.transform(F.transform(F.transform(F.array(parsed), find), classify), read)


def _problem(value: Column, text: Column, document: Column) -> Column:
    """Why the value is not a JSON object; null if it is one."""
    return (
        F.when(value.isNull(), "value: null")
        .when(F.octet_length(value) > MAX_JSON_BYTES, f"value: more than {MAX_JSON_BYTES} bytes")
        .when(~F.is_valid_utf8(text), "value: not UTF-8")
        .when(~_is_one_value(document, text), "value: not JSON")
        .when(_has_infinite(text), "value: not JSON: a number is too great")
        .when(~text.rlike(r"\A[ \t\n\r]*\{"), "value: not a JSON object")
    )


def _is_one_value(document: Column, text: Column) -> Column:
    """``document``: an array of the text and 0. If the text itself closes the array, or has
    several values, both arrays have the same length or the shorter one is too long."""
    is_alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1
    follows = F.try_variant_get(document, "$[1]", "bigint") == 0
    return F.coalesce(follows & is_alone, F.lit(False))


def _has_infinite(text: Column) -> Column:
    """Whether a number is too great for a double, also one in a field that is not read."""
    unescaped = F.replace(F.replace(text, F.lit("\\\\"), F.lit("")), F.lit('\\"'), F.lit(""))
    without_strings = F.regexp_replace(unescaped, '"[^"]*"', '""')
    numbers = F.regexp_extract_all(without_strings, F.lit(_LONG_NUMBER), F.lit(0))
    greatest = F.lit(float("inf"))
    is_infinite = F.exists(numbers, lambda each: F.abs(each.try_cast("double")) == greatest)
    return F.when(text.rlike(_MAYBE_LONG), is_infinite).otherwise(F.lit(False))


def _member(document: Column, name: str) -> Column:
    return F.try_variant_get(document, f'$[0]["{name}"]', "variant")


def _kind(found: Column) -> Column:
    """The type of a value, as Spark writes it; VOID for null, and if there is none."""
    # The type of an array with many different elements is slow to find.
    is_nested = F.substring(F.to_json(found), 1, 1).isin("{", "[")
    kind = F.when(found.isNull(), "VOID").when(is_nested, "NESTED")
    return kind.otherwise(F.schema_of_variant(found))


def _read_field(found: Column, kind: Column, field: StructField) -> tuple[Column, Column]:
    """The value, and why it is malformed."""
    value, is_right = _value(found, kind, field.dataType)
    is_right = F.coalesce(is_right, F.lit(False))
    missing = F.lit(None).cast("string") if field.nullable else F.lit(f"{field.name}: missing")
    reason = F.when(kind == "VOID", missing)
    if isinstance(field.dataType, TimestampType):
        reason = reason.when(kind != "STRING", f"{field.name}: {_WHAT[StringType]}")
    reason = reason.when(~is_right, f"{field.name}: {_WHAT[type(field.dataType)]}")
    return F.when(is_right, value), reason


def _value(found: Column, kind: Column, of: DataType) -> tuple[Column, Column]:
    """The value of a field, and whether it has the type."""
    if isinstance(of, StringType):
        return F.try_variant_get(found, "$", "string"), kind == "STRING"
    if isinstance(of, BooleanType):
        return F.try_variant_get(found, "$", "boolean"), kind == "BOOLEAN"
    if isinstance(of, LongType):
        return F.try_variant_get(found, "$", "bigint"), kind == "BIGINT"
    if isinstance(of, IntegerType):
        number = F.try_variant_get(found, "$", "bigint")
        is_right = (kind == "BIGINT") & number.between(-(2**31), 2**31 - 1)
        return number.try_cast("int"), is_right
    if isinstance(of, DoubleType):
        numbers = reduce(Column.__or__, (F.startswith(kind, F.lit(each)) for each in _NUMBERS))
        # -0.0 becomes 0.0, as in ``strict_json``
        return F.try_variant_get(found, "$", "double") + F.lit(0.0), (kind == "BIGINT") | numbers
    text = F.try_variant_get(found, "$", "string")
    time = text.try_cast("timestamp")
    # Python has no year 0.
    is_time = text.rlike(_ISO) & (text >= "0001") & time.isNotNull()
    return time, (kind == "STRING") & is_time


_WHAT: dict[type[DataType], str] = {
    StringType: "not a string",
    BooleanType: "not true or false",
    DoubleType: "not a number",
    IntegerType: "not a whole number of 32 bits",
    LongType: "not a whole number of 64 bits",
    TimestampType: "not a time like 2013-01-01T10:00:00Z",
}
"""By Spark type: what a JSON value of another type is."""
