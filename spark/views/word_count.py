"""word-count: how often each word occurs in the texts.

Key: word (string). Value: count, int64 big-endian, like Kafka's LongSerializer. A word is a
run of ``[a-z0-9_']`` in the lower-case text, as long as possible. Each record counts, so a text
that a producer wrote twice counts twice.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats.keys import int64
from spark.raw_topics.texts import TEXTS
from spark.view import View

WORD = "[a-z0-9_']+"


def word_count(texts: DataFrame) -> DataFrame:
    """Well-formed rows of ``TEXTS`` ► ``key``, ``value``, one row per word."""
    words = F.regexp_extract_all(F.lower("text"), F.lit(WORD), F.lit(0))
    counted = texts.select(F.explode(words).alias("word")).groupBy("word").count()
    return counted.select(F.col("word").alias("key"), int64(F.col("count")).alias("value"))


VIEW = View(
    name="word-count",
    description="how often each word occurs in the texts",
    source="texts",
    topic="word-count",
    decoder=TEXTS,
    derive=word_count,
    partitions=6,
    revision=1,
)
