"""Checks whether rows and deletions among the sampled values are read as such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from model.derive.derivation import Derivation, Join
from model.formats.codec import Codec
from model.formats.frames import schema_id_of
from model.formats.registry import FORMATS
from model.formats.schema_registry import SchemaSourceUnavailable
from model.formats.schemas import CONFLUENT, SchemaSource
from model.problems import Unavailable
from model.rows.reader import RowRule
from model.toml_lines import view_table
from model.views import View
from queryable.cli.check.findings import Finding, warning
from queryable.cli.inspection.rows import infer_rows
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.schema_sources import FetchedSchemas

_MAX_SCHEMAS = 5


def check_rows(
    view: View, sample: Sequence[SampledRecord], schemas: SchemaSource | None = None
) -> Iterator[Finding]:
    """About the records of the view's topic. `schemas`: those that were fetched, if values name
    their schemas. Values whose schema was not fetched are left out."""
    codec = view.record_codec
    if not codec.is_document:
        return
    if codec.needs_schemas:
        codec = FORMATS[codec.name].codec_with(CONFLUENT, schemas)
    rule = RowRule(view.unwrap, bool(view.null_deletes))
    yield from _unread_rows(view, view.topic, rule, codec, sample, view_table(view.name))


def check_sources(
    view: View,
    topic: str,
    sample: Sequence[SampledRecord],
    schemas: FetchedSchemas | None = None,
) -> Iterator[Finding]:
    """About the records of a topic that the view is derived from. ``schemas``: waits for those that
    the values name."""
    derivation = view.derivation
    assert derivation is not None
    table = f"views.{view.name}.derive"
    if derivation.source == topic:
        where = f"[{table}]"
        codec = _codec_of_source(derivation, sample, schemas)
        yield from _unread_rows(view, topic, derivation.rows or RowRule(), codec, sample, where)
        if derivation.is_table:
            yield from _unread_keys(view, topic, derivation.key_fields, sample, where)
    for join in derivation.joins:
        if join.source == topic:
            where = f"[{table}.join.{join.name}]"
            codec = _codec_of_source(join, sample, schemas)
            yield from _unread_rows(view, topic, join.rows or RowRule(), codec, sample, where)
            if join.stream is None:
                yield from _unread_keys(view, topic, join.key_fields, sample, where)


def _codec_of_source(
    source: Derivation | Join, sample: Sequence[SampledRecord], schemas: FetchedSchemas | None
) -> Codec:
    """The codec of values of JSON, or of a format whose schemas are fetched. Values that it cannot
    read are left out."""
    schema = source.schema
    if schema is None or not schema.is_framed or schemas is None:
        is_framed = source.rows is not None and source.rows.is_framed
        return FORMATS["json"].codec_with(CONFLUENT if is_framed else None, None)
    ids: set[int] = set()
    for record in sample:
        with suppress(ValueError):
            ids.add(schema_id_of(record.value or b""))
    for schema_id in sorted(ids)[-_MAX_SCHEMAS:]:
        with suppress(ValueError, SchemaSourceUnavailable):
            schemas.fetch(schema_id)
    return FORMATS[schema.format].codec_with(CONFLUENT, schemas)


def _unread_keys(
    view: View,
    topic: str,
    key_fields: tuple[str, ...],
    sample: Sequence[SampledRecord],
    where: str,
) -> Iterator[Finding]:
    """About keys with a schema id, whose bytes are no text, but may be read as one."""
    keys = [record.key for record in sample if record.key is not None]
    if key_fields or not keys or not all(map(_has_frame, keys)):
        return
    yield warning(
        f"view {view.name}",
        f"topic {topic}: the keys have Confluent's header, so they are not read as text",
        f'name their fields in {where}, or in its source: key_fields = ["id"] '
        "(docs/spark/derived-views.md#keys-that-are-documents)",
    )


def _has_frame(key: bytes) -> bool:
    try:
        schema_id_of(key)
    except ValueError:
        return False
    return True


def _unread_rows(
    view: View,
    topic: str,
    rule: RowRule,
    codec: Codec,
    sample: Sequence[SampledRecord],
    where: str,
) -> Iterator[Finding]:
    values = [record.value for record in sample if record.value is not None]
    inferred = infer_rows([codec.to_json(value) for value in values if _is_valid(codec, value)])
    if (
        inferred is None
        or rule.unwrap is not None
        or (inferred.field == "null_deletes" and rule.null_deletes)
    ):
        return
    yield warning(
        f"view {view.name}",
        f"topic {topic}: {inferred.reason}: {inferred.effect}",
        f"set {inferred.field} = {inferred.toml} in {where}",
    )


def _is_valid(codec: Codec, value: bytes) -> bool:
    try:
        codec.check(value)
    except (ValueError, Unavailable):  # its schema may be missing
        return False
    return True
