"""The files with the schemas of ``[sources.NAME]``, compared with a registry's newest versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from model.derive.schema_files import SchemaFile
from model.expressions.types import text_of_field_type
from model.formats.format import Origin
from model.formats.registry import FORMATS
from model.formats.schema_registry import SchemaSourceUnavailable
from model.formats.schemas import SchemaNotFound
from queryable.cli.inspection.schema_sources import SchemaRegistry

Fields = Mapping[str, str]
"""The name of each field that a derived view can use ► its type as in views.toml."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``content``: that of the file; None if there is no file. ``origin``: the version that it was
    made from, if the file says so. ``newest`` and ``newest_content``: the registry's newest
    version, and its file."""

    schema: SchemaFile
    content: bytes | None
    origin: Origin | None
    newest: Origin
    newest_content: bytes

    @property
    def changes(self) -> list[str]:
        """What the newest version would change for derived views: ``adds discount (double?)``.
        Raises ValueError if one of the schemas has no fields."""
        if self.content is None:
            return []
        return list(
            _changes(
                fields_of(self.schema, self.content), fields_of(self.schema, self.newest_content)
            )
        )


def compared(schema: SchemaFile, folder: Path, registry: SchemaRegistry) -> Comparison:
    """Compares the file of a source in the folder of views.toml. Raises SchemaSourceUnavailable,
    SchemaNotFound, or ValueError if the newest schema cannot be used."""
    format_ = FORMATS[schema.format]
    newest, registered = registry.newest(schema.subject)
    if registered.format is not format_:
        raise ValueError(
            f"the newest schema of {schema.subject} is {registered.format.name}: write "
            f'format = "{registered.format.name}"'
        )
    try:
        content: bytes | None = (folder / schema.file).read_bytes()
    except FileNotFoundError:
        content = None
    except OSError as error:
        raise ValueError(f"cannot read {schema.file}: {error.strerror}") from None
    origin = None if content is None else origin_of(schema, content)
    newest_content = format_.schema_file(registered.text, registered.references, newest)
    return Comparison(schema, content, origin, newest, newest_content)


def why_not_compared(schema: SchemaFile, error: Exception) -> str:
    """What to do about an error of ``compared``."""
    if isinstance(error, SchemaSourceUnavailable):
        return "start the schema registry, or correct [schemas] (docs/reference/formats.md)"
    if isinstance(error, SchemaNotFound):
        return f'name the subject in [sources.{schema.source}]: subject = "…"'
    return f"correct [sources.{schema.source}]"


def origin_of(schema: SchemaFile, content: bytes) -> Origin | None:
    """The version that a file was made from; None if it was not made from a registry."""
    return FORMATS[schema.format].origin(content)


def fields_of(schema: SchemaFile, content: bytes) -> Fields:
    """The fields that a file declares. Raises ValueError."""
    format_ = FORMATS[schema.format]
    declared = format_.declared_fields(content, schema.message, unwrap=schema.unwrap)
    return {".".join(path): text_of_field_type(type_) or str(type_) for path, type_ in declared}


def _changes(before: Fields, now: Fields) -> Iterator[str]:
    for verb, names in (("adds", now.keys() - before), ("removes", before.keys() - now)):
        if names:
            types = now if verb == "adds" else before
            yield f"{verb} {', '.join(f'{name} ({types[name]})' for name in sorted(names))}"
    for name in sorted(now.keys() & before):
        if now[name] != before[name]:
            yield f"changes {name} from {before[name]} to {now[name]}"
