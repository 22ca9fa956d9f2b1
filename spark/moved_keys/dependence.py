"""How a view depends on the order of the records of a key."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.formats.decoders import is_table
from spark.formats.records import RAW_RECORD
from spark.view import View, derived_rows

_STATELESS = {
    "CollectMetrics",
    "EventTimeWatermark",
    "Expand",
    "Filter",
    "Generate",
    "MapInArrow",
    "MapInPandas",
    "Project",
    "RebalancePartitions",
    "Repartition",
    "RepartitionByExpression",
    "ResolvedHint",
    "StreamingRelation",
    "StreamingRelationV2",
    "SubqueryAlias",
    "Union",
    "View",
}


_WITH_STATE = {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "GlobalLimit",
    "LocalLimit",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
}


class Dependence(Enum):
    """What the order of records means for a view.

    ``NOTHING``: its state gives the same results in any order. ``WRITES``: it has no state, and
    writes the results of each record, so the last one that is written counts. ``TABLE``: its state
    compares the records of a table by partition and offset. ``UNKNOWN``: it may compare them in
    this way, because it has several streams, or an operator that is in none of the lists above.
    """

    NOTHING = "nothing"
    WRITES = "writes"
    TABLE = "table"
    UNKNOWN = "unknown"


def dependence(session: SparkSession, view: View) -> Dependence:
    """The dependence of a view. Raises errors of Spark, and ``JobError``, if the view has no
    plan."""
    rows = derived_rows(
        view, [placeholder(session, streaming=not source.static) for source in view.inputs]
    )
    operators = set(_operators(rows._jdf.queryExecution().analyzed()))
    is_single = len(view.streams) == 1
    if is_single and operators <= _STATELESS:
        return Dependence.WRITES
    if any(is_table(source.decoder) for source in view.streams):
        return Dependence.TABLE
    is_known = is_single and operators & _WITH_STATE
    return Dependence.NOTHING if is_known else Dependence.UNKNOWN


def placeholder(session: SparkSession, *, streaming: bool = True) -> DataFrame:
    """A DataFrame with the columns of RAW_RECORD, as the input of a view that is only planned. It
    has no topic, brokers or offsets. It is never run."""
    rows = session.readStream.format("rate").load() if streaming else session.sql("SELECT 1")
    columns = (F.lit(None).cast(field.dataType).alias(field.name) for field in RAW_RECORD)
    return rows.select(*columns)


def _operators(plan: Any) -> Iterator[str]:
    """The operators of streams, without joins with a static table."""
    if not plan.isStreaming():
        return
    children = [plan.children().apply(number) for number in range(plan.children().size())]
    if plan.nodeName() != "Join" or all(child.isStreaming() for child in children):
        yield plan.nodeName()
    for child in children:
        yield from _operators(child)
