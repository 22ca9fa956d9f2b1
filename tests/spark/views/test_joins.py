"""Joins of tables: a stream ends with the rows of a batch, whatever is read first."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark.errors import JobError
from spark.joins import Reference, Table, joined, merged
from spark.raw_topics.texts import TEXTS
from spark.supervision.plan_rules import check_joins
from spark.view import Source, View

FACT = "id string, price double, shop int, product string, at timestamp, partition int, offset long"
SHOP = "number int, city string, opened date, partition int, offset long"
PRODUCT = "sku string, name string, size binary, partition int, offset long"

Tables = dict[str, DataFrame]


def sales_of(tables: Tables) -> DataFrame:
    return joined(
        Table(tables["sales"], ["id"], newest=["at", "id"]),
        buckets=3,
        its_shop=Reference(Table(tables["shops"], ["number"]), on=["shop"]),
        its_product=Reference(Table(tables["products"], ["sku"]), on=["product"]),
    )


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 10, 0, second, 123456, tzinfo=UTC)


def made(seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """Rows in the order of their topics: later ones replace earlier ones of their key."""
    chance = random.Random(seed)
    shops = [(n % 4, f"city {n}", date(2000 + n, 1, 1), 0, n) for n in range(9)]
    products = [(f"p{n % 5}", f'na"me {n} é', bytes([n, 255]), 0, n) for n in range(12)]
    sales = [
        (
            f"s{chance.randrange(12)}",
            chance.choice([0.1, None, 1e300]),
            chance.choice([0, 1, 2, 3, 99, None]),
            chance.choice(["p0", "p1", "p4", "none"]),
            at(number),
            0,
            number,
        )
        for number in range(40)
    ]
    return {"sales": sales, "shops": shops, "products": products}


SCHEMAS = {"sales": FACT, "shops": SHOP, "products": PRODUCT}


def expected(rows: dict[str, list[tuple[Any, ...]]]) -> dict[str, tuple[Any, ...]]:
    """Sale ► price, city and product's name, in plain Python."""
    shops = {row[0]: row for row in rows["shops"]}
    products = {row[0]: row for row in rows["products"]}
    sales = {row[0]: row for row in rows["sales"]}
    return {
        key: (row[1], shops.get(row[2], (None,) * 2)[1], products.get(row[3], (None,) * 2)[1])
        for key, row in sales.items()
    }


def shown(row: Row) -> tuple[Any, ...]:
    return (row["price"], row["its_shop"] and row["its_shop"]["city"],
            row["its_product"] and row["its_product"]["name"])  # fmt: skip


@pytest.fixture
def stream(session: SparkSession, tmp_path: Path) -> Callable[..., list[Row]]:
    """`stream(derive, parts)`: the rows that a stream writes, in order. Each part is read in a
    micro-batch of its own: table ► rows. The query is started again for each one."""

    def run(
        derive: Callable[[Tables], DataFrame],
        schemas: dict[str, str],
        parts: list[dict[str, list[tuple[Any, ...]]]],
        mode: str = "update",
    ) -> list[Row]:
        found: list[Row] = []
        for number, part in enumerate(parts):
            for name, schema in schemas.items():
                folder = str(tmp_path / name)
                rows = session.createDataFrame(part.get(name, []), schema)
                rows.coalesce(1).write.mode("append").parquet(folder)
            tables = {
                name: session.readStream.schema(schema).parquet(str(tmp_path / name))
                for name, schema in schemas.items()
            }
            writer = derive(tables).writeStream.outputMode(mode).trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.foreachBatch(lambda batch, _: found.extend(batch.collect())).start()
            assert query.awaitTermination(120), number
        return found

    return run


