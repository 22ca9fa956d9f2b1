"""The declaration of fields that `queryable fields` infers, and its comparison with a view's."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.expressions.values import strict_reader
from model.rows.declared_fields import DeclaredField, parse_declared_fields
from queryable.cli.description.declaration import declaration_of
from queryable.cli.description.fields import sampled_fields


def lines(values: Sequence[Any], **declared: str) -> list[str]:
    """The lines of the table without comments, then those of all that is left out."""
    fields = parse_declared_fields(declared) if declared else ()
    return declaration_of(values, fields).toml("orders").splitlines()


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["a", "b"], "string"),
        (["2013-01-01T00:00:00Z", "2013-01-01 01:00:00.123+01:00"], "time"),
        (["2013-01-01T00:00:00Z", "2013-01-01"], "string"),
        (["2013", "14"], "string"),
        ([1, -1_000_000_000], "int"),
        # seconds since 1970, which outgrow 32 bits
        ([1_795_281_568], "long"),
        ([2**63 - 1, -(2**63)], "long"),
        ([2**63], "double"),
        ([1.5, 2.0], "double"),
        ([1, 2.0], "double"),
        ([True, False], "boolean"),
        ([["a"], [], ["b", "c"]], "strings"),
        ([[1, 2], []], "longs"),
    ],
)
def test_the_type_is_the_first_that_reads_all_values(values: list[Any], type_: str) -> None:
    table = tomllib.loads(declaration_of([{"n": value} for value in values]).toml("orders"))
    assert table["views"]["orders"]["fields"] == {"n": type_}
    # also if a value does not have the field, or if it is null
    for other in ({}, {"n": None}):
        rows = [*({"n": value} for value in values), other]
        table = tomllib.loads(declaration_of(rows).toml("orders"))
        assert table["views"]["orders"]["fields"] == {"n": f"{type_}?"}


def test_the_table_has_comments_and_names_in_quotes() -> None:
    values = [
        {"id": 1, "crew": {"captain": "A", "first officer": "B"}, "price": "1.50"},
        {"id": 2, "crew": {"captain": "C", "first officer": None}, "price": "2"},
        {"id": 3, "crew": None, "price": "3e2"},
    ]
    assert lines(values) == [
        "# a sample of 3 values",
        "[views.orders.fields]",
        'id = "int"',
        '"crew.captain" = "string?"  # in 2 of 3 values',
        '"crew.first officer" = "string?"  # in 1 of 3 values',
        'price = "string"  # numbers as text: try_cast(… as double)',
    ]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1, "a", "b"], 'several types: 1 integer, 2 string; "any" reads them as text'),
        ([1, [2]], "several types: 1 integer, 1 list"),
        ([1, {"b": 2}, {"b": 3}, {}], "several types: 1 integer, 3 object"),
        ([[1.5], [2]], "list, which has no type here"),
        ([["a"], [1]], "list, which has no type here"),
        ([["a", None]], "list, which has no type here"),
        ([[], []], "list, empty in all values"),
        ([{}], "object, empty in all values"),
        ([None, None], "null in all values"),
        ([float("inf")], "number, beyond the range of a double"),
    ],
)
def test_a_field_without_a_type_is_a_comment_with_the_reason(values: list[Any], line: str) -> None:
    text = declaration_of([{"id": 7, "n": value} for value in values]).toml("orders")
    assert f"# n: {line}" in text.splitlines()
    assert "n" not in tomllib.loads(text)["views"]["orders"]["fields"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.b", '"a.b": a name with a dot cannot be declared'),
        ("", '"": an empty name cannot be declared'),
        ("\ud800", '"\\ud800": a name that is not UTF-8 text cannot be declared'),
        ("x" * 1025, "…: is not a name, or names with dots, of up to 16 levels"),
    ],
)
def test_a_name_that_cannot_be_declared_is_a_comment(name: str, line: str) -> None:
    text = declaration_of([{"id": 7, name: 1}]).toml("orders@2")
    assert f"{line}" in text.encode("utf-8", "backslashreplace").decode()
    assert max(map(len, text.splitlines())) < 200
    assert tomllib.loads(text.encode("utf-8", "ignore").decode())["views"] == {
        "orders@2": {"fields": {"id": "int"}}
    }


def test_control_characters_of_names_and_values_do_not_break_the_table() -> None:
    text = declaration_of([{'q"\\\x7f\n\x1b\x9bé': [{"\n\x7f": 1}], "d\x7f\t": 1}]).toml("orders")
    assert not {"\x7f", "\x1b", "\x9b"} & set(text)
    assert tomllib.loads(text)["views"]["orders"]["fields"] == {"d\x7f\t": "int"}


def test_a_table_has_at_most_200_fields() -> None:
    text = declaration_of([{f"f{n}": n for n in range(1500)}]).toml("orders")
    assert len(parse_declared_fields(tomllib.loads(text)["views"]["orders"]["fields"])) == 200
    assert "# f200: a table has up to 200 fields\n" in text
    assert text.endswith("# the values have more fields\n")


def test_values_that_are_no_objects_are_counted() -> None:
    text = declaration_of([{"n": 1}, 7, None]).toml("orders")
    assert "# a sample of 3 values, 2 of which are not objects\n" in text
    assert declaration_of([7, "a"]).fields == []
    assert declaration_of([{}]).fields == []


def test_an_object_whose_names_differ_is_a_map() -> None:
    values = [{"n": {f"red {k}": k, f"blue {k}": "x"}} for k in range(20)]
    text = declaration_of([*values, {}]).toml("orders")
    assert 'n = "map?"  # 40 names of members; in 20 of 21 values\n' in text
    # one whose members are in most values, or are no scalars, has fields
    wide = [{"n": {f"red {k}": k for k in range(40)}} for _ in range(20)]
    deep = [{"n": {f"red {k}": [k]}} for k in range(40)]
    for others in (wide, deep):
        fields = declaration_of(others).fields
        assert [field.path for field in fields] == [("n", f"red {k}") for k in range(40)]
    # so has one with a declared field
    declared = parse_declared_fields({"n": {"red 1": "int?"}})
    assert len(declaration_of(values, declared).fields) == 40


def test_the_members_of_a_declared_map_are_no_fields() -> None:
    declared = parse_declared_fields({"n": "map", "o": "map"})
    text = declaration_of([{"n": {"red": 1}, "o": {"red": [1]}}], declared).toml("orders")
    table = tomllib.loads(text)["views"]["orders"]["fields"]
    # a map that does not fit has its members
    assert table == {"n": "map", "o.red": "longs"}
    declared = parse_declared_fields({"n": "map", "n.red": "string"})
    declaration = declaration_of([{"n": {"red": 1}}, {}], declared)
    table = tomllib.loads(declaration.toml("orders"))["views"]["orders"]["fields"]
    assert table == {"n": "map?", "n.red": "int?"}
    assert len(declaration.differences) == 2, "also of a declared member"


DECLARED = {"delay": "int", "dest": "string", "gate": "string?", "at": "time ms"}


def test_a_declaration_is_compared_with_the_sample() -> None:
    values = [{"delay": 1, "dest": "A", "at": 5}, {"delay": "x", "dest": "B", "at": 6, "new": 1}]
    declaration = declaration_of(values, parse_declared_fields(DECLARED))
    assert declaration.differences == [
        'delay: declared as "int", but 1 of 2 values are not, such as x'
    ]
    # what agrees stays as it is written
    assert declaration.toml("orders").splitlines()[2:] == [
        '# delay: declared as "int", but 1 of 2 values are not, such as x; several types: '
        '1 integer, 1 string; "any" reads them as text',
        'dest = "string"',
        'at = "time ms"',
        'new = "int?"  # not declared; in 1 of 2 values',
        'gate = "string?"  # in no value of the sample',
    ]


@pytest.mark.parametrize(
    ("declared", "values", "differs", "line"),
    [
        ("int", [1, None], "1 of 2 values are missing or null", 'n = "int?"'),
        ("int 0..9", [None, 1], "1 of 2 values are missing or null", 'n = "int? 0..9"'),
        ("time ms", [None, 1], "1 of 2 values are missing or null", 'n = "time? ms"'),
        ("int", [2**40], "1 of 1 values are not, such as 1099511627776", 'n = "long"'),
        ("int 0..9", [10], "1 of 1 values are not, such as 10", 'n = "int"'),
        ("decimal(2)", [1.25, 1.255], "1 of 2 values are not, such as 1.255", 'n = "double"'),
        ("int", [{"m": 1}], "1 of 1 values are not", "# n:"),
        ("int?", [[1], 2], "1 of 2 values are not, such as [1]", "# n:"),
        ("long", [1], None, 'n = "long"'),
        ("strings", [["a"], []], None, 'n = "strings"'),
        ("map", [{"red": 1}, {"blue": "x"}], None, 'n = "map"'),
        ("any", [1, "a"], None, 'n = "any"'),
        ("int?", [1], None, 'n = "int?"'),
        ("int?", [None], None, 'n = "int?"'),
    ],
)
def test_differences(declared: str, values: list[Any], differs: str | None, line: str) -> None:
    found = declaration_of([{"n": v} for v in values], parse_declared_fields({"n": declared}))
    if differs is None:
        assert found.differences == []
    else:
        [difference] = found.differences
        assert differs in difference
    assert line in found.toml("orders")


def own(by: str, **types: str) -> tuple[DeclaredField, ...]:
    return tuple(replace(field, declared_by=by) for field in parse_declared_fields(types))


def test_what_a_view_declares_itself_is_a_comment() -> None:
    values = [{"n": 1, "s": "x", "m": {"a": 1}, "new": True}, {"n": 2, "s": "x"}]
    declared = (*own("derive", n="long", gone="time?"), *own("schema", s="long", m="map?"))
    declaration = declaration_of(values, (*declared, *parse_declared_fields({"x": "int?"})))
    difference = 's: declared as "long" by the schema, but 2 of 2 values are not, such as x'
    assert declaration.toml("orders").splitlines() == [
        "# a sample of 2 values",
        "[views.orders.fields]",
        '# n: "long" by derive',
        f"# {difference}",
        'new = "boolean?"  # not declared; in 1 of 2 values',
        '# gone: "time?" by derive',
        '# m: "map?" by the schema',
        'x = "int?"  # in no value of the sample',
    ]
    assert declaration.differences == [difference]
    rows = [field.row() for field in declaration.fields]
    assert rows[0] == {"name": "n", "type": "long", "values": 2, "example": "1",
                       "declared": "long", "declared_by": "derive"}  # fmt: skip
    no_table = declaration_of([{"n": 1}], declared[:1])
    assert no_table.toml("orders") == '# a sample of 1 value\n# n: "long" by derive\n'
    assert not no_table.is_empty


def test_what_a_registry_has_is_ready_for_the_table() -> None:
    fields = own("registry", n="long?", at="time", old="double?")
    values = [{"n": 1, "at": "x", "more": 1}]
    declaration = declaration_of(values, fields)
    assert declaration.toml("orders", "version 3 of a-value").splitlines() == [
        "# a sample of 1 value; types from version 3 of a-value",
        "[views.orders.fields]",
        'n = "long?"',
        'at = "time"  # declared as "time" by the newest schema, but 1 of 1 values are not, such '
        "as x",
        'more = "int"',
        'old = "double?"  # in no value of the sample',
    ]
    assert declaration.differences == []
    assert "in no value" not in declaration_of([], fields).toml("orders")
    many = own("registry", **{f"n{number}": "int" for number in range(199)})
    table = tomllib.loads(declaration_of([{}], [*parse_declared_fields(DECLARED), *many]).toml("o"))
    assert len(parse_declared_fields(table["views"]["o"]["fields"])) == 200


def test_numbers_that_are_texts_are_as_declared_if_the_format_writes_them_so() -> None:
    fields = parse_declared_fields({"n": "long", "price": "decimal(2)", "s": "string"})
    values = [{"n": "9007199254740993", "price": "-1.50", "s": "7"}]
    assert declaration_of(values, fields, quotes_numbers=True).differences == []
    assert len(declaration_of(values, fields).differences) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
    | st.just("2013-01-01T00:00:00Z"),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["a", "b", "a.b", 'q"', ""]) | st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(JSON, min_size=1, max_size=4))
@example([{"a": {"b": 1}}, {"a": 1}, {"a.b": "x"}])
def test_the_table_reads_every_value_of_the_sample(values: list[Any]) -> None:
    text = declaration_of(values).toml("orders")
    table = tomllib.loads(text).get("views")
    if table is None:
        return
    declared = parse_declared_fields(table["orders"]["fields"])
    assert declaration_of(values, declared).differences == []
    known = {field.path: field for field in declared}
    for sampled in sampled_fields(values, 1000):
        field: DeclaredField | None = known.get(sampled.path)
        if field is not None:
            assert len(sampled.values) == len(values) or field.type.optional
            for value in sampled.values:
                strict_reader(field.type)(value)
