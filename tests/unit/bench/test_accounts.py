"""The accounts that conditions and indexes are measured with."""

from __future__ import annotations

import json
import sqlite3
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from bench import accounts
from bench.accounts import Accounts
from bench.records import views_toml
from bench.rows import indexes
from model.views_file import parse_views

_TABLE = Accounts("accounts", 1000, declared=True, indexes=("owner", "city"))


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    """The accounts in another database."""
    database = sqlite3.connect(":memory:")
    database.execute("create table a (n integer, owner text, city text, balance integer)")
    rows = [json.loads(_TABLE.value(number)) for number in range(_TABLE.count)]
    values = [(row["id"], row["owner"], row["city"], row["balance"]) for row in rows]
    database.executemany("insert into a values (?, ?, ?, ?)", values)
    return database


def test_the_views_differ_in_fields_and_indexes() -> None:
    views = parse_views(views_toml([_TABLE, Accounts("bare", 1000)])).views
    declared, bare = sorted(views, key=lambda view: view.name)
    assert declared.topic == bare.topic == "bench-accounts"
    assert [index.name for index in declared.indexes] == ["owner", "city"]
    assert {field.name: field.text for field in declared.fields} == {
        "id": "int", "owner": "string", "city": "string", "balance": "int",
    }  # fmt: skip
    assert (bare.fields, bare.indexes) == ((), ())


def test_the_expected_count_is_that_of_another_database(database: sqlite3.Connection) -> None:
    cities = [accounts.city(number) for number in range(40)]
    counts = [accounts.expected_count(_TABLE, city) for city in cities]
    where = [accounts.SCANNED.format(city.decode()) for city in cities]
    assert counts == [
        database.execute(f"select count(*) from a where {text}").fetchone()[0] for text in where
    ]
    assert any(counts)


@pytest.mark.parametrize(
    ("texts", "numbers", "name"),
    [(accounts.BY_OWNER, _TABLE.owners, "owner"), (accounts.BY_CITY, accounts.CITIES, "city")],
)
def test_a_query_asks_for_the_rows_that_it_expects(
    database: sqlite3.Connection, texts: str, numbers: int, name: str
) -> None:
    query = indexes.query(texts, numbers, f"index {name}", _TABLE)
    asked = parse_qs(urlsplit(query.path % 0).query)
    assert asked == {"where": [texts % 0], "limit": ["100"]}
    rows = database.execute(f"select n from a where {texts % 0} order by n limit 100").fetchall()
    assert rows
    assert json.loads(query.first + b"}")["items"] == [
        {"key": f"customer-{n:07}", "value": json.loads(_TABLE.value(n))} for (n,) in rows
    ]
    assert "'" not in query.path
    assert " " not in query.path
    last = unquote(query.path % (numbers - 1))
    where = last.partition("where=")[2].partition("&")[0]
    assert database.execute(f"select count(*) from a where {where}").fetchone()[0] > 0
