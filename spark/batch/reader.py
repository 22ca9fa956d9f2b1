"""Reads a view back as a DataFrame: one task and one stream for each partition.

The rows are not a snapshot: each one has the value that the view had when the row was read. If a
stream breaks, the client resumes it. If a task fails, Spark repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
)

from model.formats.format import PythonForm, document
from model.formats.registry import format_of
from model.kinds.registry import kind_of
from queryable.client.protocol.answers import Unreadable
from queryable.client.protocol.errors import QueryableError
from queryable.client.protocol.views import View
from queryable.client.sync_client import Client
from spark.batch.encoder import KEY, VALUE
from spark.errors import JobError

_BATCH = 2_000  # rows
_TIMES = {"keys": (), "windows": ("start", "end", "sequence"), "sessions": ("start", "end")}
_TYPES: dict[type, DataType] = {
    int: LongType(), float: DoubleType(), str: StringType(), bytes: BinaryType()
}  # fmt: skip


@dataclass(frozen=True)
class RemoteView:
    """A view, and how to read it. `url`: the URL of the proxy or of a backend. `token_file`: a file
    with the token. `stale`: allow, never, or None."""

    url: str
    view: str
    token_file: str | None = None
    stale: str | None = None

    def client(self) -> Client:
        return Client(self.url, token_file=self.token_file)

    def describe(self) -> View:
        """The view, as the deployment describes it. Raises JobError."""
        try:
            with self.client() as client:
                view = client.view(self.view)
        except QueryableError as e:
            raise JobError(f"view {self.view} cannot be read at {self.url}: {e}") from None
        if kind_of(view.store).resource not in _TIMES:
            raise JobError(f"view {self.view} has a custom store, which answers reads by key only")
        return view


def schema_of(view: View) -> StructType:
    """`key`, the times of windows and sessions, and `value`. JSON documents are text."""
    schema = StructType().add(KEY, _type_of(view.key.python))
    for name in _TIMES[kind_of(view.store).resource or ""]:
        schema = schema.add(name, LongType())
    return schema.add(VALUE, _type_of(format_of(view.value.name).python))


def _type_of(form: PythonForm) -> DataType:
    types = (_TYPES[python_type] for python_type in form.types if python_type in _TYPES)
    return next(types, StringType())


@dataclass
class ViewPartition(InputPartition):
    """A partition of the view. None means all partitions, if a key may be in several."""

    number: int | None


class ViewReader(DataSourceReader):
    """Reads the partitions of one view."""

    def __init__(self, remote: RemoteView, schema: StructType) -> None:
        self._remote = remote
        self._schema = schema

    def partitions(self) -> list[ViewPartition]:
        view = self._remote.describe()
        with self._remote.client() as client:
            try:
                for _ in _rows(client, self._remote, view, 0, limit=1):
                    break
            except QueryableError as e:
                if e.code == "mis-partitioned":
                    return [ViewPartition(None)]
                raise JobError(f"view {view.name} cannot be read: {e}") from None
        if view.partitions is None:
            raise JobError(f"the partitions of topic {view.topic} are not known yet: try again")
        return [ViewPartition(number) for number in range(view.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number = cast(ViewPartition, partition).number
        view = self._remote.describe()
        schema = to_arrow_schema(self._schema)
        with self._remote.client() as client:
            rows = iter(_rows(client, self._remote, view, number))
            while batch := list(islice(rows, _BATCH)):
                _refuse_unreadable(view, batch)
                yield self._batch(view, batch, schema)

    def _batch(self, view: View, rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
        entry_columns = (KEY, VALUE, *_TIMES[kind_of(view.store).resource or ""])
        columns = []
        for field in schema:
            if field.name in entry_columns:
                values = [getattr(row, field.name) for row in rows]
            else:  # a field of a JSON value
                values = [_field(row.value, field.name) for row in rows]
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                values = [_text(value) for value in values]
            try:
                columns.append(pa.array(values, field.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
                raise JobError(
                    f"the column {field.name} of view {view.name} is not {field.type}: {e}"
                ) from None
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows(
    client: Client, remote: RemoteView, view: View, partition: int | None, limit: int | None = None
) -> Iterable[Any]:
    options: Any = {
        "partition": partition, "stream": True, "limit": limit, "stale": remote.stale
    }  # fmt: skip
    resource = kind_of(view.store).resource
    if resource == "windows":
        return client.windows(view.name, **options)
    if resource == "sessions":
        return client.sessions(view.name, **options)
    return client.scan(view.name, **options)


def _refuse_unreadable(view: View, rows: Iterable[Any]) -> None:
    """Raise JobError if a value is not in the view's format, because no column could hold it."""
    for row in rows:
        if isinstance(row.value, Unreadable):
            raise JobError(
                f"view {view.name} has a value that cannot be read: key {row.key!r}, at offset "
                f"{row.value.offset} of partition {row.value.partition} of topic {view.topic}: "
                f"{row.value.reason}. Write the key again, or delete it"
            )


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    """The value of a column of strings: text, or a JSON document."""
    return value if value is None or isinstance(value, str) else document(value).decode()
