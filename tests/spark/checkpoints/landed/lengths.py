"""How many requests had each number of bytes; Python's workers name the number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.formats.keys import int64
from spark.view import View

FIELDS = StructType([StructField("client", StringType()), StructField("bytes", LongType())])
NAMES = {1: "one", 2: "two", 5: "five"}


def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = [NAMES.get(number, "many") for number in batch.column("bytes").to_pylist()]
        yield pa.RecordBatch.from_pydict({"name": names})


def requests_per_length(requests: DataFrame) -> DataFrame:
    counted = requests.mapInArrow(named, "name string").groupBy("name").count()
    return counted.select(F.col("name").alias("key"), int64(F.col("count")).alias("value"))


VIEW = View(source="landed-requests", decoder=JsonDecoder(FIELDS), derive=requests_per_length)
