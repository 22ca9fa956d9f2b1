"""Checks whether the files with the schemas of sources have the registry's newest fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from model.derive.schema_files import SchemaFile
from model.formats.schema_registry import SchemaSourceUnavailable
from model.formats.schemas import SchemaNotFound
from queryable.cli.check.findings import Finding, ok, warning
from queryable.cli.inspection.schema_sources import SchemaRegistry
from queryable.cli.inspection.source_schemas import compared, origin_of, why_not_compared


def check_source_schemas(
    schemas: Iterable[SchemaFile], folder: Path, registry: SchemaRegistry
) -> Iterator[Finding]:
    """``folder``: that of views.toml, whose files are there. A file that is not from a registry may
    have a subject that the registry does not know. Waits for the registry."""
    for schema in schemas:
        subject = f"source {schema.source}"
        try:
            comparison = compared(schema, folder, registry)
            changes = "; ".join(comparison.changes)
        except SchemaSourceUnavailable as error:
            todo = why_not_compared(schema, error)
            yield warning(subject, f"no newer schema can be looked for: {error}", todo)
            return
        except ValueError as error:
            if not isinstance(error, SchemaNotFound) or _is_registered(schema, folder):
                yield warning(subject, str(error), why_not_compared(schema, error))
            continue
        version = f"version {comparison.newest.version} of {schema.subject}"
        if changes:
            yield warning(
                subject,
                f"{version} is newer than {schema.file}: it {changes}",
                f"to use it: queryable sources {schema.source} --save",
            )
        else:
            yield ok(subject, f"{schema.file} has the fields of {version}, the newest")


def _is_registered(schema: SchemaFile, folder: Path) -> bool:
    """Whether the file was made from a registry."""
    return origin_of(schema, (folder / schema.file).read_bytes()) is not None
