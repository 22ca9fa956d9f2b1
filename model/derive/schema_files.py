"""The files with the schemas of ``[sources.NAME]``, and the subjects of a registry that have newer
versions of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from model.derive.reading import TableError, read_text
from model.formats.registry import FORMATS
from model.rows.reader import DEBEZIUM

SUBJECT = "subject"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """``file``: its name, next to views.toml. ``subject``: by default the one that Confluent's
    serializers use for the values of the topic (TopicNameStrategy). ``message``: the message type
    of Protobuf; empty if it is not set. ``unwrap``: whether the fields are those of the row in a
    change."""

    source: str
    format: str
    file: str
    subject: str
    message: str = ""
    unwrap: bool = False


def declared_schema(name: str, table: Mapping[str, Any]) -> SchemaFile | None:
    """The file of a source; None if no schema declares its fields. Raises TableError."""
    format_ = FORMATS.get(str(table.get("format", "")))
    if format_ is None or not format_.declares_fields or "fields" in table:
        return None
    if "schema" not in table and not _NAME.fullmatch(name):
        raise TableError(
            (), f'schema is missing: schema = "order{format_.file_suffix}", the name of a file'
        )
    topic = str(table.get("topic", name))
    return SchemaFile(
        name,
        format_.name,
        read_text(table.get("schema", name + format_.file_suffix), ("schema",), "a file"),
        read_text(table.get(SUBJECT, f"{topic}-value"), (SUBJECT,), "a subject of the registry"),
        str(table.get("message", "")),
        table.get("unwrap") == DEBEZIUM,
    )


def declared_schemas(tables: Any) -> Iterator[SchemaFile]:
    """The files of all sources, without tables that are wrong. ``tables``: those of ``sources`` in
    views.toml, which may not be complete yet."""
    if not isinstance(tables, Mapping):
        return
    for name, table in tables.items():
        if isinstance(table, Mapping):
            try:
                declared = declared_schema(name, table)
            except TableError:
                continue
            if declared is not None:
                yield declared
