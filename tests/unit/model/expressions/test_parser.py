"""Expressions: their types, their results' ranges, and what is refused and why."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.expressions.functions import FUNCTIONS
from model.expressions.parser import MAX_CHARACTERS, parse
from model.expressions.tree import Call, Field, fields_of, known_not_null, nodes
from model.expressions.types import STRING, Kind, parse_field_type

NAMES = {
    name: Field(name, parse_field_type(of))
    for name, of in {
        "word": "string", "text": "string?", "small": "int 0..59", "number": "int?",
        "big": "long", "price": "decimal(2)", "ratio": "double", "at": "time", "flag": "boolean",
    }.items()
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "optional"),
    [
        ("word", Kind.STRING, False),
        ("'it''s'", Kind.STRING, False),
        ("lower(text)", Kind.STRING, True),
        ("coalesce(text, 'none')", Kind.STRING, False),
        ("text is null", Kind.BOOLEAN, False),
        ("number > -1 and not flag", Kind.BOOLEAN, True),
        ("word not in ('a', 'b') or word like '%x'", Kind.BOOLEAN, False),
        ("word like '%a_(%|%' or word like 'a%b%c' or word like '%'", Kind.BOOLEAN, False),
        ("small not between 1 and 2", Kind.BOOLEAN, False),
        ("small != 1", Kind.BOOLEAN, False),
        ("price <= price", Kind.BOOLEAN, False),
        ("price > 1.5 and ratio > small and small < -0.5", Kind.BOOLEAN, False),
        ("ratio in (0, 0.5)", Kind.BOOLEAN, False),
        ("coalesce(price, 0.00)", Kind.DECIMAL, False),
        ("coalesce(number, 0.5)", Kind.DECIMAL, False),
        ("coalesce(number, ratio)", Kind.DOUBLE, False),
        ("small * price", Kind.DECIMAL, False),
        ("small / 7", Kind.INTEGER, False),
        ("small / small", Kind.INTEGER, True),
        ("small / 7.0", Kind.DECIMAL, False),
        ("small % (small + 1)", Kind.INTEGER, False),
        ("small * ratio", Kind.DOUBLE, True),
        ("abs(small) + abs(-price)", Kind.DECIMAL, False),
        ("abs(big)", Kind.INTEGER, True),
        ("floor(ratio)", Kind.INTEGER, True),
        ("floor(price)", Kind.INTEGER, False),
        ("timestamp_seconds(small)", Kind.TIME, False),
        ("timestamp_millis(big)", Kind.TIME, True),
        ("date_trunc('day', at, 'Europe/Berlin')", Kind.TIME, False),
        ("hour(at)", Kind.INTEGER, False),
        ("date(at) || word", Kind.STRING, False),
        ("split(word, ',')", Kind.STRINGS, False),
        ("split(word, ',')[1]", Kind.STRING, True),
        ("flag is true", Kind.BOOLEAN, False),
        ("(number = 1) is not false", Kind.BOOLEAN, False),
        ("at > timestamp '2026-01-01T10:00:00Z'", Kind.BOOLEAN, False),
        ("Timestamp '2026-01-01 10:00+01'", Kind.TIME, False),
        ("'2026-01-01 10:00+01' < at and at in ('2026-01-01T10:00:00Z')", Kind.BOOLEAN, False),
        ("at between '2026-01-01T10:00:00Z' and at", Kind.BOOLEAN, False),
        ("(small + 1) * -60 - small", Kind.INTEGER, False),
        ("unix_millis(at)", Kind.INTEGER, False),
        ("timestamp_seconds(unix_seconds(at) + 60 * small)", Kind.TIME, False),
        ("if(flag, small, number)", Kind.INTEGER, True),
        ("concat(word, '-', small)", Kind.STRING, False),
        ("regexp_extract_all(word, '[a-z]+')", Kind.STRINGS, False),
        ("substring(word, 2)", Kind.STRING, False),
        ("DIV(big, 60)", Kind.INTEGER, False),
        ("TRUE AND flag", Kind.BOOLEAN, False),
        ("word || '-' || small", Kind.STRING, False),
        ("word || text", Kind.STRING, True),
        ("word || small + 1 = 'a1' and flag", Kind.BOOLEAN, False),
        ("case when small > 5 then 'a' when flag then word else 'c' end", Kind.STRING, False),
        ("CASE word WHEN 'x' THEN 1 ELSE number END", Kind.INTEGER, True),
        (
            "case when flag then case when flag then 1 else 2 end else 3 end + 1",
            Kind.INTEGER,
            False,
        ),
        ("try_cast(word as int)", Kind.INTEGER, True),
        ("coalesce(try_cast(word AS bigint), 0)", Kind.INTEGER, False),
        ("try_cast(ratio as long)", Kind.INTEGER, True),
        ("try_cast(price as double)", Kind.DOUBLE, True),
        ("try_cast(small as string)", Kind.STRING, False),
        ("try_cast(word as boolean)", Kind.BOOLEAN, True),
    ],
)
def test_types(text: str, kind: Kind, optional: bool) -> None:
    type_ = parse(text, NAMES).type
    assert (type_.kind, type_.optional) == (kind, optional)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("small", 0, 59),
        ("small * small - 1", -1, 3480),
        ("-small", -59, 0),
        ("mod(big, 60)", 0, 59),
        ("div(small, 10)", 0, 5),
        ("length(word)", 0, 2**31 - 1),
        ("small / 10", 0, 5),
        ("-small / (small + 2)", -29, 29),
        ("big / 2", -(2**62), 2**62),
        ("(small - 9) % 7", -6, 6),
        ("small % 100", 0, 59),
        ("big % 60", -59, 59),
        ("abs(small - 9)", 0, 50),
        ("price", 1 - 10**15, 10**15 - 1),
        ("small * 0.25", 0, 1475),
        ("0.5 + small", 5, 595),
        ("round(small * 0.25, 1)", 0, 148),
        ("floor(-1.5)", -2, -1),
        ("ceil(1.5)", 1, 2),
        ("coalesce(number, small)", -(2**31), 2**31 - 1),
        ("-9223372036854775808", -(2**63), -(2**63)),
    ],
)
def test_the_range_of_a_result(text: str, low: int, high: int) -> None:
    type_ = parse(text, NAMES).type
    assert (type_.low, type_.high) == (low, high)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the expression ends too early at character 1"),
        ("small +", "the expression ends too early at character 8"),
        ("smal > 1", "unknown field smal; known: word, text,"),
        ("rand() < 1", "unknown function rand; allowed: coalesce,"),
        ("now()", "unknown function now"),
        ("uuid()", "unknown function uuid"),
        ("java_method('java.lang.System', 'exit')", "unknown function java_method"),
        ("(select 1)", "unknown field select"),
        ("word; drop", "unexpected ;. An expression does not end with a semicolon, at character 5"),
        ("small / word", "argument 2 of / is a string, not a number. Write try_cast(a as long)"),
        ('word = "x"', "strings have single quotes"),
        ("word = 'x", "a string without a closing quote at character 8"),
        (
            "1.5e3 < small",
            "a number is a whole number, or a decimal such as 0.5, without an exponent",
        ),
        ("1. < small", "a number is a whole number, or a decimal such as 0.5, without an exponent"),
        ("small > 0.123456789012345", "a decimal has up to 15 digits, 14 of them after the point"),
        ("small > 12345678901234.56", "a decimal has up to 15 digits"),
        ("at > '2026-01-01T00:00:00'", "Write a time as timestamp '2026-01-01T10:00:00Z'"),
        ("at > timestamp '2026-01-01'", "'2026-01-01' is not a time like 2013-01-01T10:00:00Z"),
        ("at > timestamp '2026-01-01T10:00:00'", "is a time without a zone"),
        ("at > timestamp", "unknown field timestamp"),
        ("99999999999999999999 > 1", "does not fit in 64 bits at character 1"),
        ("word + 1", "argument 1 of + is a string, not a number. Write a || b"),
        ("price * price * price", "the result of * may have more than 38 digits; give the fields"),
        ("big * price / price", "the result of / may have more than 38 digits; give"),
        ("word = 1", "= has values of different types: string, whole number"),
        ("big + 1", 'the result of + may not fit in 64 bits; give the fields a range, as in "long'),
        ("big * small", "the result of * may not fit"),
        ("div(big, small)", "the divisor of div must be a literal from 1 to"),
        ("mod(big, 0)", "the divisor of mod"),
        ("lower(word, word)", "lower needs 1 argument, not 2"),
        ("substring(word, small)", "the start of substring must be a literal from 1"),
        ("word in (text)", "the values after in must be literals"),
        ("word like text", "the pattern of like must be a literal"),
        ("word like '%a%b%c%'", "would take hours for a long text"),
        ("word like 'a%b%c%d'", "would take hours for a long text"),
        ("regexp_like(word, text)", "the pattern of regexp_like must be a literal"),
        ("regexp_like(word, '(a|b)*')", "must not repeat a group"),
        (
            "regexp_extract(word, 'a', 1)",
            "the group of regexp_extract must be a literal from 0 to 0",
        ),
        ("coalesce(word)", "coalesce needs at least 2"),
        ("if(word, 1, 2)", "argument 1 of if is a string"),
        ("small not 1", "expected in, between or like after not"),
        ("small is 1", "expected null, true or false, not 1"),
        ("small = 1 = 2", "unexpected =. A single = compares, and several"),
        ("round(ratio, 2)", "declare the field as decimal(2)"),
        ("abs(word)", "argument 1 of abs is a string, not a number"),
        ("replace(word, '', 'a')", "looks for must not be empty"),
        ("split(word, text)", "the separator of split must be a literal"),
        ("word[1]", "a string has no elements"),
        ("hour(at, 'Mars/Base')", 'is not a time zone such as "Europe/Berlin" or "UTC"'),
        ("hour(at, 'posix/Europe/Berlin')", 'is not a time zone such as "Europe/Berlin" or "UTC"'),
        ("hour(at, '../Europe/Berlin')", 'is not a time zone such as "Europe/Berlin" or "UTC"'),
        ("hour(at, 'EST')", 'is not a time zone such as "Europe/Berlin" or "UTC"'),
        ("hour(at, '+01:00')", 'is not a time zone such as "Europe/Berlin" or "UTC"'),
        ("hour(at, word)", "the zone of hour must be a literal"),
        ("date_trunc('eon', at)", "is not a unit: use second, minute, hour"),
        ("and", "unexpected and"),
        ("(" * 50, "more than 40 levels of parentheses"),
        ("not " * 600 + "flag", "an expression has at most 2000 characters"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse(text, NAMES)


def test_names_of_let_are_replaced_by_their_expressions() -> None:
    let = parse("lower(text)", NAMES)
    found = parse("lowered = 'x' and text is not null", {**NAMES, "lowered": let})
    assert fields_of(found) == {"text"}
    assert known_not_null(found) == {"text"}
    wide = parse(f"small in ({', '.join(['1'] * 200)})", NAMES)
    with pytest.raises(ValueError, match="more than 500 parts"):
        parse("a and a and a", {"a": wide})
    with pytest.raises(ValueError, match="or 100 levels"):
        parse(" and ".join(["flag"] * 101), NAMES)
    deep = parse(" and ".join(["flag"] * 99), NAMES)
    with pytest.raises(ValueError, match="or 100 levels"):
        parse(" or ".join(["a"] * 300), {"a": deep})


_LEAVES = st.sampled_from([*NAMES, "1", "'x'", "true", "-5", "null", "(", ")", ",", "'[a-z]+'"])
_OPERATORS = st.sampled_from(
    ["+", "-", "*", "=", "<", "and", "or", "not", "is null", "in", "between", "("]
)


@given(st.lists(st.one_of(_LEAVES, _OPERATORS, st.sampled_from(list(FUNCTIONS))), max_size=12))
def test_any_text_is_an_expression_or_an_error_with_a_place(parts: list[str]) -> None:
    text = " ".join(parts)
    assert len(text) <= MAX_CHARACTERS
    try:
        found = parse(text, NAMES)
    except ValueError as error:
        has_place = "at character" in str(error)
        assert has_place
        return
    for each in nodes(found):
        assert not isinstance(each, Call) or each.arguments
        assert each.type.low <= each.type.high


def test_an_error_names_a_few_of_many_fields() -> None:
    names = {f"field{number}": Field(f"field{number}", STRING) for number in range(1000)}
    with pytest.raises(ValueError, match=r"known: field0, .*field49 and 950 more") as e:
        parse("other = 1", names)
    assert len(str(e.value)) < 1000
