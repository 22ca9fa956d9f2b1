"""Whether Spark's real-time mode can run a plan, and what to do if not. Pure, except ``nodes``.

Spark checks the physical plan of the first batch against a list of operators. The message names a
class, and the query would be started again and again. Here the analysed plan is checked before the
query starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

_ALLOWED = {
    "CollectMetrics",
    "EventTimeWatermark",
    "Expand",
    "Filter",
    "Generate",
    "LocalRelation",
    "Project",
    "ResolvedHint",
    "StreamingRelation",
    "StreamingRelationV2",
    "SubqueryAlias",
    "Union",
}
_STATE = "needs state, which real-time mode does not have"
_PYTHON = "is a Python function of rows. Use functions of pyspark.sql.functions instead"
_WHY = {
    "Aggregate": f"groupBy or an aggregate {_STATE}",
    "Distinct": f"distinct {_STATE}",
    "Deduplicate": f"dropDuplicates {_STATE}",
    "DeduplicateWithinWatermark": f"dropDuplicates {_STATE}",
    "Join": f"a join {_STATE}",
    "AsOfJoin": f"a join {_STATE}",
    "FlatMapGroupsInPandasWithState": f"a function of groups {_STATE}",
    "TransformWithStateInPySpark": f"transformWithState {_STATE}",
    "Sort": "a sort needs all rows",
    "GlobalLimit": "a limit needs all rows",
    "MapInArrow": f"mapInArrow {_PYTHON}",
    "MapInPandas": f"mapInPandas {_PYTHON}",
    "Repartition": "repartition moves rows between tasks",
    "RepartitionByExpression": "repartition moves rows between tasks",
    "RebalancePartitions": "repartition moves rows between tasks",
}


class Node(NamedTuple):
    """An operator of the analysed plan: its name, and whether its expressions have a Python
    function."""

    name: str
    has_python: bool = False


def refusal(plan: Iterable[Node]) -> str | None:
    """Why the plan cannot run in real-time mode; None if it can."""
    for node in plan:
        if node.name not in _ALLOWED:
            return _WHY.get(node.name, f"the operator {node.name} is not supported")
        if node.has_python:
            return f"a user-defined function {_PYTHON}"
    return None


def nodes(rows: DataFrame) -> Iterator[Node]:
    """The operators of the analysed plan, from the result to the sources."""
    jvm: Any = rows.sparkSession._jvm
    python = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    yield from _nodes(rows._jdf.queryExecution().analyzed(), python)


def _nodes(plan: Any, python: Any) -> Iterator[Node]:
    expressions = plan.expressions()
    has_python = any(
        expressions.apply(number).containsPattern(python) for number in range(expressions.size())
    )
    yield Node(plan.nodeName(), has_python)
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number), python)
