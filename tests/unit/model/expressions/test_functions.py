"""The table of functions and operators is that of the docs."""

from __future__ import annotations

from pathlib import Path

from model.expressions.functions import FUNCTIONS, OPERATORS
from model.expressions.signatures.signature import Function

PAGE = Path(__file__).parents[4] / "docs" / "spark" / "derived-views.md"


def row(of: Function) -> str:
    return f"| `{of.form}` | {of.arguments} | {of.result} | {of.documentation} |"


def test_the_docs_have_the_table() -> None:
    lines = PAGE.read_text().splitlines()
    for table in (OPERATORS, FUNCTIONS):
        rows = [row(of) for of in table.values()]
        first = lines.index(rows[0])
        assert lines[first : first + len(rows) + 1] == [*rows, ""]


def test_a_form_is_how_its_function_is_called() -> None:
    assert all(of.form.startswith(f"{name}(") for name, of in FUNCTIONS.items())
