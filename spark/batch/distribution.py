"""Brings rows to the task of their partition, for large pushes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructType

from model.pushes.manifest import Pinned
from model.views import View
from spark.batch.encoder import Encoder

_PARTITION = "queryable_partition"


def distribute(rows: DataFrame, view: View, pinned: Pinned) -> DataFrame:
    """The same rows. Rows of one topic partition are all in one Spark partition.

    A push also works without this function. Each task then writes a file for each topic partition.
    With many tasks, these are many small files, which RocksDB has to merge.
    """
    encoder = Encoder(view, pinned.partitions, "", pinned.at_ms)
    schema = StructType([*rows.schema.fields]).add(_PARTITION, IntegerType(), nullable=False)

    def compute(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = pa.array(encoder.partitions(batch), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, numbers], names=[*batch.schema.names, _PARTITION]
            )

    numbered = rows.mapInArrow(compute, schema)
    return numbered.repartitionById(pinned.partitions, _PARTITION).drop(_PARTITION)
