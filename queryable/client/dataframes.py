"""Rows as pandas DataFrames and Arrow tables: `pip install 'queryable-topics[frames]'`.

Each field of a row (`key`, `start`, …) becomes a column. A value that is an object becomes one
column per field, named `value.<field>` where a row has a field of the same name; any other value
becomes the column `value`. An Arrow column has one type, and UUIDs become text. Values that do not
fit raise BadUse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from queryable.client.protocol.errors import BadUse


def records(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """One dictionary per row."""
    result = []
    for row in rows:
        record: dict[str, Any] = row._asdict()
        value = record["value"]
        if isinstance(value, dict):
            del record["value"]
            for name, field in value.items():
                record[f"value.{name}" if name in row._fields else name] = field
        result.append(record)
    return result


def to_pandas(rows: Sequence[Any]) -> Any:
    try:
        import pandas
    except ImportError:
        raise _missing("pandas") from None
    return pandas.DataFrame.from_records(records(rows))


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


def _arrow_cell(cell: Any) -> Any:
    return str(cell) if isinstance(cell, UUID) else cell


def _missing(package: str) -> BadUse:
    return BadUse(f"This requires {package}: pip install 'queryable-topics[frames]'.")
