"""What the order of records means for a view."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.moved_keys.dependence import Dependence, dependence
from spark.raw_topics.texts import TEXTS
from spark.tables import changes, latest, mapped
from spark.view import Source, View
from spark.views import VIEWS

TABLE = JsonDecoder(StructType([StructField("n", LongType())]), is_table=True)
STATELESS = ("departures",)
SEVERAL = ("aircraft",)


def test_views_of_the_demo(session: SparkSession) -> None:
    for name, view in VIEWS.items():
        expected = Dependence.NOTHING
        if name in STATELESS:
            expected = Dependence.WRITES
        if name in SEVERAL:
            expected = Dependence.UNKNOWN
        assert dependence(session, view) is expected, name


def copied(rows: DataFrame) -> DataFrame:
    return mapped(rows, F.to_json(F.struct("n")))


def counted(rows: DataFrame) -> DataFrame:
    return changes(rows, "n").groupBy("n").agg(F.sum("change").alias("value"))


def test_views_of_tables(session: SparkSession) -> None:
    view = View(name="table", source="raw", decoder=TABLE, derive=copied)
    assert dependence(session, view) is Dependence.WRITES
    for derive in (counted, lambda rows: copied(latest(rows))):
        assert dependence(session, replace(view, derive=derive)) is Dependence.TABLE


def test_a_join_with_a_static_table_has_no_state(session: SparkSession) -> None:
    view = View(
        name="known",
        sources=(Source("texts", TEXTS), Source("known", TEXTS, static=True)),
        derive=lambda texts, known: texts.join(known.select("text"), "text").select("key"),
    )
    assert dependence(session, view) is Dependence.WRITES


def test_an_operator_that_is_not_known(session: SparkSession) -> None:
    view = View(name="some", source="texts", decoder=TEXTS, derive=lambda rows: rows.sample(0.5))
    assert dependence(session, view) is Dependence.UNKNOWN
