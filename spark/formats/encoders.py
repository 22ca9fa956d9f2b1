"""Keys and values of view topics in formats with a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType

from spark.formats.registry import Registry, registry_of


class Encodable(Protocol):
    """A format that also writes: ``AvroFormat`` or ``ProtobufFormat``."""

    @property
    def is_framed(self) -> bool: ...

    @property
    def registry(self) -> Registry | None: ...

    @property
    def value_type(self) -> DataType: ...

    def encoder(self) -> Callable[[Any], bytes]:
        """A function from a Python value to record bytes; it raises ValueError."""

    def registered(self, registry: Registry, subject: str) -> bytes:
        """Registers the schema, and returns what precedes each record. Raises ``JobError``."""


def encoded(value: Column, encodable: Encodable, *, subject: str = "") -> Column:
    """The bytes of a key or value: binary, null if ``value`` is null, which deletes the key.

    ``value`` has the fields of the schema, by name: ``F.struct("city", "count")``. The query fails
    if a field is missing, has another type, or is null although it must not be: no later record
    could be right.

    If the format is framed, the driver registers the schema under ``subject``, such as
    ``orders-value``, each time a query starts. A registry that already has the schema returns the
    same id.
    """
    # Fails now if the schema cannot be used.
    _ = encodable.value_type
    prefix = b""
    if encodable.is_framed:
        if not subject:
            raise ValueError(
                "a framed format needs the subject of its schema, such as orders-value"
            )
        prefix = encodable.registered(encodable.registry or _registry(), subject)

    def encode(values: pa.Array) -> pa.Array:
        write = encodable.encoder()
        rows = values.to_pylist(maps_as_pydicts="strict")
        # fails if a type differs, or an integer is too long
        pa.array(rows, to_arrow_type(encodable.value_type, timezone="UTC"))
        return pa.array([None if row is None else prefix + write(row) for row in rows], pa.binary())

    encode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    make: Any = arrow_udf  # its type hints are too narrow
    column: Column = make(encode, BinaryType())(value)
    return column


def _registry() -> Registry:
    return registry_of(SparkSession.active())
