"""A view as a `pyarrow.dataset.Dataset`, for DuckDB, Polars, DataFusion and pyarrow itself.

A scan is one request, with the columns and, as far as it is understood, the filter of the reader.
The stream of a request can be read once, so each scan opens another.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from queryable.client.arrow.calls import close_columns, open_columns, read_columns
from queryable.client.arrow.conditions import condition_of
from queryable.client.methods import SyncRunner
from queryable.client.protocol.answers import Source
from queryable.client.protocol.errors import BadUse, NoAnswer, QueryableError
from queryable.client.protocol.parameters import Stale

_NAME, _JSON = b"queryable.name", b"queryable.json"
_END = b"queryable.end"
_UNREADABLE = "unreadable"
_OF_ENTRIES = frozenset({"key", "start", "end", "sequence", "record_timestamp"})
"""Columns that are there without `select`."""


class UnreadableRows(UserWarning):
    """The values of some rows cannot be read, so their fields are null."""


@dataclass
class Scan:
    """What a scan has read. `where`: the condition that was sent. `source`: the plan, and how fresh
    the rows are. `positions`: the rows include all records before, by partition; None until the end
    of the stream."""

    where: str | None
    source: Source
    rows: int = 0
    bytes: int = 0
    unreadable: int = 0
    positions: Mapping[int, int] | None = None


class ViewDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of a view. `last_scan`: of the scan that was opened last. `on_scan` is called with
    each scan when it is opened, and `on_error` with an error that another program gets."""

    def __init__(
        self,
        client: SyncRunner,
        view: str,
        *,
        where: str | None = None,
        timestamps: bool = False,
        stale: Stale | None = None,
        timeout: float | None = None,
        on_scan: Callable[[Scan], None] = lambda _: None,
        on_error: Callable[[QueryableError], None] = lambda _: None,
    ) -> None:
        # the base class has nothing to initialise in a class of Python's, and refuses to try
        self._client, self._view, self._where = client, view, where
        self._more: dict[str, Any] = {"timestamps": timestamps, "stale": stale, "timeout": timeout}
        self._on_scan, self._on_error = on_scan, on_error
        self.last_scan: Scan | None = None
        reader, body = self._open(None, None, is_probe=True)
        body.close()
        self._schema: pa.Schema = reader.schema
        self._names = {
            field.name: (field.metadata[_NAME].decode(), field.type)
            for field in self._schema
            if field.metadata and _NAME in field.metadata
        }
        self._compared = {
            name: found
            for name, found in self._names.items()
            if _JSON not in self._schema.field(name).metadata
        }

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def __reduce__(self) -> Any:
        raise TypeError("A dataset of a view belongs to the client that made it.")

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:
        raise BadUse("A view has no fragments: read its dataset as a whole.")

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """As of the base class. Other options are ignored. All batches are filtered here, even if
        the view was asked with a condition."""
        where = self._where
        sent = None if filter is None else condition_of(filter, self._compared)
        if sent is not None:
            where = sent if where is None else f"({where}) and {sent}"
        reader, body = self._open(self._selected(columns, filter), where)
        self.last_scan = body.scan
        self._on_scan(body.scan)
        batches = self._batches(reader, body)
        return ds.Scanner.from_batches(
            batches, schema=reader.schema, columns=columns, filter=filter
        )

    def _selected(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None,
        filter: pc.Expression | None,
    ) -> list[str] | None:
        """`select` for the columns and the filter of a scan; None for all fields."""
        if columns is None:
            return None
        computed = columns.values() if isinstance(columns, Mapping) else ()
        # an expression has the names of its columns in its text
        texts = [str(part) for part in (*computed, *(() if filter is None else (filter,)))]
        fields = [name for name in self._names if name not in _OF_ENTRIES]
        named = set(() if isinstance(columns, Mapping) else columns)
        used = [name for name in fields if name in named or any(name in text for text in texts)]
        # at least one: without `select`, there are all
        return [self._names[name][0] for name in used or fields[:1]] or None

    def _open(
        self, select: Sequence[str] | None, where: str | None, is_probe: bool = False
    ) -> tuple[pa.RecordBatchStreamReader, _Body]:
        body = _Body(self._client, self._view, where, select or (), is_probe, self._more)
        try:
            return pa.ipc.open_stream(io.BufferedReader(body, 1 << 16)), body
        except pa.ArrowInvalid as e:
            body.close()
            raise NoAnswer(f"The stream of {self._view} cannot be read: {e}") from None

    def _batches(self, reader: pa.RecordBatchStreamReader, body: _Body) -> Iterator[pa.RecordBatch]:
        """The batches of a complete stream. Raises NoAnswer if it was cut, which Arrow does not
        notice."""
        scan = body.scan
        try:
            while True:
                try:
                    batch, metadata = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                if metadata is not None and _END in metadata:
                    end = json.loads(metadata[_END])
                    if end["rows"] == scan.rows:
                        scan.positions = {int(p): at for p, at in end["positions"].items()}
                    continue
                scan.rows += batch.num_rows
                scan.unreadable += batch.num_rows - batch.column(_UNREADABLE).null_count
                yield batch
            if scan.positions is None:
                raise NoAnswer(f"The stream of {self._view} ends before its end. Read it again.")
        except QueryableError as e:
            self._on_error(e)
            raise
        finally:
            body.close()
        if scan.unreadable:
            warnings.warn(
                f"The values of {scan.unreadable} rows of {self._view} cannot be read, so their "
                f"fields are null: see the column {_UNREADABLE}.",
                UnreadableRows,
                stacklevel=2,
            )


class _Body(io.RawIOBase):
    """The body of an Arrow stream as a file. `scan`: counts what is read."""

    def __init__(
        self,
        client: SyncRunner,
        view: str,
        where: str | None,
        select: Sequence[str],
        is_probe: bool,
        more: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self._client = client
        call = open_columns(
            client._context, view, where=where, select=select, is_probe=is_probe, **more
        )
        self._stream, source = client._run(call)
        self.scan = Scan(where, source)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self._left:
            chunk = self._client._run(read_columns(self._stream))
            self.scan.bytes += len(chunk)
            self._left = memoryview(chunk)
        size = min(len(target), len(self._left))
        target[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            self._client._run(close_columns(self._stream))
        super().close()
