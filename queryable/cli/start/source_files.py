"""Writes the files of `queryable sources`: schemas of a registry, next to views.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from model.derive.schema_files import SchemaFile, declared_schemas
from model.formats.schema_registry import SchemaSourceUnavailable
from model.problems import ConfigurationError
from model.schemas_table import parse_schemas
from model.toml_lines import TomlErrors
from model.views_file import parse_views
from queryable.cli.exit_codes import NoRegistry
from queryable.cli.inspection.schema_sources import REGISTRY_OPTION, SchemaRegistry, open_registry
from queryable.cli.inspection.source_schemas import (
    Comparison,
    compared,
    fields_of,
    why_not_compared,
)
from queryable.cli.start.topic_source import SourceEntry
from queryable.cli.start.views_writer import replace_file
from queryable.client.protocol.errors import BadUse

_MODE = 0o644  # a schema is no secret, and backends may run as another user


class Declared(NamedTuple):
    """The sources whose fields a schema declares, and their registry."""

    schemas: list[SchemaFile]
    registry: SchemaRegistry


def read_sources(path: Path, names: list[str], registry: str | None) -> Declared:
    """The sources of a views file, which may not be complete yet. `names`: those that are chosen;
    none for all. `registry`: the URL that the user gives. Raises BadUse."""
    try:
        text = path.read_text()
        document = tomllib.loads(text)
        table = parse_schemas(document.get("schemas"), TomlErrors(text, str(path)))
    except (OSError, ValueError) as error:
        raise BadUse(f"Cannot read {path}: {error}.") from None
    except ConfigurationError as error:
        raise BadUse(f"{error}.") from None
    schemas = {schema.source: schema for schema in declared_schemas(document.get("sources"))}
    for name in names:
        if name not in schemas:
            known = ", ".join(schemas) or "none"
            raise BadUse(
                f'{path} has no [sources.{name}] with format = "avro", "protobuf" or "json" and '
                f"without fields. It has: {known}."
            )
    if not schemas:
        raise BadUse(f"{path} has no source whose fields a schema declares.")
    url = registry or table.get("registry")
    if url is None:
        raise BadUse(
            f'{path} names no schema registry: write [schemas] with registry = "http://host:8081" '
            f"into it, or give {REGISTRY_OPTION}."
        )
    chosen = [schema for name, schema in schemas.items() if name in (names or schemas)]
    return Declared(chosen, open_registry(url))


def compared_with(schema: SchemaFile, path: Path, registry: SchemaRegistry) -> Comparison:
    """Raises BadUse and NoRegistry."""
    try:
        return compared(schema, path.parent, registry)
    except (SchemaSourceUnavailable, ValueError) as error:
        why = f"{schema.source}: {str(error).rstrip('.')}. "
        todo = why_not_compared(schema, error)
        text = f"{why}{todo[:1].upper()}{todo[1:]}."
        failed = NoRegistry if isinstance(error, SchemaSourceUnavailable) else BadUse
        raise failed(text) from None


def is_newest(comparison: Comparison) -> bool:
    """Whether derived views would be the same with the newest version. Raises BadUse."""
    return comparison.content is not None and not _changes(comparison)


def state_text(comparison: Comparison) -> str:
    """What the file of a source has, in a line. Raises BadUse."""
    schema, newest = comparison.schema, comparison.newest
    if comparison.content is None:
        return f"{schema.source}: no file {schema.file}; newest: {_version(comparison)}"
    origin = comparison.origin
    has = "is not from a registry" if origin is None else f"has version {origin.version}"
    changes = _changes(comparison)
    if origin == newest:
        return f"{schema.source}: {schema.file} {has} of {newest.subject}, the newest"
    effect = "; ".join(changes) or "has the same fields"
    return f"{schema.source}: {schema.file} {has}; {_version(comparison)} {effect}"


def save(comparison: Comparison, path: Path, *, force: bool) -> str:
    """Writes the newest version, and returns what was done, in a line. Raises BadUse if `sources`
    has not written the file that is there, or if the views would not be valid any more."""
    schema, content = comparison.schema, comparison.newest_content
    file = path.parent / schema.file
    if comparison.content == content:
        return f"{schema.file} is unchanged: {_version(comparison)}"
    if comparison.content is not None and comparison.origin is None and not force:
        raise BadUse(
            f"{schema.file} was not changed, because `queryable sources` has not written it: "
            "--force replaces it."
        )
    changes = _changes(comparison)
    _require_same_views(path, schema, content, comparison.newest.version)
    try:
        before = file.stat() if file.exists() else None
        replace_file(file, content, before, has_secrets=False, new_mode=_MODE)
    except OSError as error:
        raise BadUse(f"Cannot write {file}: {error.strerror}.") from None
    effect = f": {'; '.join(changes)}" if changes else _fields_text(schema, content)
    return f"wrote {schema.file}, {_version(comparison)}{effect}"


def write_new(entries: Sequence[SourceEntry], views: Path, write: Callable[[], None]) -> None:
    """Write the files of new sources, and then the views file, with `write`. If that fails, the
    files are removed. Raises BadUse, also if a file is there with another content."""
    written: list[Path] = []
    try:
        for entry in entries:
            file = views.parent / entry.file
            if file.exists():
                if file.read_bytes() != entry.content:
                    raise BadUse(f"{file} exists and was not changed: move it away.")
                continue
            replace_file(file, entry.content, None, has_secrets=False, new_mode=_MODE)
            written.append(file)
        write()
    except (OSError, BadUse) as error:
        for file in written:
            file.unlink(missing_ok=True)
        if isinstance(error, BadUse):
            raise
        raise BadUse(f"Cannot write next to {views}: {error.strerror}.") from None


def _fields_text(schema: SchemaFile, content: bytes) -> str:
    """How many fields a new file has, or what is missing to know it."""
    try:
        return f": {len(fields_of(schema, content))} fields"
    except ValueError as error:
        missing = f" Set message in [sources.{schema.source}]." if not schema.message else ""
        return f": {error}.{missing}"


def _changes(comparison: Comparison) -> list[str]:
    try:
        return comparison.changes
    except ValueError as error:
        raise BadUse(f"{comparison.schema.source}: {error}.") from None


def _version(comparison: Comparison) -> str:
    return f"version {comparison.newest.version} of {comparison.newest.subject}"


def _require_same_views(path: Path, schema: SchemaFile, content: bytes, version: int) -> None:
    """Raise BadUse if the views file is valid now, and would not be with the new content."""

    def read(name: str) -> bytes:
        try:
            return (path.parent / name).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read the file: {error.strerror}") from None

    def read_new(name: str) -> bytes:
        return content if name == schema.file else read(name)

    text = path.read_text()
    try:
        parse_views(text, str(path), read)
    except ConfigurationError:
        return  # it is not valid now
    try:
        parse_views(text, str(path), read_new)
    except ConfigurationError as error:
        raise BadUse(
            f"{schema.file} was not changed, because a view could not be read with version "
            f"{version} of {schema.subject}: {error}. Edit the view first."
        ) from None
