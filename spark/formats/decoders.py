"""Decoders: split the records of a raw topic into well-formed and malformed ones.

Decoding never fails and never drops a record. A malformed record has a ``reason`` and goes to the
dead-letter topic (``spark.sinks``).

A topic is a *stream* or a *table*, as in Kafka Streams. A record of a stream is an event, and one
with a null value is malformed. In a table (``is_table``), the newest record of a key is its row,
and a null value, a tombstone, deletes the row. ``spark.tables`` derives views from tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from spark.errors import JobError
from spark.event_time.bounds import EventTimeBounds
from spark.formats import batches
from spark.formats.batches import MAX_BYTES, Format, Rules, Validate
from spark.formats.records import DELETED, MALFORMED, RAW_RECORD, RECORD
from spark.formats.strict_json import JsonFormat

# A longer word is an error in the text, and could become a key that Kafka does not accept.
MAX_WORD_CHARACTERS = 1000


_TABLE_COLUMNS = ("key", "partition", "offset")


class Decoder(Protocol):
    """Splits RAW_RECORD rows into well-formed and malformed ones.

    ``event_time``: how far the event's time may be from the record's timestamp; None: any distance.
    """

    @property
    def event_time(self) -> EventTimeBounds | None: ...

    def well_formed(self, records: DataFrame) -> DataFrame:
        """The decoded fields of the well-formed records."""

    def malformed(self, records: DataFrame) -> DataFrame:
        """The other records, as MALFORMED rows."""


def is_table(decoder: Decoder) -> bool:
    """Whether the topic of the decoder is a table."""
    return bool(getattr(decoder, "is_table", False))


@dataclass(frozen=True, slots=True)
class FormatDecoder:
    """Each value is a record of a format, such as ``AvroFormat`` or ``ProtobufFormat``.

    Decoded rows have the columns ``record`` of the record (by default all of ``RECORD``; each one
    costs time) and those of the format. In a table they also have ``deleted``, and the fields may
    be null. ``validate`` gets the fields; it returns what is wrong with them, or None.
    ``key_format``: the format of keys, if views need more than their bytes. A record is malformed
    if its value has more than ``max_bytes`` bytes. The same limit holds for its key, if the rows
    have the key.

    Python decodes one Arrow batch at a time.
    """

    value: Format
    validate: Validate | None = None
    event_time: EventTimeBounds | None = None
    record: tuple[str, ...] = tuple(RECORD.names)
    key_format: Format | None = None
    is_table: bool = False
    max_bytes: int = MAX_BYTES

    def well_formed(self, records: DataFrame) -> DataFrame:
        rules = self._rules(records)
        names = [*dict.fromkeys([*self.record, *(_TABLE_COLUMNS if rules.is_table else ())])]
        copied = [RAW_RECORD[name] for name in names]
        if rules.is_table:
            names.append(DELETED.name)
            copied.append(DELETED)
            records = records.withColumn(DELETED.name, F.col("value").isNull())
        columns = _joined(copied, rules.columns)
        # Keys may be decoded, and the bounds of event times need the timestamp.
        needed = dict.fromkeys([*names, "key", "timestamp", "value"])
        if rules.key is None and "key" not in names:
            del needed["key"]
        decode = partial(batches.well_formed, rules=rules, copied=names)
        return records.select(*needed).mapInArrow(decode, columns)

    def malformed(self, records: DataFrame) -> DataFrame:
        return records.mapInArrow(partial(batches.malformed, rules=self._rules(records)), MALFORMED)

    def _rules(self, records: DataFrame) -> Rules:
        session = records.sparkSession
        key = None if self.key_format is None else self.key_format.bound(session)
        value = self.value.bound(session)
        time = None if self.event_time is None else self.event_time.field
        if time is not None and (
            time not in value.columns.names
            or not isinstance(value.columns[time].dataType, TimestampType)
        ):
            raise JobError(f"event_time: the rows have no column {time} of the type timestamp")
        has_keys = key is not None or self.is_table or "key" in self.record
        return Rules(
            value, key, self.validate, self.event_time, self.is_table, self.max_bytes,
            self.max_bytes if has_keys else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Each value is one JSON object (RFC 8259) with the fields and types of ``schema``.

    Types are strict: ``"5"`` is not a number, and a number is not a string. Times are text such as
    ``2013-01-01T10:00:00Z``, in all forms of ``model.times.parse_instant``. Fields that the schema
    does not name are ignored. The rest is as in ``FormatDecoder``, with ``MAX_BYTES``.

    Spark's own JSON parser is lenient, and finding the errors that it accepts would cost more than
    parsing.
    """

    schema: StructType
    validate: Validate | None = None
    event_time: EventTimeBounds | None = None
    record: tuple[str, ...] = tuple(RECORD.names)
    is_table: bool = False

    def __post_init__(self) -> None:
        if both := [name for name in self.schema.names if name in self.record]:
            rest = tuple(name for name in self.record if name not in both)
            raise ValueError(
                f"{both[0]} is a field of the schema and a column of the record. Without the "
                f"record's: JsonDecoder(…, record={rest})"
            )

    def well_formed(self, records: DataFrame) -> DataFrame:
        return self._decoder().well_formed(records)

    def malformed(self, records: DataFrame) -> DataFrame:
        return self._decoder().malformed(records)

    def _decoder(self) -> FormatDecoder:
        return FormatDecoder(
            JsonFormat(self.schema),
            self.validate,
            self.event_time,
            self.record,
            is_table=self.is_table,
        )


