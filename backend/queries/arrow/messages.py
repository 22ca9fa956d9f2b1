"""The messages of an Arrow stream: the schema, record batches, and the end.

    https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format

A stream that is cut between two messages is read by most libraries as if it were complete. So the
last batch has no rows, and metadata with what the whole stream has.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import pyarrow as pa

END = b"queryable.end"
"""The name in the metadata of the last batch. Its value is JSON: `rows`, the number of rows of the
stream, and `positions`, those of the partitions that were read, by their numbers."""

_COUNT = 8  # bytes of the number of rows before a batch, between instances
_LAST = 8  # bytes of the mark that ends a stream
# in the caller's thread: batches are small, and Arrow's own threads would compete with reads
_WRITE = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def schema_message(schema: pa.Schema) -> bytes:
    return _stream(schema)[:-_LAST]


def batch_part(batch: pa.RecordBatch) -> bytes:
    """A batch as instances send it: the number of its rows (8 B) and its message."""
    skipped = len(schema_message(batch.schema))
    message, rows = _stream(batch.schema, batch)[skipped:-_LAST], int(batch.num_rows)
    return rows.to_bytes(_COUNT, "little") + message


def message_in(part: bytes, schema: pa.Schema, most: int | None) -> tuple[bytes, int]:
    """The message of a part, cut to `most` rows, and the number of its rows. Raises ValueError if
    it is none."""
    rows, message = int.from_bytes(part[:_COUNT], "little"), part[_COUNT:]
    if not message:
        raise ValueError("a part of a stream without a batch")
    if most is None or rows <= most:
        return message, rows
    whole = pa.ipc.open_stream(schema_message(schema) + message, options=_READ)
    batch: pa.RecordBatch = whole.read_next_batch()
    return batch_part(batch.slice(0, most))[_COUNT:], most


def end_messages(schema: pa.Schema, rows: int, positions: Mapping[int, int]) -> bytes:
    """The last batch, and the mark that ends the stream."""
    by_partition = {str(partition): positions[partition] for partition in sorted(positions)}
    whole = {END: orjson.dumps({"rows": rows, "positions": by_partition})}
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    return _stream(schema, empty, whole)[len(schema_message(schema)) :]


def _stream(
    schema: pa.Schema,
    batch: pa.RecordBatch | None = None,
    metadata: Mapping[bytes, bytes] | None = None,
) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_WRITE) as writer:
        if batch is not None:
            writer.write_batch(batch, custom_metadata=metadata)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole
