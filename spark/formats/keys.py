"""The bytes of record keys and values, in the layouts of Kafka's serializers and Kafka Streams.

Integers are big-endian; times are ms since 1970. Backends read them with ``model.kinds.layout``.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def int64(number: Column) -> Column:
    """8 bytes, like those of Kafka's LongSerializer."""
    # In ANSI mode a number cannot be cast to binary.
    return F.unhex(F.lpad(F.hex(number), 16, "0"))


def window_key(key: Column, start: Column) -> Column:
    """``key · start (8 B) · sequence (4 B, 0)``. In a time series ``start`` is the event's time."""
    return F.concat(key.cast("binary"), int64(start), F.unhex(F.lit("00000000")))


def session_key(key: Column, start: Column, end: Column) -> Column:
    """``key · end (8 B) · start (8 B)``."""
    return F.concat(key.cast("binary"), int64(end), int64(start))