def test_a_join_follows_the_changes_of_all_tables_in_any_order(
    session: SparkSession, stream: Callable[..., list[Row]]
) -> None:
    rows = made(7)
    wanted = expected(rows)
    assert any(city is None for _, city, _ in wanted.values())
    assert any(city is not None for _, city, _ in wanted.values())
    static = {
        name: session.createDataFrame(of_table, SCHEMAS[name]) for name, of_table in rows.items()
    }
    batch = {row["id"]: row for row in sales_of(static).collect()}
    assert {key: shown(row) for key, row in batch.items()} == wanted

    # each micro-batch has rows from anywhere in the topics, and some rows twice
    chance = random.Random(3)
    parts: list[dict[str, list[tuple[Any, ...]]]] = [{} for _ in range(4)]
    for name, of_table in rows.items():
        for row in [*of_table, *of_table[:5]]:
            chance.choice(parts).setdefault(name, []).append(row)
    written = stream(sales_of, SCHEMAS, parts)
    # the last row that is written for a sale is that of the batch, with all types
    assert {row["id"]: row for row in written} == batch
    assert len(written) > len(batch)


def test_only_rows_that_change_are_written(stream: Callable[..., list[Row]]) -> None:
    sale = ("a", 1.0, 1, "p", at(5), 0, 0)
    other = ("b", 1.0, 2, "p", at(5), 0, 1)
    parts = [
        {"sales": [sale, other]},
        {"shops": [(1, "Oslo", None, 0, 7)]},
        {"shops": [(1, "an older record", None, 0, 6), (9, "no sale there", None, 0, 8)]},
        {"sales": [("a", 2.0, 2, "p", at(4), 0, 2)]},  # older
    ]
    written = stream(sales_of, SCHEMAS, parts)
    assert [(row["id"], shown(row)[1]) for row in written[2:]] == [("a", "Oslo")]
    assert {row["id"] for row in written[:2]} == {"a", "b"}


def test_tables_with_one_key_are_merged(
    session: SparkSession, stream: Callable[..., list[Row]]
) -> None:
    schemas = {"names": "id int, name string, partition int, offset long",
               "ages": "person int, age int, partition int, offset long"}  # fmt: skip

    def people(tables: Tables) -> DataFrame:
        return merged(name=Table(tables["names"], ["id"]), age=Table(tables["ages"], ["person"]))

    rows: dict[str, list[tuple[Any, ...]]] = {
        "names": [(1, "Ann", 0, 0), (2, "Bob", 0, 1), (1, "Anna", 0, 2)],
        "ages": [(2, 30, 0, 0), (3, 40, 0, 1), (2, 31, 0, 2)],
    }
    static = {
        name: session.createDataFrame(of_table, schemas[name]) for name, of_table in rows.items()
    }
    wanted = {1: ("Anna", None), 2: ("Bob", 31), 3: (None, 40)}

    def table(found: list[Row]) -> dict[int, tuple[Any, Any]]:
        return {
            row["id"]: (row["name"] and row["name"]["name"], row["age"] and row["age"]["age"])
            for row in found
        }

    assert table(people(static).collect()) == wanted
    parts = [
        {"names": rows["names"][2:], "ages": rows["ages"][1:]},
        {"names": rows["names"][:2], "ages": rows["ages"][:1]},
    ]
    assert table(stream(people, schemas, parts)) == wanted


def test_two_streams_have_an_inner_join_in_any_order(stream: Callable[..., list[Row]]) -> None:
    schemas = {"orders": "id int, what string", "payments": "id int, amount int"}

    def paid(tables: Tables) -> DataFrame:
        return tables["orders"].join(tables["payments"], "id")

    parts = [{"orders": [(1, "a")], "payments": [(2, 20)]},
             {"orders": [(2, "b")], "payments": [(1, 10), (3, 30)]}]  # fmt: skip
    rows = stream(paid, schemas, parts, "append")
    assert sorted(map(tuple, rows)) == [(1, "a", 10), (2, "b", 20)]


def test_a_join_that_is_not_possible_is_an_error(session: SparkSession) -> None:
    rows = session.createDataFrame([], FACT)
    with pytest.raises(ValueError, match="newest: price is double; rows are compared by integers"):
        joined(Table(rows, ["id"], newest=["price"]))
    with pytest.raises(ValueError, match="shop is the name of a reference and of a column"):
        joined(Table(rows, ["id"]), shop=Reference(Table(rows, ["id"]), on=["id"]))


