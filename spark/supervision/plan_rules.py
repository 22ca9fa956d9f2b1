"""Refuses queries whose results would depend on the order of reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from spark.errors import JobError
from spark.view import View


def check_joins(rows: DataFrame, view: View) -> None:
    """Raises ``JobError`` if two streams have an outer join.

    Spark writes a row without a match when its watermark has passed, and never corrects it. Inner
    joins of two streams write each pair once, in any order of reading.
    """
    if not rows.isStreaming:
        return
    for node in _nodes(rows._jdf.queryExecution().analyzed()):
        if (
            node.nodeName() == "Join"
            and node.left().isStreaming()
            and node.right().isStreaming()
            and node.joinType().sql() != "INNER"
        ):
            raise JobError(
                f"{view.name}: a {node.joinType().sql()} JOIN of two streams depends on the order "
                "of reading: Spark never corrects a row that it has written without a match. Use "
                "an inner join, or spark.joins, which writes a row again when its match changes."
            )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))
