"""SQL over several views, run by DuckDB in this process."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from queryable.client.arrow.dataset import Scan, UnreadableRows, ViewDataset
from queryable.client.dataframes import polars_of
from queryable.client.methods import SyncRunner
from queryable.client.protocol.errors import BadUse, NotFound, QueryableError
from queryable.client.protocol.parameters import Stale

# a statement reads views, and nothing else of this machine
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
}


@dataclass
class LocalRows:
    """The rows of a statement. `scans`: what was read of each view, one for each time that it
    was read."""

    table: pa.Table = field(repr=False)
    scans: dict[str, list[Scan]]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_list(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        return polars_of(self.table)


def local_sql(
    client: SyncRunner,
    statement: str,
    parameters: Sequence[Any],
    stale: Stale | None,
    timeout: float | None,
) -> LocalRows:
    """The rows of a statement whose tables are views. Raises BadUse, and what scans raise."""
    scans: dict[str, list[Scan]] = {}
    errors: list[QueryableError] = []
    with duckdb.connect(config=_SETTINGS) as database, warnings.catch_warnings():
        # threads of DuckDB would raise a warning that is an error; `scans` has the number
        warnings.simplefilter("ignore", UnreadableRows)
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result")  # one more copy
        try:
            for name in _views_in(database, statement):
                scans[name] = []
                dataset = ViewDataset(
                    client, name, stale=stale, timeout=timeout,
                    on_scan=scans[name].append, on_error=errors.append,
                )  # fmt: skip
                database.register(name, dataset)
            # not `sql`, which takes no parameters for most statements
            table = database.execute(statement, list(parameters)).to_arrow_table()
        except duckdb.Error as e:
            if errors:
                raise errors[0] from None
            raise BadUse(f"DuckDB: {e}") from None
        except NotFound as e:
            raise BadUse(f"The tables of a statement are views: {e}") from None
    return LocalRows(table, scans)


def _views_in(database: duckdb.DuckDBPyConnection, statement: str) -> list[str]:
    """The names of tables. Raises BadUse if it is not one query."""
    try:
        statements = database.extract_statements(statement)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise BadUse("A statement is one select.")
        return sorted(database.get_table_names(_without_parameters(statement)))
    except duckdb.ParserException as e:
        hint = ' A name with - is in quotes: "latest-departure".' if "-" in statement else ""
        raise BadUse(f"DuckDB: {e}.{hint}") from None


def _without_parameters(statement: str) -> str:
    """The statement with null instead of each ?, because DuckDB names the tables of such statements
    alone."""
    text = statement.encode()
    for offset, _ in reversed(duckdb.tokenize(statement)):
        if text[offset : offset + 1] == b"?":
            text = text[:offset] + b"null" + text[offset + 1 :]
    return text.decode()
