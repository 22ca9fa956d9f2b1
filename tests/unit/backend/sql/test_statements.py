"""The grammar of statements: what is read, and what is refused with what to write instead."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.queries.sql.literals import literal
from backend.queries.sql.statement import Column, Order, StatementError, parse_statement
from tests.support.examples import examples


def test_all_clauses() -> None:
    statement = parse_statement(
        "SELECT f.dest, COUNT(*) flights, avg(delay) AS mean FROM flights AS f "
        "WHERE f.delay > ? AND dest IN ? GROUP BY dest, f.origin ORDER BY mean DESC NULLS LAST, 1 "
        "LIMIT ?;",
        [60, ["ATL", "O'Hare"], 10],
    )
    assert statement.view == "flights"
    assert statement.columns == (
        Column("dest", "dest"),
        Column("flights", None, "count"),
        Column("mean", "delay", "avg"),
    )
    assert statement.where == "delay > 60 AND dest IN ('ATL', 'O''Hare')"
    assert statement.group_by == ("dest", "origin")
    assert statement.order_by == (Order("mean", True, False), Order("dest", False, None))
    assert statement.limit == 10


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("select * from v where limit > 3 limit 4", "limit > 3"),
        ("select * from v where value.order = 5 order by key", "value.order = 5"),
        ("select * from v where group = 'by' and 1 = 1", "group = 'by' and 1 = 1"),
        ("select * from v where a = 'x order by y limit 3'", "a = 'x order by y limit 3'"),
        ("select * from v where (a = 1 or b like '%;%') ;", "(a = 1 or b like '%;%')"),
    ],
)
def test_where_a_condition_ends(text: str, where: str) -> None:
    assert (parse_statement(text).where or "").strip() == where


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("select * from latest-departure", "latest-departure"),
        ('select * from "latest-departure" where key = 1', "latest-departure"),
        ("select * from orders@2 limit 1", "orders@2"),
        ("select * from by-dest-2 d where d.n = 1", "by-dest-2"),
        ("select flights.dest from flights", "flights"),
    ],
)
def test_names_of_views(text: str, view: str) -> None:
    assert parse_statement(text).view == view


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a statement begins with select"),
        ("selct a from v", "a statement begins with select, not selct at character 1"),
        ("insert into v values (1)", "views are read-only"),
        ("select a", "expected from and the name of a view"),
        ("select from v", "expected a field"),
        ("select limit from v", "a field of this name is value.limit"),
        ("select a, from v", "expected a field"),
        ("select * from", "expected the name of a view"),
        ("select distinct a from v", "write group by"),
        ("select count(distinct a) from v", "write group by"),
        ("select upper(a) from v", "unknown function upper at character 8"),
        ("select sum(a + 1) from v", "expected )"),
        ("select a + 1 from v", "expected a comma, or from"),
        ("select sum(*) from v", "expected a field"),
        ("select a from v join w on a = b", "derive one of both"),
        ("select a from v, w", "derive one of both"),
        ("select a from (select b from v)", "no subqueries"),
        ("with x as (select a from v) select a from x", "no subqueries"),
        ("select a from v union select a from w", "send two statements"),
        ("select a, count(*) from v", "a is not in group by"),
        ("select * from v group by a", "instead of *"),
        ("select a from v group by upper(a)", "expected a field"),
        ("select a, count(*) from v group by a having count(*) > 1", "having"),
        ("select a, count(*) from v group by a order by b", "columns of the result"),
        ("select a from v order by count(*)", "select it to order by it"),
        ("select count(*) from v group by 1", "the number of a column that is a field"),
        ("select a, count(*) from v group by 3", "a column from 1 to 2"),
        ("select a from v order by 2", "a column from 1 to 1"),
        ("select a, b as a from v", "two columns are named a"),
        ("select a from v limit -1", "a whole number"),
        ("select a from v limit 1.5", "a whole number"),
        ("select a from v limit 10 offset 5", "the cursor in next"),
        ("select a from v where", "expected a condition"),
        ("select a from v where a = 'x", "without a closing quote"),
        ("select a from v where b = ?", "more than 0 times ?"),
        ("select a from v; drop table v", "views are read-only"),
        ("select a from v -- all", "unexpected -- at character 17: there are no comments"),
        ("select a from v where b > 5 --3\n", "there are no comments"),
        ('select "a""b" from v', "character 11: a name in quotes has no quotes in it"),
        ('select a from v where "a"b = 1', "a name in quotes has no quotes in it"),
        ("select 'a' from v", "expected a field"),
        ("select " + "a, " * 100 + "b from v", "at most 100 columns"),
        ("select a from v where " + "x" * 8000, "at most 8000 characters"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(StatementError) as refused:
        parse_statement(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([], "more than 0 times ?"),
        ([1, 2], "1 times ?, and there are 2"),
        ([None], "write is null"),
        ([{"a": 1}], "not a text, a number"),
        ([[]], "1 to 100 values"),
    ],
)
def test_parameters_that_are_refused(parameters: list[object], message: str) -> None:
    with pytest.raises(StatementError) as refused:
        parse_statement("select a from v where a = ?", parameters)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ("a = 'x'?", "a = 'x' 'y'"),
        ("a = ?'x'", "a = 'y' 'x'"),
        ("a = 1?", "a = 1 'y'"),
        ("a?", "a 'y'"),
        ("a=?and b=1", "a='y' and b=1"),
    ],
)
def test_a_parameter_is_no_part_of_what_is_next_to_it(condition: str, where: str) -> None:
    statement = parse_statement(f"select a from v where {condition}", ["y"])
    assert (statement.where or "").split() == where.split()


def test_two_parameters_are_not_one_text() -> None:
    statement = parse_statement("select a from v where a = ??", ["x", "y"])
    assert (statement.where or "").split() == ["a", "=", "'x'", "'y'"]


def test_a_limit_is_what_a_cursor_can_have() -> None:
    assert parse_statement("select a from v limit ?", [10**15 - 1]).limit == 10**15 - 1
    with pytest.raises(StatementError, match="less than"):
        parse_statement("select a from v limit ?", [10**15])


def test_groups_may_be_named_by_a_column_in_quotes() -> None:
    statement = parse_statement('select a as "odd name", count(*) from v group by "odd name"')
    assert statement.group_by == ("a",)


scalars = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.integers(-(10**12), 10**12).map(lambda n: n / 1000)
)


@settings(max_examples=examples(300))
@given(scalars)
def test_a_parameter_is_one_value_of_sqlite(value: object) -> None:
    """Whatever a text has in it, another database reads exactly this value back."""
    [[found]] = sqlite3.connect(":memory:").execute(f"select {literal(value)}")
    assert found == value
