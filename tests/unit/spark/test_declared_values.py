"""A value is of a declared type for the evaluator in Python if it is for Spark's decoder."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.expressions.types import parse_field_type
from model.expressions.values import reader
from model.rows.reader import DEBEZIUM, RowRule
from spark.derive.json_values import DeclaredJson
from spark.formats.batches import FIELDS, Rules, judged
from tests.support.spark import json_table
from tests.vectors import time_cases

ROWS = {
    "null_deletes": (RowRule(null_deletes=True), b"", b""),
    "flattened by Debezium": (RowRule(unwrap=DEBEZIUM), b"", b""),
    "in an envelope of Debezium": (RowRule(unwrap=DEBEZIUM), b'{"op":"c","after":', b"}"),
    "framed": (RowRule(is_framed=True), b"\0\0\0\0\1", b""),
}
"""By name: the rule, and what is before and after a row."""
TYPES = ["string?", "any?", "int?", "int? 0..59", "long?", "double?", "decimal(2)?", "decimal(14)?",
         "boolean?", "time?", "time? s", "time? ms", "time? us", "time? ns"]  # fmt: skip
_NUMBERS = (
    st.integers(-(2**63), 2**63 - 1)
    | st.integers(-100, 100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**6), 10**6).map(lambda number: number / 1000)
    | st.sampled_from([2**31 - 1, 2**31, 60, -0.0, 1e15, 2**64, 2**64 + 1, -(2**63) - 1])
    | st.sampled_from([9999999999999.99, 253402300799, 253402387199, 253402387200])
)
_VALUES = (
    _NUMBERS
    | st.booleans()
    | st.text(max_size=5)
    | st.sampled_from([*time_cases.GOOD, *time_cases.WITHOUT_ZONE, [], {}, ["x"], {"a": 1}])
)


@given(st.lists(_VALUES, min_size=1, max_size=20))
def test_both_read_the_same_values(values: list[object]) -> None:
    lines = [json.dumps({"x": value}).encode() for value in values]
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary())], names=["value"])
    for name in TYPES:
        of = parse_field_type(name)
        [found] = judged([batch], Rules(DeclaredJson((("x", of),))), ())
        read = reader(of)
        decoded = [None if row is None else row["x"] for row in _rows(found)]
        assert [read(json.loads(line)["x"]) for line in lines] == decoded, name


def _rows(found: pa.RecordBatch) -> list[dict[str, Any] | None]:
    fields = found.column(FIELDS)
    if pa.types.is_timestamp(fields.type.field("x").type):
        # numbers, because Python's datetime ends with the year 9999
        numbers = fields.field("x").cast(pa.int64()).to_pylist()
        return [{"x": number} for number in numbers]
    rows: list[dict[str, Any] | None] = fields.to_pylist()
    return rows


@pytest.mark.parametrize("rows", ROWS.values(), ids=list(ROWS))
def test_rows_of_the_table_of_cases(rows: tuple[RowRule, bytes, bytes]) -> None:
    """A row of a change, and one with a frame, has the fields of the row alone."""
    rule, before, after = rows
    for type_ in ("string", "double"):
        read = DeclaredJson((("v", parse_field_type(f"{type_}?")),), rule).decoder()
        for case in json_table.cases():
            if case.is_whole or case.name == "1,024 levels":
                continue
            outcome: json_table.Outcome
            try:
                outcome = read(before + case.value + after)
            except ValueError as error:
                outcome = str(error)
            assert json_table.is_outcome(outcome, case.outcomes[type_]), (case.name, outcome)
