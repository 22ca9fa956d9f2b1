"""Which views real-time mode can run, and the reasons for the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark.errors import JobError
from spark.formats.decoders import JsonDecoder, TextDecoder
from spark.moved_keys.dependence import placeholder
from spark.raw_topics.flights import FLIGHT
from spark.realtime.plan_rules import Node, refusal
from spark.realtime.views import check_plan, real_time_view
from spark.view import Source, View
from spark.views import VIEWS


def same(rows: DataFrame) -> DataFrame:
    return rows.select("key", F.col("text").alias("value"))


TEXTS = View(name="texts", source="raw", decoder=TextDecoder(), derive=same)


def check(session: SparkSession, view: View) -> None:
    prepared = real_time_view(view)
    rows = prepared.result(*(placeholder(session) for _ in prepared.inputs))
    check_plan(rows, prepared)


def test_views_without_state(session: SparkSession) -> None:
    check(session, VIEWS["departures"])
    check(session, replace(TEXTS, derive=lambda rows: same(rows.where("text <> ''"))))
    words = F.explode(F.split("text", " ")).alias("value")
    check(session, replace(TEXTS, derive=lambda rows: rows.select("key", words)))
    two = (Source("one", TextDecoder()), Source("two", TextDecoder()))
    both = View(sources=two, derive=lambda one, two: same(one).union(same(two)))
    check(session, both)


def in_arrow(rows: DataFrame) -> DataFrame:
    def same_batches(batches: object) -> object:
        yield from batches  # type: ignore[misc]

    return same(rows).mapInArrow(same_batches, "key binary, value string")  # type: ignore[arg-type]


upper = F.udf(lambda text: text.upper(), StringType())


@pytest.mark.parametrize(
    ("derive", "why"),
    [
        (lambda rows: rows.groupBy("key").agg(F.max("text").alias("value")), "groupBy"),
        (lambda rows: same(rows.dropDuplicates(["key"])), "dropDuplicates"),
        (lambda rows: same(rows.distinct()), "distinct|dropDuplicates|groupBy"),
        (lambda rows: same(rows.repartition(2)), "repartition"),
        (lambda rows: same(rows).join(rows.select("key"), "key"), "a join"),
        (in_arrow, "mapInArrow is a Python function"),
        (lambda rows: rows.select("key", upper("text").alias("value")), "a user-defined function"),
    ],
)
def test_views_that_need_state_or_python(
    session: SparkSession, derive: Callable[..., DataFrame], why: str
) -> None:
    with pytest.raises(JobError, match=f"texts cannot run in real-time mode: ({why})"):
        check(session, replace(TEXTS, derive=derive))


def never(fields: object) -> str | None:
    return None


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (replace(TEXTS, output_mode="append"), "output_mode 'append'"),
        (replace(TEXTS, decoder=JsonDecoder(FLIGHT, never)), "validate is a Python function"),
        (replace(TEXTS, decoder=JsonDecoder(FLIGHT, is_table=True)), "is_table"),
        (
            View(
                name="texts",
                sources=(Source("raw", TextDecoder()), Source("old", TextDecoder(), static=True)),
                derive=same,
            ),
            "old is static",
        ),
    ],
)
def test_decoders_and_sources_that_are_refused(view: View, why: str) -> None:
    with pytest.raises(JobError, match=re.escape(why)):
        real_time_view(view)


def test_an_unknown_operator_is_refused_by_its_name() -> None:
    assert refusal([Node("Project"), Node("New")]) == "the operator New is not supported"
    assert refusal([Node("Project"), Node("StreamingRelationV2")]) is None
