"""What a user of SQL types: each is accepted with SQL's meaning, or refused with what to write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from model.derive.reading import TableError
from model.derive.table import parse_derivation
from model.expressions.evaluator import compile_expression
from model.expressions.parser import parse
from model.expressions.tree import Field
from model.expressions.types import TIMESTAMP, parse_field_type
from model.times import parse_instant

_TYPES = {
    "n": "int 0..100", "qty": "int", "price": "decimal(2)", "ratio": "double", "big": "long",
    "s": "string?", "flag": "boolean?", "t": "time", "tags": "strings", "attributes": "map",
}  # fmt: skip
NAMES = {name: Field(name, parse_field_type(text)) for name, text in _TYPES.items()} | {
    "record_timestamp": Field("record_timestamp", TIMESTAMP)
}
ROW = {
    "n": 7, "qty": 3, "price": 2.5, "ratio": 0.5, "big": 2**62, "s": "Ab", "flag": None,
    "t": "2026-01-31T10:20:30Z", "tags": ["x", "y"], "attributes": {"colour": "red"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n != 7", False),
        ("n <> 7", False),
        ("qty * price", Decimal("7.5")),
        ("n / 2", 3),
        ("n / 2.0", Decimal("3.5")),
        ("n / 0", None),
        ("n % 4", 3),
        ("-n / 2", -3),
        ("ratio * 100", 50.0),
        ("ratio / 0", None),
        ("price > 2", True),
        ("NULLIF(n, 7)", None),
        ("COALESCE(s, 'none')", "Ab"),
        ("coalesce(price, 0)", Decimal("2.5")),
        ("round(price * 1.19, 2)", Decimal("2.98")),
        ("ABS(-n)", 7),
        ("UPPER(s) || '!'", "AB!"),
        ("s NOT LIKE 'a%'", True),
        ("s IS NOT NULL AND NOT (n BETWEEN 1 AND 6)", True),
        ("n IN (1, 7)", True),
        ("flag is true", False),
        ("flag is not true", True),
        ("flag is false", False),
        ("flag is not false", True),
        ("flag is unknown", True),
        ("CASE WHEN n > 5 THEN 'many' ELSE 'few' END", "many"),
        ("CASE n WHEN 7 THEN 1 ELSE 0 END", 1),
        ("EXTRACT(HOUR FROM t)", 10),
        ("year(t) = 2026 and dayofweek(t) = 7", True),
        ("date_trunc('month', t)", parse_instant("2026-01-01T00:00:00Z")),
        ("t >= timestamp '2026-01-01T00:00:00Z'", True),
        ("replace(s, 'A', 'b')", "bb"),
        ("tags[1]", "x"),
        ("contains(tags, 'y')", True),
        ("attributes['colour']", "red"),
        ("greatest(n, qty)", 7),
        ("hour(t, 'Europe/Berlin')", 11),
    ],
)
def test_what_is_accepted(text: str, value: object) -> None:
    found = compile_expression(parse(text, NAMES))(ROW)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("s == 'a'", "Write =,"),
        ('s = "a"', "single quotes"),
        ("s = `a`", "names have no quotes"),
        ('"to-city"', 'path = "to-city"'),
        ("s = null", "write a is null"),
        ("n > 1 && n < 3", "write and"),
        ("n = 1 or 2", "write a = 1 or a = 2"),
        ("!flag", "write not"),
        ("s | s", "|| joins texts"),
        ("'a' + 'b'", "write a || b"),
        ("s + 1", "try_cast(a as long)"),
        ("s = 1", "a number without quotes"),
        ("n = '7'", "a number without quotes"),
        ("flag = 'true'", "true and false without quotes"),
        ("flag = 1", "write true or false"),
        ("coalesce(s, 0)", "try_cast(a as long) for a text"),
        ("t > '2026-01-01T00:00:00'", "timestamp '2026-01-01T10:00:00Z'"),
        ("t > '2026-01-01'", "timestamp '2026-01-01T10:00:00Z'"),
        ("t > date '2026-01-01'", "timestamp '2026-01-01T00:00:00Z'"),
        ("t > 1767225600000", "timestamp_millis(a)"),
        ("hour(n)", "timestamp_millis(a)"),
        ("t + 60", "timestamp_seconds(unix_seconds(a) + 60)"),
        ("t - t", "unix_seconds(a) - unix_seconds(b)"),
        ("t + interval '1' hour", "unix_seconds(a) + 3600"),
        ("interval '1 hour'", "unix_seconds(a) + 3600"),
        ("date_add(t, 1)", "timestamp_seconds(unix_seconds(a) + 3600)"),
        ("datediff(t, t)", "(unix_seconds(a) - unix_seconds(b)) / 86400"),
        ("date_trunc(t, 'hour')", "date_trunc('hour', time)"),
        ("date_trunc('fortnight', t)", "second, minute, hour, day, week"),
        ("to_char(t, 'YYYY-MM-DD')", "write date(a)"),
        ("extract(dow from t)", "dayofweek(a)"),
        ("extract(epoch from t)", "unix_seconds(a)"),
        ("t at time zone 'Europe/Berlin'", "hour(a, 'Europe/Berlin')"),
        ("hour(t, 'CET-1')", "Europe/Berlin"),
        ("now()", "record_timestamp"),
        ("CURRENT_TIMESTAMP", "record_timestamp"),
        ("t > now() - interval '1 day'", "record_timestamp"),
        ("timestamp", "record_timestamp"),
        ("ROWTIME", "record_timestamp"),
        ("offset", "record_offset"),
        ("key", "record_key"),
        ("CAST(s AS INT)", "try_cast(a as int)"),
        ("s::int", "try_cast(a as int)"),
        ("int(s)", "try_cast(a as int)"),
        ("to_number(s)", "try_cast(a as long)"),
        ("try_cast(s as uuid)", "int, long, double, boolean, string and decimal(2)"),
        ("CAST(s AS DECIMAL(10, 2))", "try_cast(a as int)"),
        ("try_cast(s as decimal(10, 2))", "digits after its point: decimal(2)"),
        ("try_cast(s as decimal)", "decimal(2)"),
        ("try_cast(s as numeric(2))", "decimal(2)"),
        ("try_cast(ratio as decimal(2))", 'declare the field as "decimal(2)"'),
        ("try_cast(t as string)", "date(a)"),
        ("IFNULL(s, '')", "coalesce(a, b)"),
        ("NVL(s, '')", "coalesce(a, b)"),
        ("iif(n > 1, 1, 2)", "if(condition, a, b)"),
        ("if(n > 1, 'a')", "if needs 3 arguments"),
        ("case when n > 1 then 2 end", "else 'other'"),
        ("case when n > 1 then 2 else 3", "case when a > 1 then 'x' else 'y' end"),
        ("case when n > 1 then 2", "case when a > 1 then 'x' else 'y' end"),
        ("case n > 1 then 2 end", "expected when"),
        ("len(s)", "length(a)"),
        ("length(n)", "try_cast(a as string)"),
        ("substr(s, 1, 2)", "substring(a, 1, 3)"),
        ("substring(s from 1 for 2)", "substring(a, 1, 3)"),
        ("left(s, 2)", "substring(a, 1, 3)"),
        ("trim(both ' ' from s)", "trim(a)"),
        ("position('a' in s)", "contains(a, 'b')"),
        ("startswith(s, 'a')", "starts_with(a, 'b')"),
        ("concat_ws('-', s, s)", "a || '-' || b"),
        ("split_part(s, ',', 1)", "split(a, ',')[1]"),
        ("lowr(s)", "did you mean lower?"),
        ("s ilike 'x%'", "lower(a) like"),
        ("s rlike 'x'", "regexp_like"),
        ("s ~ 'x'", "regexp_like"),
        ("s like '^a.*\\d'", "regexp_like"),
        ("s like '50\\%'", "contains(a, '%')"),
        ("s like s", "starts_with(a, b)"),
        ("n in [1, 2]", "parentheses"),
        ("n in (select 1)", "has no select"),
        ("exists (select 1)", "join.NAME"),
        ("n > 1e3", "decimal such as 0.5"),
        ("n ^ 2", "write a * a"),
        ("n ** 2", "write a * a"),
        ("power(n, 2)", "write a * a"),
        ("ceiling(ratio)", "ceil(a)"),
        ("round(ratio, 2)", "declare the field as decimal(2)"),
        ("big + 1", "give the fields a range"),
        ("price * price * price", "give the fields a range"),
        ("ratio % 2", "for whole numbers"),
        ("n % price", "for whole numbers"),
        ("*", "count = true"),
        ("count(*)", "count = true"),
        ("count(distinct s)", 'distinct = "name"'),
        ("sum(n)", 'sum = "amount"'),
        ("max(n, 3)", "greatest(a, b)"),
        ("avg(n) > 3", 'avg = "amount"'),
        ("row_number() over (partition by s)", 'latest = "time"'),
        ("array_agg(s)", "top_k"),
        ("select n", "where"),
        ("n from t", "a key of its own: from"),
        ("n where n > 1", "a key of its own: where"),
        ("n as total", "names for expressions are in let"),
        ("distinct s", 'distinct = "name"'),
        ("s is distinct from 'a'", "a <> b or a is null"),
        ("n;", "does not end with a semicolon"),
        ("s, n", 'key = ["a", "b"]'),
        ("unnest(tags)", 'each = { item = "items" }'),
        ("tags[0]", "the first element is a[1]"),
        ("attributes[1]", "a['name']"),
        ("s['a']", "as strings, longs or map"),
        ("attributes.colour", "path"),
        ("after.id", 'id = { path = "after.id"'),
        ("cardinality(tags)", "size(a)"),
        ("size(s)", "length(a)"),
        ("json_value(s, '$.a')", "path"),
    ],
)  # fmt: skip
def test_an_expression_that_is_refused_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match="character") as raised:
        parse(text, NAMES)
    assert hint.lower() in str(raised.value).lower()


@pytest.mark.parametrize(
    ("type_", "hint"),
    [
        ("varchar", '"string"'),
        ("VARCHAR(20)", '"string"'),
        ("text?", '"string?"'),
        ("bigint", '"long"'),
        ("integer", '"int"'),
        ("float", '"double"'),
        ("bool", '"boolean"'),
        ("numeric(10, 2)", '"decimal(2)"'),
        ("timestamp", '"time"'),
        ("timestamp with time zone", '"time"'),
        ("date", '"string"'),
        ("string[]", '"strings"'),
        ("array<bigint>", '"longs"'),
        ("jsonb", '"map"'),
        ("int not null", '"int"'),
    ],
)
def test_the_name_of_a_type_in_sql(type_: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is not a type; write") as raised:
        parse_field_type(type_)
    assert f"write {hint};" in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("group_by", "s", 'key = "…" groups'),
        ("partition_by", "s", 'key = "…" groups'),
        ("having", "n > 1", "groups cannot be filtered"),
        ("order_by", "n", "top_k"),
        ("limit", 3, "top_k = { k = 3"),
        ("topic", "orders", 'from = "…"'),
        ("timestamp", "t", 'time = "…"'),
        ("watermark", "1h", "lateness"),
        ("hop", "1m", "advance"),
        ("session_gap", "1m", 'session = "30m"'),
        ("deduplicate", ["s"], "identity"),
        ("explode", "tags", "each"),
        ("key", None, "key is missing"),
        ("key", "", "is not text"),
        ("key", "s", "coalesce"),
        ("key", "ratio", "a string or a whole number"),
        ("key", "t", "a string or a whole number"),
        ("window", "1 minute", '"5m"'),
        ("window", "INTERVAL '1' MINUTE", '"5m"'),
        ("session", "30 minutes", '"5m"'),
        ("window", 60, 'such as "1h" or "1 month"'),
        ("count", "*", "count = true"),
        ("count", 1, "count = true"),
        ("sum", "count(*)", "count = true"),
        ("sum", "ratio", 'declare the field as "decimal(2)"'),
        ("avg", "ratio * 2", 'declare the field as "decimal(2)"'),
        ("sum", "big * price", "give the fields a range"),
        ("sum", "s", "a whole number or a decimal"),
        ("latest", True, "is not text"),
        ("top_k", 3, "top_k = { k = 3"),
        ("distinct", "ratio", "a string or a whole number"),
        ("each", "tags", 'each = { word = "'),
        ("each", {"tag": "s"}, "list"),
        ("fields", ["n"], 'fields = { name = "string" }'),
        ("identity", ["n", "tags"], "tags is a list"),
    ],
)  # fmt: skip
def test_a_table_that_is_refused_says_what_to_write(key: str, value: Any, hint: str) -> None:
    table = {"from": "t", "fields": dict(_TYPES), "key": "n", "count": True, key: value}
    if value is None:
        del table[key]
    with pytest.raises(TableError) as raised:
        parse_derivation(table)
    assert hint.lower() in str(raised.value).lower()
