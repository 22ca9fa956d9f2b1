"""Expressions in Spark, by the table of cases that the evaluator in Python runs as well, and by
random expressions over random rows: both evaluators have the same values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from model.expressions.evaluator import compile_expression
from model.expressions.parser import parse
from model.expressions.tree import Expression
from model.expressions.types import Kind
from spark.derive.columns import column
from spark.derive.json_values import DeclaredJson
from spark.formats.batches import FIELDS, REASON
from tests.support.examples import examples
from tests.vectors.expression_cases import CASES, DECLARED, NAMES, PARTITION, ROW
from tests.vectors.random_expressions import expressions, parsed_or_none, rows

_JSON = DeclaredJson(tuple(DECLARED.items()))


def evaluated(
    session: SparkSession, parsed: Sequence[Expression], given: Sequence[Mapping[str, object]]
) -> list[list[Any]]:
    """The values of all expressions in each row, read as the job reads values. One job computes
    them."""
    schema = StructType(
        [StructField("value", BinaryType()), StructField("record_partition", IntegerType())]
    )
    values = [(json.dumps(row).encode(), PARTITION) for row in given]
    records = session.createDataFrame(values, schema).repartition(1)
    decoded = _JSON.judged(records, ["record_partition"])
    names = {name: F.col(f"{FIELDS}.{name}") for name in DECLARED}
    columns = []
    for number, each in enumerate(parsed):
        of = column(each, names)
        of = F.unix_micros(of) if each.type.kind is Kind.TIME else of
        columns.append(of.alias(f"_{number}"))
    found = decoded.select(REASON, *columns).collect()
    assert [row[REASON] for row in found] == [None] * len(given)
    return [list(row)[1:] for row in found]


def test_the_table_of_cases(session: SparkSession) -> None:
    given = list({json.dumps(case.given): case.given for case in CASES}.values())
    texts = list(dict.fromkeys(case.text for case in CASES))
    parsed = [parse(text, NAMES) for text in texts]
    found = evaluated(session, parsed, [{**ROW, **each} for each in given])
    values = {
        (text, json.dumps(each)): value
        for each, row in zip(given, found, strict=True)
        for text, value in zip(texts, row, strict=True)
    }
    different = [
        (case, value)
        for case in CASES
        if (value := values[case.text, json.dumps(case.given)]) != case.value
        or type(value) is not type(case.value)
    ]
    assert different == []


def test_python_and_spark_have_the_same_values(session: SparkSession) -> None:
    parsed: list[tuple[str, Expression]] = []
    drawn: list[dict[str, object]] = []

    @settings(
        max_examples=examples(300),
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(expressions(), rows())
    def draw(text: str, row: dict[str, object]) -> None:
        expression = parsed_or_none(text)
        if expression is not None:
            parsed.append((text, expression))
            drawn.append(row)

    draw()
    # each expression in each row, by one job
    found = evaluated(session, [each for _, each in parsed], drawn)
    different = []
    for number, (text, expression) in enumerate(parsed):
        evaluate = compile_expression(expression)
        for row, values in zip(drawn, found, strict=True):
            value = evaluate({**row, "record_partition": PARTITION})
            if value != values[number] or type(value) is not type(values[number]):
                different.append((text, row, value, values[number]))
    assert different[:3] == []
