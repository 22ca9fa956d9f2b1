"""Rows as DataFrames and Arrow tables: columns, and values that Arrow rejects."""

from __future__ import annotations

from uuid import UUID

import pytest

from queryable import BadUse, Entry, Window
from queryable.client.dataframes import records, to_arrow, to_pandas, to_polars

ID = UUID(int=7)


def test_fields_of_values_become_columns() -> None:
    rows = [Window("a", 1, 2, 0, {"start": 9, "n": 1}), Window("b", 1, None, 0, {"m": None})]
    assert records(rows)[0] == {
        "key": "a", "start": 1, "end": 2, "sequence": 0, "value.start": 9, "n": 1,
    }  # fmt: skip
    table = to_arrow(rows)
    assert table.column_names == ["key", "start", "end", "sequence", "value.start", "n", "m"]
    assert table["n"].to_pylist() == [1, None]
    assert list(to_pandas(rows)["key"]) == ["a", "b"]
    assert to_polars(rows).rows() == [tuple(row.values()) for row in table.to_pylist()]


def test_values_of_every_format() -> None:
    rows = [Entry(ID, 0.5), Entry(ID, float("nan"))]
    assert to_arrow(rows)["key"].to_pylist() == [str(ID)] * 2
    assert list(to_pandas(rows)["key"]) == [ID, ID]
    assert to_arrow([Entry(b"\0", b"\xff")])["value"].to_pylist() == [b"\xff"]
    assert to_arrow([]).num_rows == len(to_pandas([])) == 0


@pytest.mark.parametrize("values", [(1, "one"), (2**70,)])
def test_values_that_arrow_rejects_are_bad_use_with_the_column(values: tuple[object, ...]) -> None:
    rows = [Entry("a", {"n": value}) for value in values]
    with pytest.raises(BadUse, match="Column n"):
        to_arrow(rows)
    assert list(to_pandas(rows)["n"]) == list(values)


BIG = 2**53 + 1  # no float has this value


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((BIG, None), "Int64"), ((1, None), "Int64"), ((2**63, None), "UInt64"),
        ((2**70, None), "object"), ((-1, 2**63), "object"), ((-1, 2**63, None), "object"),
        ((BIG, 0.5), "object"), ((BIG, 0.5, None), "object"), ((BIG, "a"), "object"),
        ((1, 2), "int64"), ((BIG,), "int64"), ((1.5, None), "float64"), ((1, 0.5), "float64"),
        ((True, None), "object"),
    ],
)  # fmt: skip
def test_whole_numbers_are_exact_in_pandas(values: tuple[object, ...], dtype: str) -> None:
    rows = [Entry("a", {"n": value}) for value in values]
    rows += [Entry("b", {"m": 1})] if None in values else []  # a field that is missing
    column = to_pandas(rows)["n"]
    assert str(column.dtype) == dtype
    found = [cell for cell, is_missing in zip(column, column.isna(), strict=True) if not is_missing]
    assert found == [value for value in values if value is not None]


def test_an_end_that_is_missing_rounds_no_other() -> None:
    rows = [Window("a", 0, BIG, 0, 1), Window("b", 0, None, 0, 1)]
    assert to_pandas(rows)["end"].iloc[0] == BIG
