"""Strict JSON as expressions of Spark: the rule of ``spark.formats.strict_json`` without Python.

Spark's ``try_parse_json`` is strict where ``from_json`` is lenient: quotes, numbers, escapes. Five
differences between it and Python's parser remain, and are handled here:

- It reads the first value of a text, and ignores what follows. So the text becomes part of two
  arrays, which have one and two elements only if the text is one value.
- Like ``from_json``, it reads bytes that are not UTF-8 as U+FFFD. So the bytes are checked first.
- It reads numbers above the range of a double as infinite.
- It refuses half of a surrogate pair. So such a half is replaced by U+FFFD first.
- It refuses a number of more than 1,000 characters, a name of more than 50,000, and values that are
  nested more deeply than 998 levels. This is stricter than Python, and stays so.

If a name occurs several times in an object, the last value counts, in both parsers. This needs the
setting ``spark.sql.variant.allowDuplicateKeys`` (``spark.required``).
"""

from __future__ import annotations

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

from model.expressions.values import NOT_A_STRING, not_of_type
from model.times import WITHOUT_ZONE
from spark.errors import JobError
from spark.formats.batches import MAX_BYTES, REASON
from spark.formats.columns import in_steps
from spark.formats.strict_json import TYPES
from spark.realtime.times import is_local, time_of

# Escapes of surrogates, after any number of escaped backslashes. A pair is marked while the halves
# are replaced. JSON has no control characters.
_BEFORE = r"(?<!\\)((?:\\\\)*+)"
_FIRST, _SECOND = r"([dD][89abAB][0-9a-fA-F]{2})", r"([dD][c-fC-F][0-9a-fA-F]{2})"
_MARK = "\x01"


def check_schema(schema: StructType) -> None:
    """Raises ``JobError`` if a field cannot be read without Python."""
    for field in schema:
        if type(field.dataType) not in TYPES:
            raise JobError(f"field {field.name}: the type {field.dataType.simpleString()}")
        if not field.name or set(field.name) & {'"', "\\"}:
            raise JobError(f'field {field.name!r}: an empty name, or one with " or \\')


def decoded(value: Column, schema: StructType) -> Column:
    """The JSON of a binary column ► an array of one struct, for ``inline``: the fields, which may
    be null, and ``REASON``. Only the reason counts if it is not null."""
    is_readable = (F.octet_length(value) <= MAX_BYTES) & _is_utf8(value)
    fields = list(enumerate(schema))

    def parse(text: Column) -> Column:
        document = F.try_parse_json(F.concat(F.lit("["), text, F.lit(",0]")))
        return F.struct(text.alias("text"), F.when(is_readable, document).alias("document"))

    def find(parsed: Column) -> Column:
        problem = _problem(value, parsed["text"], parsed["document"])
        variants = (_member(parsed["document"], field.name).alias(f"v{n}") for n, field in fields)
        return F.struct(problem.alias("problem"), *variants)

    def take(variants: Column) -> Column:
        taken = (_taken(variants[f"v{n}"], field.dataType).alias(f"v{n}") for n, field in fields)
        return F.struct(variants.alias("variants"), *taken)

    def convert(step: Column) -> Column:
        values = (_converted(step[f"v{n}"], field.dataType).alias(f"c{n}") for n, field in fields)
        return F.struct(step.alias("step"), F.struct(*values).alias("values"))

    def judge(step: Column) -> Column:
        values, before = step["values"], step["step"]
        columns = [values[f"c{n}"].alias(field.name) for n, field in fields]
        reasons = (
            _reason(before["variants"][f"v{n}"], before[f"v{n}"], values[f"c{n}"], field)
            for n, field in fields
        )
        reason = F.coalesce(before["variants"]["problem"], *reasons)
        return F.struct(*columns, reason.alias(REASON))

    text = F.when(is_readable, _with_whole_pairs(value.cast("string")))
    return in_steps(F.array(text), parse, find, take, convert, judge)


def _is_utf8(value: Column) -> Column:
    return F.is_valid_utf8(value.cast("string"))