def test_a_foreign_key_of_another_type_would_never_be_found(session: SparkSession) -> None:
    sale = "id string, number int, day date, partition int, offset long"
    facts = session.createDataFrame([("a", 5, date(2026, 1, 1), 0, 0)], sale)
    its = "key binary, number long, text string, at timestamp, partition int, offset long"
    rows = session.createDataFrame([(b"a", 5, "a", at(0), 0, 0)], its)
    for on, key, message in (
        (["id"], ["key"], "its: id is string, but key is binary"),
        (["number"], ["text"], "its: number is int, but text is string"),
        (["day"], ["at"], "its: day is date, but at is timestamp"),
        (["id"], ["text", "number"], "its: on has 1 columns, but the key has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            joined(Table(facts, ["id"]), its=Reference(Table(rows, key), on=on))
    found = joined(
        Table(facts, ["id"]), its=Reference(Table(rows, ["number", "text"]), on=["number", "id"])
    )
    assert [row["its"]["text"] for row in found.collect()] == ["a"]


def test_a_join_that_depends_on_the_order_of_reading_is_refused(session: SparkSession) -> None:
    stream = session.readStream.format("rate").load()
    left = stream.withWatermark("timestamp", "1 minute").alias("l")
    right = stream.withWatermark("timestamp", "1 minute").alias("r")
    near = F.expr("l.value = r.value AND l.timestamp = r.timestamp")
    both = (Source("a", TEXTS), Source("b", TEXTS))
    view = View(name="pairs", sources=both, derive=lambda a, b: a, output_mode="append")
    for kind in ("left", "right", "full"):
        with pytest.raises(JobError, match=r"pairs: a .* JOIN of two streams depends"):
            check_joins(left.join(right, near, kind), view)
    check_joins(left.join(right, near), view)
    static = session.createDataFrame([(1,)], "value long")
    check_joins(stream.join(static, "value", "left"), view)


def test_nested_values_and_times_beyond_python_stay_what_they_are(session: SparkSession) -> None:
    schema = "id int, `a b` struct<x: array<int>>, partition int, offset long"
    micros = 253402300799999999 + 86400000000  # in the year 10000
    rows = session.createDataFrame([(1, ([1, 2],), 0, 0)], schema)
    rows = rows.withColumn("at", F.timestamp_micros(F.lit(micros)))
    result = joined(Table(rows, ["id"]))
    assert result.columns == rows.columns
    [row] = result.select("`a b`", F.unix_micros("at").alias("micros")).collect()
    assert (row["a b"]["x"], row["micros"]) == ([1, 2], micros)


def test_no_time_loses_its_microseconds(stream: Callable[..., list[Row]]) -> None:
    """As a key, in a nested value, and without a time zone."""
    fact = "id string, at timestamp, partition int, offset long"
    event = "at timestamp, local timestamp_ntz, more struct<at:timestamp, of:array<timestamp_ntz>>"
    events = f"{event}, partition int, offset long"
    times = [datetime(2026, 1, 1, 10, 0, 0, 123456 + n, tzinfo=UTC) for n in range(2)]
    locals_ = [time.replace(tzinfo=None) for time in times]

    def derive(tables: Tables) -> DataFrame:
        found = joined(
            Table(tables["facts"], ["id"]),
            event=Reference(Table(tables["events"], ["at"]), on=["at"]),
        )
        shown = [
            F.expr(f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')")
            for name in ("event.at", "event.local", "event.more.at", "event.more.of[0]")
        ]
        return found.select("id", F.array(*shown).alias("times"))

    rows = stream(
        derive,
        {"facts": fact, "events": events},
        [
            {
                "facts": [(f"f{n}", times[n], 0, n) for n in range(2)],
                "events": [
                    (times[n], locals_[n], (times[n], [locals_[n]]), 0, n) for n in range(2)
                ],
            }
        ],
    )
    assert {row["id"]: row["times"] for row in rows} == {
        f"f{n}": [f"2026-01-01 10:00:00.12345{6 + n}"] * 4 for n in range(2)
    }
