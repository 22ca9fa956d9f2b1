"""Checks whether the schemas that sampled records name can be had, and read the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.formats.codec import Codec
from model.formats.frames import FRAME, schema_id_of
from model.formats.schema_registry import SchemaSourceUnavailable
from model.formats.schemas import Schema, SchemaNotFound
from model.problems import ConfigurationError
from model.views import View
from queryable.cli.check.findings import Finding, ok, wrong
from queryable.cli.check.rows import check_rows
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.schema_sources import FetchedSchemas

_MAX_SCHEMAS = 5


def check_schemas(
    view: View, sample: Sequence[SampledRecord], source: FetchedSchemas | None
) -> Iterator[Finding]:
    """About records with Confluent's frame, and the deletions among them. Waits for the source."""
    if source is None:
        return
    keys = [view.layout.bare_key(record.key) for record in sample if record.key is not None]
    values = [record.value for record in sample if record.value is not None]
    for what, codec, records in (
        ("key", view.key_codec, keys),
        ("value", view.record_codec, values),
    ):
        if codec.needs_schemas:
            yield from _check(view, what, codec, records, source)
    if view.record_codec.needs_schemas:
        yield from check_rows(view, sample, source)


def _check(
    view: View, what: str, codec: Codec, records: Sequence[bytes], source: FetchedSchemas
) -> Iterator[Finding]:
    subject = f"view {view.name}"
    by_id: dict[int, list[bytes]] = {}
    for raw in records:
        try:
            by_id.setdefault(schema_id_of(raw), []).append(raw)
        except ValueError:
            continue  # its frame has a finding
    for schema_id, records_with_schema in sorted(by_id.items())[:_MAX_SCHEMAS]:
        some = f"{len(records_with_schema)} of {len(records)} {what}s have schema {schema_id}"
        try:
            schema = source.fetch(schema_id)
        except SchemaSourceUnavailable as error:
            yield wrong(
                subject,
                f"{some}, which cannot be read now: {error}. Their partitions wait for it",
                "start the schema registry, or correct [schemas] (docs/reference/formats.md)",
            )
        except SchemaNotFound as error:
            yield wrong(
                subject,
                f"{some}, which cannot be read: {error}. Their partitions wait for it",
                "register the schema, correct [schemas], or put the schemas into a folder "
                "(docs/reference/formats.md)",
            )
        except (ValueError, ConfigurationError) as error:
            yield _unreadable(subject, f"{some}: {error}")
        else:
            yield _check_schema(subject, some, codec, schema, records_with_schema)


def _check_schema(
    subject: str, some: str, codec: Codec, schema: Schema, records: Sequence[bytes]
) -> Finding:
    if schema.format != codec.name:
        return _unreadable(subject, f"{some}, which is {schema.format}, not {codec.name}")
    for raw in records:
        try:
            schema.check(raw[FRAME:])
        except ValueError as error:
            return _unreadable(subject, f"{some}, which does not fit: {error}")
    return ok(subject, f"{some}, and fit")


def _unreadable(subject: str, message: str) -> Finding:
    return wrong(subject, f"{message}: they become dead letters", "register the schema")
