"""The tables ``[sources.NAME]`` of views.toml: what several views need to know about a topic.

A source is merged into the tables ``derive`` and ``join`` that name it. So it makes no
difference to a view or its checkpoint whether the source or the view declares a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.derive.fields import parse_topic
from model.derive.maps import TABLE, parse_kind
from model.derive.reading import TableError, check_keys
from model.derive.rows import ROW_KEYS
from model.derive.schema_fields import JSON, TEXT, VALUE_KEYS
from model.derive.schema_files import SUBJECT, SchemaFile, declared_schema
from model.derive.table import parse_derivation
from model.formats.format import Read
from model.formats.registry import FORMATS

MAX_SOURCES = 1000
_TIME_KEYS = ("time", "lateness", "earliness")
_VALUE_KEYS = (*VALUE_KEYS, *ROW_KEYS)
_KEYS = ("topic", "kind", SUBJECT, *_VALUE_KEYS, *_TIME_KEYS)
_EXAMPLE = '[sources.orders] with fields = { id = "string" }'


@dataclass(frozen=True, slots=True)
class DeclaredSource:
    """The topic of ``[sources.NAME]``, and the keys of ``derive`` that it declares."""

    name: str
    topic: str
    keys: Mapping[str, Any]

    @property
    def is_table(self) -> bool:
        return self.keys.get("kind") == TABLE


Sources = Mapping[str, DeclaredSource]
"""By name."""


def parse_sources(tables: Any, read: Read) -> Sources:
    """``read``: reads files with schemas. Raises TableError, with the path from ``[sources]``."""
    if not isinstance(tables, dict):
        raise TableError((), f"must be tables: {_EXAMPLE}")
    if len(tables) > MAX_SOURCES:
        raise TableError((), f"has {len(tables)} sources; at most {MAX_SOURCES} are allowed")
    sources = {}
    for name, table in tables.items():
        try:
            sources[name] = _parse_source(name, table, read)
        except TableError as e:
            raise TableError((name, *e.path), str(e)) from None
    return sources


def with_source(table: Any, sources: Sources) -> Any:
    """A table ``derive``, with the keys of the sources that it and its joins name. Raises
    TableError."""
    if not isinstance(table, dict):
        return table
    joins = table.get("join")
    if isinstance(joins, dict):
        table = {**table, "join": {name: _joined(name, joins[name], sources) for name in joins}}
    source = _named(table, sources)
    if source is None:
        return table
    _check_once(table, source, ("kind", *_VALUE_KEYS), ())
    keys = dict(source.keys)
    if any(key in table for key in _TIME_KEYS):  # the view's own time
        keys = {key: value for key, value in keys.items() if key not in _TIME_KEYS}
    return {**keys, **table, "from": source.topic}


def source_of_key(table: Any, path: tuple[str, ...], sources: Sources) -> str | None:
    """The name of the source that declares the key at ``path`` of a table ``derive``; None if the
    table declares it itself."""
    if not path or not isinstance(table, dict) or path[0] in table:
        return None
    source = _named(table, sources)
    return source.name if source is not None and path[0] in source.keys else None


def _parse_source(name: str, table: Any, read: Read) -> DeclaredSource:
    if not isinstance(table, dict):
        raise TableError((), f"must be a table: {_EXAMPLE}")
    check_keys(table, _KEYS)
    topic = parse_topic(table.get("topic", name), ("topic",))
    if "fields" not in table and "format" not in table:
        raise TableError(
            (), f'fields is missing: fields = {{ id = "string" }}, or write format = "{TEXT}"'
        )
    keys = {key: value for key, value in table.items() if key not in ("topic", SUBJECT)}
    declared = declared_schema(name, table)
    if declared is not None and "schema" not in table:
        keys["schema"] = _existing(declared, read)
    elif declared is None and SUBJECT in table:
        raise TableError((SUBJECT,), "only for fields that a schema declares: omit fields")
    # a view of the source, which is parsed for its errors
    view = {"key": "record_key", "select": "1"} if parse_kind(table) else _COUNT
    parse_derivation({**keys, "from": topic, **view}, read)
    return DeclaredSource(name, topic, keys)


def _existing(declared: SchemaFile, read: Read) -> str:
    """The name of the file with the schema. Raises TableError if there is none."""
    try:
        read(declared.file)
    except ValueError:
        or_fields = " Or declare fields." if declared.format == JSON else ""
        raise TableError(
            (),
            f"schema is missing: `queryable sources {declared.source} --save` writes "
            f"{declared.file}, with the newest schema of {declared.subject} in the registry. Or "
            f'name a file: schema = "order{FORMATS[declared.format].file_suffix}".{or_fields}',
        ) from None
    return declared.file


_COUNT = {"key": "record_offset", "count": True}


def _joined(name: str, join: Any, sources: Sources) -> Any:
    """A table ``join.NAME`` with what its source says."""
    source = _named(join, sources) if isinstance(join, dict) else None
    if source is None:
        return join
    path = ("join", name)
    joined_keys: tuple[str, ...] = _VALUE_KEYS
    if "within" in join:
        joined_keys += _TIME_KEYS
        if source.is_table:
            raise TableError(
                (*path, "within"),
                f"only for two streams, and {source.name} is a table: omit within",
            )
    elif not source.is_table:
        raise TableError(
            (*path, "from"),
            f"{source.name} is a stream, and a join reads the newest record of each key: write "
            f'kind = "{TABLE}" in [sources.{source.name}], or within = "1h" in the join',
        )
    if source.keys.get("format") == TEXT:
        raise TableError((*path, "from"), "a join needs a source with fields = { … }, or a schema")
    _check_once(join, source, _VALUE_KEYS, path)
    keys = {key: value for key, value in source.keys.items() if key in joined_keys}
    return {**keys, **join, "from": source.topic}


def _named(table: Mapping[str, Any], sources: Sources) -> DeclaredSource | None:
    name = table.get("from")
    return sources.get(name) if isinstance(name, str) else None


def _check_once(
    table: Mapping[str, Any], source: DeclaredSource, keys: tuple[str, ...], path: tuple[str, ...]
) -> None:
    for key in keys:
        if key in table:
            raise TableError(
                (*path, key),
                f"[sources.{source.name}] says what its records are: write {key} there, or the "
                f'name of the topic in from, such as "{source.topic}"'
                if source.name != source.topic
                else f"[sources.{source.name}] says what its records are: write {key} there",
            )
