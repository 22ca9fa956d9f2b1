"""The plan of a view as text, and the literals and Python functions in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.formats.records import RAW_RECORD

_NO_LIMIT = 2**31 - 1
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"@[0-9a-f]+\b")
_EXPRESSION_ID = re.compile(r"#(\d+)")
_LITERAL = "org.apache.spark.sql.catalyst.expressions.Literal"


def placeholder(session: SparkSession, *, streaming: bool = True) -> DataFrame:
    """A DataFrame with the columns of RAW_RECORD, as the input of a view whose plan is compared.
    It has no topic, brokers or offsets. It is never run."""
    rows = session.readStream.format("rate").load() if streaming else session.sql("SELECT 1")
    columns = (F.lit(None).cast(field.dataType).alias(field.name) for field in RAW_RECORD)
    return rows.select(*columns)


def plan_text(rows: DataFrame) -> str:
    """The analysed plan, without the ids and addresses that differ between two sessions."""
    analysed = rows._jdf.queryExecution().analyzed()
    # Spark's own limits for messages would cut off long lists of columns.
    text: str = analysed.treeString(True, False, _NO_LIMIT, False, False)
    return normalised(text)


def normalised(text: str) -> str:
    """Numbers expressions by their first appearance, and removes other ids."""
    numbers: dict[str, int] = {}
    text = _ADDRESS.sub("@", _UUID.sub("uuid", text))
    return _EXPRESSION_ID.sub(
        lambda match: f"#{numbers.setdefault(match[1], len(numbers))}", text
    ).strip()


def literals(rows: DataFrame) -> tuple[str, ...]:
    """The texts in the analysed plan that ``normalised`` changes, in the order of the plan."""
    analysed = rows._jdf.queryExecution().analyzed()
    return tuple(filter(_has_id, _texts(json.loads(analysed.toJSON()))))


def _texts(node: Any) -> Iterator[str]:
    """The string literals in Spark's JSON description of a plan."""
    if isinstance(node, list):
        for part in node:
            yield from _texts(part)
    elif isinstance(node, dict):
        if node.get("class") == _LITERAL and node["dataType"] == "string" and node["value"]:
            yield node["value"]
        for part in node.values():
            yield from _texts(part)


def _has_id(text: str) -> bool:
    return any(pattern.search(text) for pattern in (_UUID, _ADDRESS, _EXPRESSION_ID))


def python_functions(session: SparkSession, rows: DataFrame) -> list[object]:
    """The functions that Spark's Python workers run, and the classes of table functions, in the
    order of the plan."""
    jvm: Any = session._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    # a table function is a generator
    either = (patterns.PYTHON_UDF(), patterns.GENERATOR())
    byte = jvm.scala.reflect.ClassTag.Byte()
    pickled = CloudPickleSerializer()
    analysed = rows._jdf.queryExecution().analyzed()
    commands = (
        pickled.loads(bytes(each.func().command().toArray(byte)))  # type: ignore[no-untyped-call]
        for each in _python_expressions(analysed, either)
    )
    # the command of a function also has the type of its result
    return [command[0] if isinstance(command, tuple) else command for command in commands]


def _python_expressions(node: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    if not any(map(node.containsPattern, patterns)):
        return
    if node.getClass().getSimpleName() in ("PythonUDF", "PythonUDTF"):
        yield node
    parts = [node.children(), node.innerChildren()]
    if node.getClass().getName().startswith("org.apache.spark.sql.catalyst.plans."):
        parts.append(node.expressions())
    for part in parts:
        for index in range(part.size()):
            yield from _python_expressions(part.apply(index), patterns)
