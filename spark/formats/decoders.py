"""Decoders: split the records of a raw topic into well-formed and malformed ones.

Decoding never fails and never drops a record. A malformed record has a ``reason`` and goes to the
dead-letter topic (``spark.sinks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark.event_time.bounds import EventTimeBounds
from spark.formats import strict_json
from spark.formats.records import MALFORMED, RECORD

# A longer word is an error in the text, and could become a key that Kafka does not accept.
MAX_WORD_CHARACTERS = 1000


def _anything(_: strict_json.Fields) -> str | None:
    return None


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


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Each value is one JSON object (RFC 8259) with the fields and types of ``schema``.

    Types are strict: ``"5"`` is not a number, and a number is not a string. Times are text such as
    ``2013-01-01T10:00:00Z``. Fields that the schema does not name are ignored. ``validate`` gets
    fields of the right types; it returns what is wrong with them, or None. Decoded rows also have
    the columns ``record`` of the record: by default all of ``RECORD``. Each one costs time, because
    it passes through Python.

    Python decodes one Arrow batch at a time. Spark's own JSON parser is lenient, and finding the
    errors that it accepts would cost more than parsing.
    """

    schema: StructType
    validate: Callable[[strict_json.Fields], str | None] = _anything
    event_time: EventTimeBounds | None = None
    record: tuple[str, ...] = tuple(RECORD.names)

    def __post_init__(self) -> None:
        if both := [name for name in self.schema.names if name in self.record]:
            rest = tuple(name for name in self.record if name not in both)
            raise ValueError(
                f"{both[0]} is a field of the schema and a column of the record. Without the "
                f"record's: JsonDecoder(…, record={rest})"
            )

    def well_formed(self, records: DataFrame) -> DataFrame:
        decode = partial(
            strict_json.well_formed,
            schema=self.schema,
            validate=self.validate,
            event_time=self.event_time,
            copied=self.record,
        )
        # The bounds of event times need the timestamp.
        columns = records.select(*dict.fromkeys([*self.record, "timestamp", "value"]))
        fields = [*(RECORD[name] for name in self.record), *self.schema]
        return columns.mapInArrow(decode, StructType(fields))

    def malformed(self, records: DataFrame) -> DataFrame:
        decode = partial(
            strict_json.malformed,
            schema=self.schema,
            validate=self.validate,
            event_time=self.event_time,
        )
        return records.mapInArrow(decode, MALFORMED)


class TextDecoder:
    """Each value is UTF-8 text. Decoded rows have the column ``text``, and those of ``RECORD``."""

    event_time = None

    def well_formed(self, records: DataFrame) -> DataFrame:
        return self._checked(records).where("reason IS NULL").select("text", *RECORD.names)

    def malformed(self, records: DataFrame) -> DataFrame:
        return self._checked(records).where("reason IS NOT NULL").select(*MALFORMED.names)

    def _checked(self, records: DataFrame) -> DataFrame:
        text = F.col("value").cast("string")
        # The look-behind keeps the search linear. In Java \\w is ASCII.
        too_long = text.rlike(rf"(?<![\w'])[\w']{{{MAX_WORD_CHARACTERS + 1}}}")
        reason = (
            F.when(F.col("value").isNull(), "value: null")
            .when(~F.is_valid_utf8(text), "value: not UTF-8")
            .when(too_long, f"value: a word of more than {MAX_WORD_CHARACTERS} characters")
        )
        return records.withColumns({"text": text, "reason": reason})
