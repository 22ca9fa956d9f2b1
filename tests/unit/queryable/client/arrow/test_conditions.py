"""Arrow's filters as conditions: the same rows, or no condition."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.expressions.evaluator import compile_expression
from model.expressions.parser import parse
from model.expressions.tree import Field
from model.expressions.types import BOOLEAN, DOUBLE, STRING, Kind, integer
from queryable.client.arrow.conditions import MAX_CHARACTERS, condition_of
from tests.support.examples import examples

TYPES = {
    "n": pa.int64(),
    "small": pa.int32(),
    "s": pa.string(),
    "f": pa.float64(),
    "b": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(38, 2),
    "crew.captain": pa.string(),
}
NAMES = {name: (name, type_) for name, type_ in TYPES.items()}
f = pc.field


def in_list(column: str, values: list[Any]) -> pc.Expression:
    """As DuckDB writes `in`."""
    among = f(column).isin(pa.array(values, TYPES[column]))
    return pc.if_else(f(column).is_valid(), among, pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        (f("n") > 60, "(n > 60)"),
        (f("n") != -1, "(n <> -1)"),
        (f("small") == pa.scalar(7, pa.int32()), "(small = 7)"),
        (f("small") >= 7, "(small >= 7)"),
        (f("f") == 2, "(f = 2)"),
        (f("small").isin([1]), "(small is not null and small in (1))"),
        (f("s") == "it's", "(s = 'it''s')"),
        (f("s") == 'a"\\\n', "(s = 'a\"\\\n')"),
        ((f("n") >= 1) & (f("n") <= 5) | ~f("b"), "(((n >= 1) and (n <= 5)) or (not b))"),
        (f("s").is_null(), "(s is null)"),
        (f("s").is_valid(), "(s is not null)"),
        (f("f") < 1.5, "(f < 1.5)"),
        (f("b") == True, "(b = true)"),  # noqa: E712
        (f("price") > pa.scalar(Decimal("1.50"), TYPES["price"]), "(price > 1.50)"),
        (
            f("at") < pa.scalar(datetime(2026, 1, 1, tzinfo=UTC), TYPES["at"]),
            "(at < '2026-01-01T00:00:00.000000Z')",
        ),
        (f("crew.captain") == "Ada", "(crew.captain = 'Ada')"),
        (in_list("n", [1, 2]), "(n in (1, 2))"),
        (in_list("s", ["x", 'b,"c']), "(s in ('x', 'b,\"c'))"),
        (f("n").isin([1, 2]), "(n is not null and n in (1, 2))"),
    ],
)
def test_what_is_understood(expression: pc.Expression, condition: str) -> None:
    assert condition_of(expression, NAMES) == condition


@pytest.mark.parametrize(
    "expression",
    [
        f("unknown") == 1,
        f("n") == f("small"),
        pc.starts_with(f("s"), "x"),
        f("n") + 1 == 2,
        f("f") == 1e300,
        f("f") == 0.1234567890123456,
        f("f") == float("nan"),
        f("n") == 1.5,  # a double
        f("s").isin(["a\n", "b"]),
        f("s").isin(["a", None]),
        pc.is_null(f("f"), nan_is_null=True),
        f("s") == "x" * MAX_CHARACTERS,
        f(("crew", "captain")) == "Ada",
        f("n").isin(pa.array(range(100))),  # shortened in its text
        pc.scalar(True),
    ],
    ids=str,
)
def test_what_is_left_to_arrow(expression: pc.Expression) -> None:
    assert condition_of(expression, NAMES) is None


def test_an_expression_of_many_levels() -> None:
    expression = f("n") > 0
    for _ in range(3000):
        expression = expression & (f("n") > 0)
    assert condition_of(expression, NAMES) is None


_TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(['"', '\\"', "' or '1'='1", '"], null_matching_behavior=MATCH}', "a\n", "\\n"]),
)
_ODD = st.sampled_from(["x", 'a"b', "it's", "b\\", "é"])
_COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3),
    "s": _TEXTS | _ODD,
    "f": st.sampled_from([-1.5, 0.0, 0.25, 2.0]),
}
_MAKE = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a >= b,
]


@st.composite
def _comparisons(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(sorted(_COLUMNS)))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return f(name).is_null() if draw(st.booleans()) else f(name).is_valid()
    if kind == 1:
        values = draw(st.lists(_COLUMNS[name], min_size=1, max_size=3))
        return (
            in_list(name, values)
            if draw(st.booleans())
            else f(name).isin(pa.array(values, TYPES[name]))
        )
    if kind == 2:
        return f("b")
    return draw(st.sampled_from(_MAKE))(f(name), pa.scalar(draw(_COLUMNS[name]), TYPES[name]))


_EXPRESSIONS = st.recursive(
    _comparisons(),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=6,
)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {**{name: st.none() | values for name, values in _COLUMNS.items()},
         "b": st.none() | st.booleans()}
    ),
    min_size=1, max_size=8,
)  # fmt: skip
_FIELDS = {
    "n": Field("n", integer(optional=True)),
    "s": Field("s", STRING.or_null()),
    "f": Field("f", DOUBLE.or_null()),
    "b": Field("b", BOOLEAN.or_null()),
}


@settings(max_examples=examples(400))
@given(_EXPRESSIONS, _ROWS)
@example(~f("n").isin(pa.array([1])), [{"n": None, "s": None, "f": None, "b": None}])
def test_the_rows_are_those_of_arrow(expression: pc.Expression, rows: list[dict[str, Any]]) -> None:
    text = condition_of(expression, NAMES)
    if text is None:
        return
    condition = parse(text, _FIELDS)
    assert condition.type.kind is Kind.BOOLEAN
    evaluate = compile_expression(condition)
    schema = pa.schema([(name, TYPES[name]) for name in rows[0]])
    numbered = pa.Table.from_pylist(rows, schema).append_column("row", pa.array(range(len(rows))))
    kept = numbered.filter(expression)["row"].to_pylist()
    assert [n for n, row in enumerate(rows) if evaluate(row) is True] == kept
