"""Rules of fields: Python and Spark give the same reason."""

from __future__ import annotations

import itertools

from pyspark.sql import SparkSession

from spark.formats.checks import Checks, Needs, NotEmpty, Within

CHECKS = Checks(NotEmpty("a b"), Within("n", 0, 59), Needs("n", "m"))
ROWS = [*itertools.product((None, "", "x"), (None, -1, 0, 59, 60), (None, 0))]


def test_the_first_rule_that_is_violated_is_the_reason() -> None:
    def reason(text: str | None, number: int | None, other: int | None) -> str | None:
        return CHECKS({"a b": text, "n": number, "m": other})

    assert reason("", -1, None) == "a b: missing"
    assert reason("x", 60, None) == "n: not within 0 to 59"
    assert reason(None, 59, None) == "m: missing"
    assert reason("x", 0, 0) is None
    assert reason(None, None, None) is None


def test_spark_gives_the_same_reasons(session: SparkSession) -> None:
    rows = session.createDataFrame(ROWS, "`a b` string, n int, m int").coalesce(1)
    found = rows.withColumn("reason", CHECKS.column()).collect()
    assert len(found) == len(ROWS)
    for row in found:
        assert row["reason"] == CHECKS(row.asDict())


def test_equal_rules_are_equal() -> None:
    assert Checks(NotEmpty("a b"), Within("n", 0, 59), Needs("n", "m")) == CHECKS
    assert Checks(NotEmpty("a b"), Within("n", 0, 60), Needs("n", "m")) != CHECKS
