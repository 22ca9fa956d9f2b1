"""What is within the records: the schema of every raw topic and how it is decoded.

Decoding never fails and never drops: it adds a column ``reason``, null where the record is well
formed, else what is wrong with it. The malformed go to the dead-letter topic (``spark.sinks``).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

# What spark.sources reads of a Kafka record.
RAW_RECORD = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)

# Those fields of a flight that the views need; others are not even parsed. Where a flight never
# departed (cancelled) dep_time is null; minute and dep_delay are minutes.
FLIGHT = StructType(
    [
        StructField("tailnum", StringType()),
        StructField("carrier", StringType(), nullable=False),
        StructField("flight", IntegerType(), nullable=False),
        StructField("origin", StringType(), nullable=False),
        StructField("dest", StringType(), nullable=False),
        StructField("time_hour", StringType(), nullable=False),
        StructField("minute", IntegerType(), nullable=False),
        StructField("dep_time", IntegerType()),
        StructField("dep_delay", IntegerType()),
    ]
)

# What is longer cannot be meant. Without a bound a record of nearly the greatest size that Kafka
# takes could become one that it does not take, which would stop the job, at every restart anew.
MAX_JSON_BYTES = 100_000
MAX_WORD_CHARACTERS = 1000

_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


def decode_flights(records: DataFrame) -> DataFrame:
    """RAW_RECORD rows ► the same, FLIGHT's fields (``time_hour`` as a timestamp), ``reason``."""
    time_hour = F.try_to_timestamp("time_hour", F.lit("yyyy-MM-dd'T'HH:mm:ssXXX"))
    wrong = (
        F.when(F.col("time_hour").isNull(), "time_hour: not a time like 2013-01-01T10:00:00Z")
        .when(~F.col("minute").between(0, 59), "minute: not within 0 to 59")
        .when(F.expr("dep_time IS NOT NULL AND dep_delay IS NULL"), "dep_delay: missing")
    )
    decoded = decode_json(records, FLIGHT).withColumn("time_hour", time_hour)
    return decoded.withColumn("reason", F.coalesce("reason", wrong))


def decode_texts(records: DataFrame) -> DataFrame:
    """RAW_RECORD rows ► the same, ``text`` (the value as UTF-8) and ``reason``."""
    text = F.col("value").cast("string")
    # The look-behind keeps the search linear; in Java \\w is ASCII.
    too_long = text.rlike(rf"(?<![\w'])[\w']{{{MAX_WORD_CHARACTERS + 1}}}")
    reason = _not_text("value").when(
        too_long, F.lit(f"value: a word of more than {MAX_WORD_CHARACTERS} characters")
    )
    return records.withColumns({"text": text, "reason": reason})


def decode_json(records: DataFrame, schema: StructType) -> DataFrame:
    """RAW_RECORD rows ► the same, the fields of ``schema`` and ``reason``.

    The value must be one JSON object (RFC 8259) with the schema's types: no ``"5"`` for a number,
    no number for a string. Fields that the schema does not name are passed over.
    """
    # Within an array a parser has to read to the value's end, or it would let `{…} rubbish` pass.
    enveloped = F.concat(F.lit('{"record":['), F.col("value").cast("string"), F.lit("]}"))
    parsed = F.from_json(enveloped, _envelope(schema), _STRICT)
    rows = once(records, "parsed", parsed)
    record = F.get("parsed.record", F.lit(0))
    one_object = F.expr("parsed.corrupt IS NULL AND size(parsed.record) = 1") & record.isNotNull()
    reason = (
        _not_text("value")
        .when(
            F.octet_length("value") > MAX_JSON_BYTES,
            F.lit(f"value: more than {MAX_JSON_BYTES} bytes"),
        )
        .when(
            F.coalesce(~one_object, F.lit(True)),
            F.lit("value: not a JSON object of " + ", ".join(_described(schema))),
        )
    )
    for field in schema:
        value = record[field.name]
        if not field.nullable:
            reason = reason.when(value.isNull(), F.lit(f"{field.name}: missing"))
        if isinstance(field.dataType, StringType):
            reason = reason.when(_not_a_string(field.name, value), f"{field.name}: not a string")
    fields = {field.name: record[field.name] for field in schema}
    return rows.withColumns(fields | {"reason": reason}).drop("parsed")


def once(rows: DataFrame, name: str, value: Column) -> DataFrame:
    """``rows.withColumn(name, value)``, computed once a row.

    The optimizer copies an expression to every place that uses it, filters included: a record would
    be parsed a dozen times. What a generator has made it does not copy.
    """
    return rows.withColumn(name, F.explode(F.array(value)))


def _not_text(column: str) -> Column:
    text = F.col(column).cast("string")
    return F.when(F.col(column).isNull(), F.lit(f"{column}: null")).when(
        ~F.is_valid_utf8(text), F.lit(f"{column}: not UTF-8")
    )


def _not_a_string(name: str, text: Column) -> Column:
    # from_json gives a number, an object or an array as its text where a string should be. None of
    # these begins or ends with a capital, so few strings need the exact look, which is slow.
    first, last = F.substring(text, 1, 1), F.substring(text, -1, 1)
    surely = first.between("A", "Z") | last.between("A", "Z")
    document = F.try_parse_json(F.col("value").cast("string"))
    kind = F.schema_of_variant(F.try_variant_get(document, f"$.{name}", "variant"))
    return ~surely & (kind != "STRING")


def _envelope(schema: StructType) -> StructType:
    return StructType(
        [StructField("record", ArrayType(schema)), StructField("corrupt", StringType())]
    )


def _described(schema: StructType) -> list[str]:
    return [f"{field.name} ({field.dataType.simpleString()})" for field in schema]
