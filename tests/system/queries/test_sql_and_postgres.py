"""Answers of statements are those that PostgreSQL gives to the same statements, if it is
installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from bench.references.postgres import MissingPostgres, Postgres, postgres
from tests.support.in_process.world import World
from tests.unit.backend.sql.test_answers import CASES, COLUMNS, ROWS, orders, rows_of

__all__ = ["orders"]

TABLE = "create table orders (key text, origin text, dest text, delay bigint, price float8);"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    try:
        with postgres(tmp_path_factory.mktemp("postgres") / "log") as server:
            server.run(TABLE + "".join(map(insert, ROWS)))
            yield server
    except MissingPostgres as error:
        pytest.skip(str(error))


def insert(key: str) -> str:
    values = [key, *map(ROWS[key].get, COLUMNS)]
    return f"insert into orders values ({', '.join(map(literal, values))});"


def literal(value: Any) -> str:
    if value is None:
        return "null"
    return "'{}'".format(str(value).replace("'", "''"))


def comparable(cell: Any) -> Any:
    """psql writes null as an empty text, and decimals with all their digits."""
    if cell is None:
        return ""
    with suppress(ArithmeticError):
        return round(Decimal(str(cell)), 9)
    return cell


def rows_in(database: Postgres, query: str) -> list[tuple[Any, ...]]:
    return [
        tuple(map(comparable, line.split("|"))) for line in database.run(f"{query};").splitlines()
    ]


@pytest.mark.parametrize("query", CASES)
def test_an_answer_is_that_of_postgres(orders: World, database: Postgres, query: str) -> None:
    expected = rows_in(database, query)
    found = [tuple(map(comparable, row.values())) for row in rows_of(orders, query)]
    if "limit" in query and "order by" not in query:
        assert len(found) == len(expected)  # any of the rows
    elif "nulls" in query or "order by key" in query or "order by k" in query:
        assert found == expected
    else:  # in PostgreSQL, null is greater than all other values
        assert Counter(found) == Counter(expected)


def test_the_order_of_nulls_is_that_of_postgres_if_it_is_written(
    orders: World, database: Postgres
) -> None:
    for order in ("asc", "desc"):
        for nulls in ("first", "last"):
            query = (
                f"select dest, count(*), max(price) as most from orders group by dest "
                f"order by most {order} nulls {nulls}, dest {order} nulls {nulls}"
            )
            found = [tuple(map(comparable, row.values())) for row in rows_of(orders, query)]
            assert found == rows_in(database, query)