def _problem(value: Column, text: Column, document: Column) -> Column:
    """Why the value is not a JSON object; null if it is one."""
    return (
        F.when(value.isNull(), "value: null")
        .when(F.octet_length(value) > MAX_BYTES, f"value: more than {MAX_BYTES} bytes")
        .when(~_is_utf8(value), "value: not UTF-8")
        .when(~_is_one_value(document, text), "value: not JSON")
        .when(~text.rlike(r"\A[ \t\n\r]*\{"), "value: not a JSON object")
    )


def _is_one_value(document: Column, text: Column) -> Column:
    """``document``: an array of the text and 0. If the text itself closes the array, or has
    several values, both arrays have the same length or the shorter one is too long."""
    is_alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1
    follows = F.try_variant_get(document, "$[1]", "variant").isNotNull()
    return F.coalesce(follows & is_alone, F.lit(False))


def _with_whole_pairs(text: Column) -> Column:
    """The text with U+FFFD for each escape of half of a surrogate pair."""
    pair = rf"{_BEFORE}\\u{_FIRST}\\u{_SECOND}"
    marked = F.regexp_replace(text, pair, rf"$1{_MARK}$2$3")
    whole = F.regexp_replace(marked, rf"{_BEFORE}\\u[dD][89a-fA-F][0-9a-fA-F]{{2}}", r"$1\\ufffd")
    replaced = F.regexp_replace(whole, rf"{_MARK}{_FIRST}{_SECOND}", r"\\u$1\\u$2")
    # Most texts have no escapes.
    has_escapes = F.contains(text, F.lit(r"\ud")) | F.contains(text, F.lit(r"\uD"))
    return F.when(has_escapes & ~F.contains(text, F.lit(_MARK)), replaced).otherwise(text)


def _member(document: Column, name: str) -> Column:
    return F.try_variant_get(document, f'$[0]["{name}"]', "variant")


def _taken(variant: Column, data_type: DataType) -> Column:
    """The value if the JSON value has the type (a time is text); otherwise null."""
    kinds, taken_as = _KINDS[type(data_type)]
    # The type of an array with many different elements is slow to find.
    is_object = F.try_variant_get(variant, "$", "map<string,variant>").isNotNull()
    is_array = F.try_variant_get(variant, "$", "array<variant>").isNotNull()
    kind = F.when(is_object | is_array, "")
    kind = kind.otherwise(F.schema_of_variant(variant))
    return F.when(kind.rlike(kinds), F.try_variant_get(variant, "$", taken_as))


def _converted(taken: Column, data_type: DataType) -> Column:
    """The value of the column; null if it is not in the range of the type."""
    if isinstance(data_type, IntegerType):
        return taken.try_cast("int")
    if isinstance(data_type, DoubleType):
        # -0.0 becomes 0.0, as in ``strict_json``
        return F.when(F.abs(taken) < float("inf"), taken + F.lit(0.0))
    if isinstance(data_type, TimestampType):
        return time_of(taken)
    return taken


def _reason(variant: Column, taken: Column, value: Column, field: StructField) -> Column:
    missing = F.lit(None).cast("string") if field.nullable else F.lit(f"{field.name}: missing")
    what = F.when(value.isNotNull(), F.lit(None).cast("string"))
    what = what.when(variant.isNull() | F.is_variant_null(variant), missing)
    if isinstance(field.dataType, TimestampType):
        what = what.when(taken.isNull(), f"{field.name}: {NOT_A_STRING}")
        what = what.when(is_local(taken), f"{field.name}: {WITHOUT_ZONE}")
    return what.otherwise(f"{field.name}: {not_of_type(TYPES[type(field.dataType)])}")


_KINDS: dict[type[DataType], tuple[str, str]] = {
    StringType: (r"\ASTRING\z", "string"),
    BooleanType: (r"\ABOOLEAN\z", "boolean"),
    DoubleType: (r"\A(BIGINT|DECIMAL|DOUBLE|FLOAT)", "double"),
    IntegerType: (r"\ABIGINT\z", "bigint"),
    LongType: (r"\ABIGINT\z", "bigint"),
    TimestampType: (r"\ASTRING\z", "string"),
}
"""By Spark type: a pattern for the JSON types that it accepts, as Spark writes them, and the type
as which such values are read."""
