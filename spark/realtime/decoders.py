"""Decoders that need no Python workers, with the same results as ``spark.formats.decoders``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark.errors import JobError
from spark.event_time.bounds import EventTimeBounds
from spark.event_time.columns import violations
from spark.formats.batches import MAX_BYTES, REASON
from spark.formats.checks import Checks
from spark.formats.columns import column_named
from spark.formats.decoders import Decoder, JsonDecoder, TextDecoder
from spark.formats.records import MALFORMED
from spark.realtime.json_values import check_schema, decoded
from spark.view import View

_RAW = "#raw"


def without_python(view: View) -> View:
    """The view with decoders that need no Python workers. Raises ``JobError`` if there are none."""
    sources = []
    for source in view.inputs:
        if source.static:
            raise JobError(f"the source {source.topic} is static")
        try:
            sources.append(replace(source, decoder=in_jvm(source.decoder)))
        except JobError as error:
            raise JobError(f"the decoder of {source.topic}: {error}") from None
    return replace(view, source="", decoder=None, sources=tuple(sources))


def in_jvm(decoder: Decoder) -> Decoder:
    """A decoder that needs no Python workers. Raises ``JobError`` if there is none."""
    if isinstance(decoder, TextDecoder):
        return decoder
    if not isinstance(decoder, JsonDecoder):
        raise JobError(f"{type(decoder).__name__} needs Python")
    if decoder.is_table:
        raise JobError("is_table needs Python")
    if decoder.validate is not None and not isinstance(decoder.validate, Checks):
        raise JobError("validate is a Python function; use Checks of spark.formats.checks")
    check_schema(decoder.schema)
    return ColumnJsonDecoder(decoder.schema, decoder.validate, decoder.event_time, decoder.record)


@dataclass(frozen=True, slots=True)
class ColumnJsonDecoder:
    """A ``JsonDecoder`` made of columns. It rejects what ``JsonDecoder`` rejects, and what
    ``spark.realtime.json_values`` names."""

    schema: StructType
    checks: Checks | None
    event_time: EventTimeBounds | None
    record: tuple[str, ...]

    def well_formed(self, records: DataFrame) -> DataFrame:
        needed = dict.fromkeys([*self.record, "timestamp", "value"])
        rows = records.select(*(F.col(name).alias(_RAW + name) for name in needed))
        copied = (F.col(_RAW + name).alias(name) for name in self.record)
        accepted = self._checked(rows).where(F.isnull(REASON))
        return accepted.select(*copied, *(column_named(name) for name in self.schema.names))

    def malformed(self, records: DataFrame) -> DataFrame:
        rows = records.select(*(F.col(name).alias(_RAW + name) for name in records.columns))
        rejected = self._checked(rows).where(F.isnotnull(REASON))
        copied = (F.col(_RAW + name).alias(name) for name in records.columns)
        return rejected.select(*copied, F.col(REASON).alias("reason")).select(*MALFORMED.names)

    def _checked(self, rows: DataFrame) -> DataFrame:
        """Adds the fields and ``REASON``."""
        # Spark pushes no filter through `inline`, which would decode each record twice.
        decoded_rows = rows.select("*", F.inline(decoded(F.col(_RAW + "value"), self.schema)))
        reasons = [F.col(REASON)]
        if self.checks is not None:
            reasons.append(self.checks.column())
        if self.event_time is not None:
            time, timestamp = column_named(self.event_time.field), F.col(_RAW + "timestamp")
            checks = violations(self.event_time, time, timestamp)
            reasons += [F.when(wrong, why) for wrong, why in checks]
        if "key" in self.record:
            is_long = F.octet_length(_RAW + "key") > MAX_BYTES
            reasons.append(F.when(is_long, f"key: more than {MAX_BYTES} bytes"))
        return decoded_rows.withColumn(REASON, F.coalesce(*reasons))
