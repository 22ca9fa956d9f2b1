"""Each function and operator of expressions, in Spark."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from model.derive.derivation import RECORD_FIELDS
from model.expressions.functions import FUNCTIONS, OPERATORS
from model.expressions.parser import parse
from model.expressions.tree import Call, Field, nodes
from model.expressions.types import parse_field_type
from spark.derive.columns import column

TYPES = {
    "word": "string", "nothing": "string?", "small": "int", "big": "long", "at": "time",
    "flag": "boolean", "ratio": "double",
}  # fmt: skip
SCHEMA = (
    "word string, nothing string, small int, big long, at timestamp, flag boolean, ratio double, "
    "record_partition int"
)
ROW = (" Éa1 b22", None, -7, 2**62, datetime(2026, 1, 1, 10, 0, 59, tzinfo=UTC), True, 0.5, 3)
EXPRESSIONS: dict[str, object] = {
    "lower(word)": " éa1 b22",
    "upper(word)": " ÉA1 B22",
    "trim(word)": "Éa1 b22",
    "length(word)": 8,
    "length(nothing)": None,
    "concat(small, '-', big, word)": "-7-4611686018427387904 Éa1 b22",
    "concat(small, small)": "-7-7",
    "substring(word, 2, 3)": "Éa1",
    "substring(word, 6)": "b22",
    "regexp_like(word, '[0-9]{2}')": True,
    "regexp_extract(word, '([a-z])([0-9]+)')": "a1",
    "regexp_extract(word, '([a-z])([0-9]+)', 2)": "1",
    "regexp_extract(word, 'x')": "",
    "regexp_extract_all(word, '[a-z][0-9]+')": ["a1", "b22"],
    r"regexp_extract_all(word, '\b[a-z](\d+)\b', 1)": ["22"],
    "coalesce(nothing, word)": ROW[0],
    "if(flag, 1, 2)": 1,
    "if(nothing = 'x', 1, 2)": 2,
    "div(small, 2)": -3,
    "mod(small, 2)": 1,
    "unix_seconds(at)": 1767261659,
    "unix_millis(at)": 1767261659000,
    "unix_seconds(timestamp_seconds(unix_seconds(at) - 60 * 60))": 1767258059,
    "small * 2000000000": -14000000000,
    "small + 2147483647": 2147483640,
    "small - 2147483647": -2147483654,
    "-small": 7,
    "small * -2147483648": 15032385536,
    "30 * 24 * 3600 * 1000": 2592000000,
    "2147483647 + 1": 2147483648,
    "unix_millis(at) - 30 * 24 * 3600 * 1000": 1764669659000,
    "length(word) * 1000000000": 8000000000,
    "coalesce(small, 0) * 1000000000": -7000000000,
    "-(if(flag, small, 0) * -1000000000)": -7000000000,
    "coalesce(length(nothing), 3) * 100000 * 30": 9000000,
    "record_partition * 1000000000": 3000000000,
    "small in (1, -7)": True,
    "word not in ('a', 'b')": True,
    "nothing in ('a')": None,
    "small between -7 and 0": True,
    "small not between -7 and 0": False,
    "word like '%b__'": True,
    "word like 'b'": False,
    "nothing is null and word is not null": True,
    "not flag or ratio >= ratio": True,
    "ratio = ratio and ratio <= ratio": True,
    "small <> -7 or big > 5": True,
    "small != -7": False,
    "not (big < 0)": True,
    "nothing = nothing": None,
}
NAMES = {name: Field(name, parse_field_type(of)) for name, of in TYPES.items()} | {
    "record_partition": Field("record_partition", RECORD_FIELDS["record_partition"])
}


def test_the_values_of_expressions(session: SparkSession) -> None:
    rows = session.createDataFrame([ROW], SCHEMA)
    parsed = [parse(text, NAMES) for text in EXPRESSIONS]
    columns = [column(each).alias(f"_{number}") for number, each in enumerate(parsed)]
    [found] = rows.repartition(1).select(*columns).collect()
    assert dict(zip(EXPRESSIONS, found, strict=True)) == EXPRESSIONS
    # the same if Spark does not compile them, and if the fields have other columns
    others = {name: F.col(f"r.{name}") for name in NAMES}
    columns = [column(each, others).alias(f"_{number}") for number, each in enumerate(parsed)]
    [again] = rows.select(F.struct("*").alias("r")).select(*columns).collect()
    assert tuple(again) == tuple(found)


def test_all_functions_and_operators_are_tested() -> None:
    used = {
        part.function
        for text in EXPRESSIONS
        for part in nodes(parse(text, NAMES))
        if isinstance(part, Call)
    }
    assert used == FUNCTIONS.keys() | OPERATORS.keys()
