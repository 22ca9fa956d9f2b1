"""What a SQL user tries in [views.NAME.derive], and what the refusal says to write."""

from __future__ import annotations

import pytest

from model.derive.expressions import Field, parse
from model.derive.table import parse_derivation
from model.derive.types import STRING, TIMESTAMP, integer

NAMES = {
    "n": Field("n", integer(0, 100)),
    "s": Field("s", STRING.or_null()),
    "record_timestamp": Field("record_timestamp", TIMESTAMP),
}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("*", "count = true"),
        ("count(*)", "count = true"),
        ("sum(n)", 'sum = "amount"'),
        ("cast(s as int)", "try_cast(a as int)"),
        ("s::int", "try_cast(a as int)"),
        ("try_cast(s as uuid)", "int, long, double, boolean, string"),
        ("timestamp", "record_timestamp"),
        ("now()", "record_timestamp"),
        ("offset", "record_offset"),
        ("key", "record_key"),
        ("s == 'a'", "a single = compares"),
        ("n > 1 && n < 3", "write and"),
        ("s | s", "|| joins texts"),
        ("s = null", "is null"),
        ("ifnull(s, '')", "coalesce(a, b)"),
        ("nvl(s, '')", "coalesce(a, b)"),
        ("len(s)", "length(a)"),
        ("lowr(s)", "did you mean lower?"),
        ("s ilike 'x%'", "lower(a) like"),
        ("s rlike 'x'", "regexp_like"),
        ("n / 60", "div(number, 60)"),
        ("n % 60", "mod(number, 60)"),
        ("n > 1.5", "whole numbers"),
        ("case when n > 1 then 2 end", "else"),
        ("after.id", 'id = { path = "after.id"'),
        ('"to-city"', 'path = "to-city"'),
        ("s[1]", "path"),
        ("n;", "no end sign"),
        ("select n", "filter"),
        ("interval '1 hour'", "unix_seconds(a) + 3600"),
        ("date_trunc('hour', n)", "window"),
    ],
)
def test_an_expression_that_is_refused_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match="character") as raised:
        parse(text, NAMES)
    assert hint.lower() in str(raised.value).lower()


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("group_by", 'key = "…"'),
        ("group-by", 'key = "…"'),
        ("where", 'filter = "…"'),
        ("order_by", "top_k"),
        ("limit", "top_k"),
        ("topic", 'from = "…"'),
        ("timestamp", 'time = "…"'),
        ("tumbling", "window"),
        ("filtr", "did you mean filter?"),
    ],
)
def test_a_key_that_is_refused_says_what_to_write(key: str, hint: str) -> None:
    table = {"from": "t", "fields": {"s": "string"}, "key": "s", "count": True, key: "s"}
    with pytest.raises(ValueError, match="unknown key") as raised:
        parse_derivation(table)
    assert hint in str(raised.value)


@pytest.mark.parametrize("path", [None, "", "a..b", [], ["a", 1], [""], ["a"] * 17, 7])
def test_paths_that_are_refused(path: object) -> None:
    fields = {"s": {"type": "string", "path": path}}
    with pytest.raises(ValueError, match="names with dots"):
        parse_derivation({"from": "t", "fields": fields, "key": "s", "count": True})


def test_paths_of_fields() -> None:
    fields = {
        "id": {"type": "int", "path": "after.id"},
        "city": {"type": "string", "path": ["to.city"]},
        "plain": "string",
    }
    found = parse_derivation({"from": "t", "fields": fields, "key": "city", "count": True})
    assert found.paths == (("id", ("after", "id")), ("city", ("to.city",)))
