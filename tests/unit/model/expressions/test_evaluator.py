"""The evaluator in Python, by the table of cases that Spark runs as well."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.expressions.casts import CASTS
from model.expressions.evaluator import compile_expression
from model.expressions.functions import FUNCTIONS, OPERATORS
from model.expressions.parser import MAX_LEVELS, parse
from model.expressions.tree import Call, nodes
from tests.vectors.expression_cases import CASES, DECLARED, NAMES, PARTITION, ROW, Case


def _value(case: Case) -> object:
    row = {**ROW, "record_partition": PARTITION, **case.given}
    return compile_expression(parse(case.text, NAMES))(row)


def test_the_table_of_cases() -> None:
    values = [(case, _value(case)) for case in CASES]
    assert [
        (str(case), value)
        for case, value in values
        if value != case.value or type(value) is not type(case.value)
    ] == []


def test_the_table_has_all_functions_and_operators() -> None:
    used = {
        part.function
        for case in CASES
        for part in nodes(parse(case.text, NAMES))
        if isinstance(part, Call)
    }
    assert used == FUNCTIONS.keys() | OPERATORS.keys() | set(CASTS)


def test_a_deep_expression() -> None:
    """Python's source has fewer levels of indentation than an expression may have."""
    deep = parse("word", NAMES)
    for _ in range((MAX_LEVELS - 2) // 2):
        deep = parse("if(small = 1, word, coalesce(nothing, deep))", {**NAMES, "deep": deep})
    evaluate = compile_expression(deep)
    assert evaluate(ROW) == ROW["word"]
    assert evaluate({**ROW, "small": 1}) == ROW["word"]
    assert evaluate({**ROW, "nothing": "x"}) == "x"
    condition = parse("flag", NAMES)
    for text in ["unknown or deep", "flag and deep"] * ((MAX_LEVELS - 2) // 2):
        condition = parse(text, {**NAMES, "deep": condition})
    evaluate = compile_expression(condition)
    assert evaluate(ROW) is True
    assert evaluate({**ROW, "flag": False}) is False


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
)


@given(st.dictionaries(st.sampled_from(sorted(DECLARED)), _ANYTHING))
def test_no_value_makes_an_expression_fail(row: dict[str, object]) -> None:
    for evaluate in _compiled():
        evaluate(row)


@functools.cache
def _compiled() -> list[Callable[[Mapping[str, Any]], object]]:
    return [compile_expression(parse(text, NAMES)) for text in {case.text for case in CASES}]


def test_no_text_of_a_client_is_in_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []

    def run(source: str, made: dict[str, object]) -> None:
        sources.append(source)
        exec(source, made)

    monkeypatch.setattr("model.expressions.evaluator.exec", run, raising=False)
    parsed = parse(
        "word in ('q7z') or word like 'q7z%' or small + 717 > 7.17 or nothing = 'q7z'", NAMES
    )
    assert compile_expression(parsed)({"word": "q7z"}) is True
    [source] = sources
    assert not any(text in source for text in ("q7z", "717", "7.17", "word", "small", "nothing"))
