"""Rows as tables of pandas and Arrow: `pip install 'queryable-topics[frames]'`.

A column a field of the row (`key`, `start`, …); a value that is an object has a column a field, a
field of that name twice is `value.field`; any other value is the column `value`. Arrow has one type
a column, and UUIDs as text: what does not fit is BadUse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from queryable.core.errors import BadUse


def records(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """A row a dictionary."""
    found = []
    for row in rows:
        record: dict[str, Any] = row._asdict()
        value = record["value"]
        if isinstance(value, dict):
            del record["value"]
            for name, field in value.items():
                record[f"value.{name}" if name in row._fields else name] = field
        found.append(record)
    return found


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
    of_rows = [{name: _plain(cell) for name, cell in row.items()} for row in records(rows)]
    # by default the first row alone would say which columns there are
    names = list(dict.fromkeys(name for record in of_rows for name in record))
    columns = {}
    for name in names:
        try:
            columns[name] = pyarrow.array([record.get(name) for record in of_rows])
        except (pyarrow.ArrowException, OverflowError) as e:
            raise BadUse(
                f"Column {name} has values that Arrow does not take as one type: {e}."
            ) from None
    return pyarrow.table(columns)


def _plain(cell: Any) -> Any:
    return str(cell) if isinstance(cell, UUID) else cell


def _missing(package: str) -> BadUse:
    return BadUse(f"This needs {package}: pip install 'queryable-topics[frames]'.")
