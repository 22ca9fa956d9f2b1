"""Rows as DataFrames (pandas, Polars) and Arrow tables: `pip install '.[frames]'` in a checkout.

Each field of a row (`key`, `start`, …) becomes a column. A value that is an object becomes one
column per field, named `value.<field>` where a row has a field of the same name; any other value
becomes the column `value`. In pandas, whole numbers next to missing values are `Int64`, and those
that a float would round stay Python's. An Arrow column has one type, and UUIDs become text. Values
that do not fit raise BadUse. If some values cannot be read, the column `unreadable` has the
reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from model.machine.extras import how_to_install
from queryable.client.protocol.answers import Unreadable
from queryable.client.protocol.errors import BadUse

_UNREADABLE = "unreadable"
_EXACT = 2**53
"""Floats have all whole numbers up to this one."""


def records(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """One dictionary per row."""
    result = []
    has_unreadable = any(isinstance(row.value, Unreadable) for row in rows)
    for row in rows:
        record: dict[str, Any] = row._asdict()
        value = record["value"]
        names = {*row._fields, *([_UNREADABLE] if has_unreadable else [])}
        if isinstance(value, Unreadable):
            record["value"], record[_UNREADABLE] = None, value.reason
        elif isinstance(value, dict):
            del record["value"]
            for name, field in value.items():
                record[f"value.{name}" if name in names else name] = field
        result.append(record)
    return result


def to_pandas(rows: Sequence[Any]) -> Any:
    try:
        import pandas
    except ImportError:
        raise _missing("pandas") from None
    dicts = records(rows)
    frame = pandas.DataFrame.from_records(dicts)
    for name in frame.columns:
        cells = [record.get(name) for record in dicts]
        if (dtype := _exact_dtype(cells)) is not None:
            frame[name] = pandas.Series(cells, dtype=dtype, index=frame.index)
    return frame


def _exact_dtype(cells: Sequence[Any]) -> str | None:
    """The type of a column whose integers pandas would convert to floats, because other cells are
    missing or floats; None if it keeps them."""
    present = [cell for cell in cells if cell is not None]
    integers = [cell for cell in present if type(cell) is int]
    if not integers:
        return None
    smallest, greatest = min(integers), max(integers)
    if len(integers) < len(present):
        return "object" if max(-smallest, greatest) > _EXACT else None
    if len(present) == len(cells):
        return None if smallest >= -(2**63) and greatest < 2**63 else "object"
    if smallest >= -(2**63) and greatest < 2**63:
        return "Int64"
    return "UInt64" if smallest >= 0 and greatest < 2**64 else "object"


def to_arrow(rows: Sequence[Any]) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise _missing("pyarrow") from None
    dicts = [{name: _arrow_cell(cell) for name, cell in row.items()} for row in records(rows)]
    # not Table.from_pylist: it takes the columns from the first row
    names = list(dict.fromkeys(name for record in dicts for name in record))
    columns = {}
    for name in names:
        try:
            columns[name] = pyarrow.array([record.get(name) for record in dicts])
        except (pyarrow.ArrowException, OverflowError) as e:
            raise BadUse(f"Column {name} cannot be an Arrow column of one type: {e}.") from None
    return pyarrow.table(columns)


def to_polars(rows: Sequence[Any]) -> Any:
    return polars_of(to_arrow(rows))


def polars_of(table: Any) -> Any:
    """An Arrow table as a polars.DataFrame. Raises BadUse without polars."""
    try:
        import polars
    except ImportError:
        raise BadUse("This requires polars: pip install polars") from None
    return polars.from_arrow(table)


def _arrow_cell(cell: Any) -> Any:
    return str(cell) if isinstance(cell, UUID) else cell


def _missing(package: str) -> BadUse:
    return BadUse(f"This requires {package}. {how_to_install('frames')}")
