"""What a SQL user tries in an expression, and what the refusal says to write."""

from __future__ import annotations

import pytest

from model.expressions.parser import parse
from model.expressions.tree import Field
from model.expressions.types import STRING, TIMESTAMP, integer

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
        ("n > 1e3", "decimal such as 0.5"),
        ("case when n > 1 then 2 end", "else"),
        ("after.id", 'id = { path = "after.id"'),
        ('"to-city"', 'path = "to-city"'),
        ("s[1]", "path"),
        ("n;", "no end sign"),
        ("select n", "where"),
        ("interval '1 hour'", "unix_seconds(a) + 3600"),
        ("date_trunc('hour', n)", "window"),
    ],
)
def test_an_expression_that_is_refused_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match="character") as raised:
        parse(text, NAMES)
    assert hint.lower() in str(raised.value).lower()
