"""How many requests each client has sent."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.formats.keys import int64
from spark.view import View

FIELDS = StructType([StructField("client", StringType()), StructField("bytes", LongType())])


def requests_per_client(requests: DataFrame) -> DataFrame:
    counted = requests.groupBy("client").count()
    return counted.select(F.col("client").alias("key"), int64(F.col("count")).alias("value"))


VIEW = View(source="landed-requests", decoder=JsonDecoder(FIELDS), derive=requests_per_client)