class TextDecoder:
    """Each value is UTF-8 text. Decoded rows have the column ``text``, and those of ``RECORD``.

    A record whose key or text has more than ``max_bytes`` is malformed. A view that writes whole
    texts needs this bound: as JSON they can have six times as many bytes, and Kafka rejects a
    record of more than 1 MiB.
    """

    event_time = None

    def __init__(self, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes

    def __repr__(self) -> str:
        # This text is part of a view's rule. Earlier checkpoints have a decoder without a bound.
        if self.max_bytes is None:
            return super().__repr__()
        return f"TextDecoder(max_bytes={self.max_bytes})"

    def well_formed(self, records: DataFrame) -> DataFrame:
        return self._checked(records).where("reason IS NULL").select("text", *RECORD.names)

    def malformed(self, records: DataFrame) -> DataFrame:
        return self._checked(records).where("reason IS NOT NULL").select(*MALFORMED.names)

    def _checked(self, records: DataFrame) -> DataFrame:
        text = F.col("value").cast("string")
        # The look-behind keeps the search linear. In Java \\w is ASCII.
        too_long = text.rlike(rf"(?<![\w'])[\w']{{{MAX_WORD_CHARACTERS + 1}}}")
        reason = F.when(F.col("value").isNull(), "value: null")
        if self.max_bytes is not None:
            for name in ("key", "value"):
                is_long = F.octet_length(name) > self.max_bytes
                reason = reason.when(is_long, f"{name}: more than {self.max_bytes} bytes")
        reason = reason.when(~F.is_valid_utf8(text), "value: not UTF-8").when(
            too_long, f"value: a word of more than {MAX_WORD_CHARACTERS} characters"
        )
        return records.withColumns({"text": text, "reason": reason})


def _joined(copied: list[StructField], columns: StructType) -> StructType:
    """The columns of decoded rows. Raises ``JobError`` if two have the same name."""
    joined = StructType([*copied, *columns])
    lower = [name.lower() for name in joined.names]
    for name in columns.names:
        if lower.count(name.lower()) > 1:
            raise JobError(
                f"field {name}: the rows have another column of this name. Leave out columns of "
                "the record: record=(…). Or put the fields into one column: column=…"
            )
    return joined
