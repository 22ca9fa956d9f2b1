"""The parser of views.toml.

Errors name the line, the field and the expected value. The parser is strict, because a view that is
misunderstood gives wrong answers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from model.classes import is_class_path, is_view_reference
from model.derive.entry import contradictions, with_defaults
from model.derive.reading import TableError
from model.derive.sources import Sources, parse_sources, source_of_key
from model.expressions.zones import UTC, check_zone
from model.formats.format import FieldError, Read
from model.formats.registry import FORMATS, format_of
from model.indexes.declaration import parse_indexes
from model.kafka.table import parse_kafka
from model.keys.entry import contradicting_key_fields, parse_key_fields
from model.kinds.calendar_windows import parse_unit
from model.kinds.registry import KINDS
from model.partitioner import PARTITIONERS
from model.problems import ConfigurationError
from model.quotas import Quota, parse_quota
from model.rows.declared_fields import parse_declared_fields
from model.rows.entry import contradicting_rows
from model.rows.own_fields import all_fields
from model.rows.reader import DEBEZIUM
from model.schemas_table import parse_schemas
from model.times import parse_duration
from model.toml_lines import TomlErrors as _Reader
from model.toml_lines import view_table
from model.view_conflicts import conflicts
from model.view_field import BOOLEAN, Field, as_text, join_quoted, not_a_string
from model.view_versions import stored_name
from model.views import (
    ANY_PARTITION,
    BOUNDED,
    NEWEST,
    PARTIAL,
    SKIP,
    SPARK_GROUP_PREFIX,
    Deployment,
    View,
)

# The first segments of the paths that the product itself has.
RESERVED_SEGMENTS = frozenset(
    {"admin", "api", "health", "instance", "internal", "metrics"}
    | {"openapi.json", "processors", "proxy", "sql", "topics", "views"}
)

_NAME = re.compile(r"(?P<base>[A-Za-z0-9._-]{1,200})(@(?P<version>[1-9][0-9]{0,5}))?", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)  # Kafka's rule
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+", re.ASCII)
_MAX_GROUP_LENGTH = 249
_MAX_MEANING = 500  # characters


def _format_fields() -> dict[str, Field]:
    """The fields of all formats, with the prefix `key_` or `value_`."""
    meanings: dict[str, str] = {}
    for part in ("key", "value"):
        for format_ in FORMATS.values():
            for name, meaning in format_.fields.items():
                meaning_so_far = meanings.get(f"{part}_{name}", "")
                meaning = f"for {format_.name} {part}s: {meaning}"
                meanings[f"{part}_{name}"] = (
                    f"{meaning_so_far}; {meaning}" if meaning_so_far else meaning
                )
    return {name: Field("", None, meaning) for name, meaning in meanings.items()}


_FIELDS = {
    "topic": Field(None, None, "the view's source topic"),
    "path": Field("", None, 'a short path such as "/messages"'),
    "key": Field(None, None, "the format of the keys"),
    "value": Field(None, None, "the format of the values"),
    "store": Field("key-value", None, "the kind of store"),
    "window_size": Field(
        "", None, 'the length of a window, such as "1h" or "1 month"; without it: points in time'
    ),
    "window_zone": Field(
        "", None, 'the time zone of windows such as "1 month", such as "Europe/Berlin"'
    ),
    "window_key": Field(
        "changelog", ("changelog", "topic"), "whether record keys end with a sequence number"
    ),
    "partitioner": Field(
        "murmur2", (*PARTITIONERS, ANY_PARTITION), "the partitioner of the topic's producers"
    ),
    "same_key": Field("", ("", NEWEST, PARTIAL), "the meaning of a key in several partitions"),
    "null_deletes": Field("false", BOOLEAN, "whether null as a value deletes the key"),
    "unwrap": Field("", ("", DEBEZIUM), "the program whose changes the values are"),
    "unreadable": Field("", ("", SKIP), "what a value means that is not in its format"),
    "persistence": Field("rocksdb", ("rocksdb", "memory"), "where the view is stored"),
    "append": Field("off", ("off", "on"), "whether clients may append records over HTTP"),
    "quota": Field("", None, 'the requests that are answered in a time, such as "5000/s"'),
    "pipeline": Field("", None, "the consumer group of the job that derives the topic"),
    "spark_view": Field(
        "", None, 'the Python view that derives the topic: "my_view.py" or "package.module:VIEW"'
    ),
    "partitions": Field("", None, "the number of partitions, if Spark's job creates the topic"),
    "trigger": Field("", None, 'when Spark writes results: "real-time", or a time such as "5s"'),
    "scans": Field("", ("", BOUNDED), "whether queries of the whole view need a key or a range"),
    "description": Field("", None, "what the entries are, for people and agents"),
    "push": Field("", None, "the folder or URL of the pushes of batch jobs"),
    "retention": Field("", None, 'how long entries are kept, by their time, such as "7d"'),
    **_format_fields(),
}
_KEY_FORMATS = [name for name, format_ in FORMATS.items() if format_.for_keys]
_FORMAT_FIELDS = tuple(
    dict.fromkeys(name for format_ in FORMATS.values() for name in format_.fields)
)
# field -> the kinds of store that have it, for fields that not all kinds have
_ONLY_FOR = {
    field: tuple(name for name, kind in KINDS.items() if field in kind.fields)
    for field in _FIELDS
    if any(field in kind.fields for kind in KINDS.values())
}

# the kinds of store whose record keys have no times
_BARE_KEYS = [name for name, kind in KINDS.items() if kind.one_entry_per_key or kind.has_versions]


def _no_files(name: str) -> bytes:
    raise ValueError(f"cannot read {name} here")


def parse_views(text: str, source: str = "views.toml", read: Read = _no_files) -> Deployment:
    """Parse TOML to a deployment. Raises ConfigurationError, which names the line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise ConfigurationError(f"{source}: not TOML: {e}") from None
    reader = _Reader(text, source)
    for table in document:
        if table not in ("views", "sources", "kafka", "schemas"):
            raise reader.error(
                (table,),
                None,
                "unknown table; known tables: [views.*], [sources.*], [kafka], [schemas]",
            )
    views = document.get("views", {})
    if not isinstance(views, dict) or not views:
        raise ConfigurationError(
            f"{source}: no views are declared; add a table such as [views.orders] "
            f'with topic = "orders", key = "string", value = "json"'
        )
    schemas = parse_schemas(document.get("schemas"), reader)
    sources = _parse_sources(document.get("sources", {}), reader, read)
    parsed = tuple(
        _parse_view(name, fields, reader, read, "schemas" in document, sources)
        for name, fields in views.items()
    )
    for conflict in conflicts(parsed, tuple(views)):
        raise reader.error(("views", conflict.entry), conflict.field, conflict.message)
    kafka = parse_kafka(document.get("kafka", {}), reader)
    return Deployment(parsed, kafka, schemas.get("registry"), schemas.get("folder"))


def _parse_sources(tables: Any, reader: _Reader, read: Read) -> Sources:
    try:
        return parse_sources(tables, read)
    except TableError as e:
        raise reader.error_at(("sources", *e.path[:1]), e.path[1:], str(e)) from None


def _parse_view(
    name: str, fields: Any, reader: _Reader, read: Read, by_id: bool, sources: Sources
) -> View:
    """`by_id`: whether the deployment has a source of schemas by id."""
    table = ("views", name)
    if not isinstance(fields, dict):
        raise reader.error(("views",), name, f"a view must be a table: write {view_table(name)}")
    match = _NAME.fullmatch(name)
    if match is None or match["base"] in (".", ".."):
        raise reader.error(
            table,
            None,
            "a view's name may only have letters, digits, '.', '_' and '-', and a version such as "
            '"orders@2"',
        )
    stored = stored_name(match["base"], int(match["version"] or 1))
    try:
        derivation, fields = with_defaults(stored, fields, sources, read)
    except TableError as e:
        source = source_of_key(fields["derive"], e.path, sources)
        where = (*table, "derive") if source is None else ("sources", source)
        raise reader.error_at(where, e.path, str(e)) from None
    tables = {name: fields[name] for name in ("fields", "indexes") if name in fields}
    fields = {name: value for name, value in fields.items() if name not in tables}
    key_fields = None
    if "key_fields" in fields:
        # neither the bytes of a key nor its partition follow from its fields
        fields = {"partitioner": ANY_PARTITION, **fields}
        try:
            key_fields = parse_key_fields(fields.pop("key_fields"))
        except ValueError as e:
            raise reader.error(table, "key_fields", str(e)) from None
    for field in fields:
        if field not in _FIELDS:
            known = ", ".join((*_FIELDS, "key_fields", "fields", "indexes", "derive"))
            raise reader.error(table, field, f"unknown field; known fields: {known}")
    values: dict[str, str] = {}
    for field, spec in _FIELDS.items():
        value = fields.get(field, spec.default)
        if value is None:
            raise reader.error(table, None, f'{field} is missing: {field} = "…", {spec.meaning}')
        if field in fields:
            value = as_text(field, value, spec)
        if not isinstance(value, str):
            raise reader.error(table, field, not_a_string(field, value, spec))
        if spec.allowed is not None and value not in spec.allowed:
            known = ", ".join(filter(None, spec.allowed))
            raise reader.error(table, field, f'unknown value "{value}"; allowed: {known}')
        values[field] = value
    if not _TOPIC.fullmatch(values["topic"]) or values["topic"] in (".", ".."):
        raise reader.error(table, "topic", f'"{values["topic"]}" is not a valid topic name')
    _check_format("key", _KEY_FORMATS, values, table, reader)
    _check_format("value", FORMATS, values, table, reader)
    for field, reason in contradicting_rows(values):
        raise reader.error(table, field, reason)
    _check_store(values, table, reader)
    for field in ("partitions", "trigger"):
        if values[field] and not values["spark_view"] and derivation is None:
            raise reader.error(
                table, field, "only with spark_view or derive, whose job creates the topic"
            )
    for field, stores in _ONLY_FOR.items():
        if field in fields and values["store"] not in stores:
            raise reader.error(table, field, f"only for store = {join_quoted(stores)}")
    window_unit, window_zone = _parse_calendar(values, table, reader)
    view = View(
        name=stored,
        topic=values["topic"],
        path=_parse_path(values["path"], table, reader),
        key=values["key"],
        value=values["value"],
        partitioner=values["partitioner"],
        store=values["store"],
        window_size=None
        if window_unit
        else _parse_length("window_size", "for points in time", values, table, reader),
        window_unit=window_unit,
        window_zone=window_zone,
        window_key=values["window_key"],
        retention=_parse_length("retention", "to keep all entries", values, table, reader),
        persistence=values["persistence"],
        append=values["append"] == "on",
        same_key=values["same_key"] or None,
        key_fields=key_fields,
        null_deletes=values["null_deletes"] == "true" or None,
        unwrap=values["unwrap"] or None,
        unreadable=values["unreadable"] or None,
        quota=_parse_quota(values["quota"], table, reader),
        push=_parse_push(values, table, reader),
        pipeline=_parse_pipeline(values["pipeline"], table, reader)
        or (SPARK_GROUP_PREFIX + stored if values["spark_view"] or derivation else None),
        spark_view=_parse_spark_view(values["spark_view"], table, reader),
        partitions=_parse_partitions(values["partitions"], table, reader),
        trigger=_parse_trigger(values, table, reader),
        key_schema=_parse_schema("key", values, table, reader, read, by_id),
        value_schema=_parse_schema("value", values, table, reader, read, by_id),
        derivation=derivation,
        scans=values["scans"],
        meaning=_parse_meaning(values["description"], table, reader),
    )
    if derivation is not None:
        for field, reason in contradictions(view, derivation):
            raise reader.error(table, field, reason)
    view = _with_tables(view, tables, table, reader)
    if key_fields is not None:
        for field, reason in contradicting_key_fields(
            values, view.key_schema, ANY_PARTITION, _BARE_KEYS
        ):
            raise reader.error(table, field, reason)
    return view


def _parse_meaning(text: str, table: tuple[str, ...], reader: _Reader) -> str:
    if len(text) > _MAX_MEANING or not text.isprintable():
        reason = f"it is one line of up to {_MAX_MEANING} characters"
        raise reader.error(table, "description", reason)
    return text


def _with_tables(
    view: View, tables: dict[str, Any], table: tuple[str, ...], reader: _Reader
) -> View:
    """The view with its fields, and with the indexes of some of them. `tables`: `fields` and
    `indexes`, if it has them."""
    name = "fields"
    try:
        declared = parse_declared_fields(tables[name]) if name in tables else ()
        fields = all_fields(view, declared)
        name = "indexes"
        indexes = parse_indexes(tables[name], fields) if name in tables else ()
    except TableError as e:
        raise reader.error_at((*table, name), e.path, str(e)) from None
    if indexes and (reason := _no_indexes(view)):
        raise reader.error(table, "indexes", reason)
    return replace(view, fields=fields, indexes=indexes)


def _no_indexes(view: View) -> str:
    """Why a view has no indexes; empty if it may have some."""
    if view.kind.has_versions or view.is_custom:
        return f'not for store = "{view.store}"'
    if view.partitioner == ANY_PARTITION or view.is_partial:
        return "not for views whose keys are in several partitions"
    if not view.value_codec.is_document:
        return f"{view.value} values have no fields"
    return ""


def _parse_schema(
    part: str,
    values: dict[str, str],
    table: tuple[str, ...],
    reader: _Reader,
    read: Read,
    by_id: bool,
) -> str | None:
    """The definition of the schema; None if the format has none."""
    format_ = format_of(values[part])
    for field in _FORMAT_FIELDS:
        if values[f"{part}_{field}"] and field not in format_.fields:
            names = [other.name for other in FORMATS.values() if field in other.fields]
            raise reader.error(
                table, f"{part}_{field}", f"allowed only with {part} = {join_quoted(names)}"
            )
    fields = {field: values[f"{part}_{field}"] for field in format_.fields}
    try:
        return format_.definition(part, fields, read, by_id)
    except FieldError as e:
        raise reader.error(table, e.field, str(e)) from None


def _check_format(
    part: str,
    formats: Iterable[str],
    values: dict[str, str],
    table: tuple[str, ...],
    reader: _Reader,
) -> None:
    if values[part] not in formats and not is_class_path(values[part]):
        raise reader.error(
            table,
            part,
            f'unknown value "{values[part]}"; allowed: {", ".join(formats)}, or a class: '
            '"package.module:Class"',
        )


def _check_store(values: dict[str, str], table: tuple[str, ...], reader: _Reader) -> None:
    store = values["store"]
    if store in KINDS:
        return
    if not is_class_path(store):
        raise reader.error(
            table,
            "store",
            f'unknown store "{store}"; use {", ".join(KINDS)}, or a class: "package.module:Class"',
        )
    if values["retention"] or values["persistence"] != "memory":
        field = "retention" if values["retention"] else "persistence"
        raise reader.error(
            table,
            field,
            'a custom store has no retention and needs persistence = "memory": it is rebuilt from '
            "the topic at every start",
        )


def _parse_duration(
    field: str, values: dict[str, str], table: tuple[str, ...], reader: _Reader
) -> int | None:
    """The duration in ms; None if it is not set."""
    text = values[field]
    if not text:
        return None
    try:
        return parse_duration(text)
    except ValueError as e:
        raise reader.error(table, field, str(e)) from None


def _parse_calendar(
    values: dict[str, str], table: tuple[str, ...], reader: _Reader
) -> tuple[str | None, str | None]:
    """The unit and the time zone of windows of the calendar; (None, None) for other windows."""
    zone = values["window_zone"]
    try:
        unit = parse_unit(values["window_size"])
    except ValueError as e:
        raise reader.error(table, "window_size", str(e)) from None
    if unit is None:
        if zone:
            raise reader.error(
                table, "window_zone", 'only with windows of the calendar: window_size = "1 month"'
            )
        return None, None
    try:
        check_zone(zone or UTC)
    except ValueError as e:
        raise reader.error(table, "window_zone", str(e)) from None
    return unit, zone or UTC


def _parse_length(
    field: str, without: str, values: dict[str, str], table: tuple[str, ...], reader: _Reader
) -> int | None:
    """The duration in ms, greater than 0; None if it is not set. `without`: the purpose of omitting
    the field, for the error message."""
    length = _parse_duration(field, values, table, reader)
    if length == 0:
        raise reader.error(
            table, field, f'"{values[field]}" is not longer than 0; omit {field} {without}'
        )
    return length


def _parse_quota(text: str, table: tuple[str, ...], reader: _Reader) -> Quota | None:
    if not text:
        return None
    try:
        return parse_quota(text)
    except ValueError as e:
        raise reader.error(table, "quota", str(e)) from None


def _parse_push(values: dict[str, str], table: tuple[str, ...], reader: _Reader) -> str | None:
    push = values["push"]
    if not push:
        return None
    user = push.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if not push.isprintable() or ":" in user:
        raise reader.error(table, "push", "it must be a folder or a URL without a password")
    for field, value, reason in (
        ("persistence", "memory", "files cannot be moved into memory"),
        ("partitioner", ANY_PARTITION, "the partition of a key must be known"),
    ):
        if values[field] == value:
            raise reader.error(table, "push", f'not with {field} = "{value}": {reason}')
    if is_class_path(values["store"]):
        raise reader.error(table, "push", "not with a custom store, which has no entries")
    return push


def _parse_pipeline(group: str, table: tuple[str, ...], reader: _Reader) -> str | None:
    if len(group) > _MAX_GROUP_LENGTH or not group.isprintable():
        raise reader.error(
            table,
            "pipeline",
            f"{group[:40]!r} is not a valid consumer group: at most {_MAX_GROUP_LENGTH} printable "
            f"characters",
        )
    return group or None


def _parse_spark_view(text: str, table: tuple[str, ...], reader: _Reader) -> str | None:
    if text and not is_view_reference(text):
        raise reader.error(
            table,
            "spark_view",
            f'"{text}" is neither a Python file, such as "my_view.py", nor "package.module:VIEW"',
        )
    return text or None


def _parse_partitions(text: str, table: tuple[str, ...], reader: _Reader) -> int | None:
    if text and not re.fullmatch("[1-9][0-9]{0,4}", text):
        raise reader.error(table, "partitions", f"{text} is not a number from 1 to 99999")
    return int(text) if text else None


def _parse_trigger(values: dict[str, str], table: tuple[str, ...], reader: _Reader) -> str:
    """A trigger of Spark; empty if it is not set."""
    if values["trigger"] in ("", "real-time"):
        return values["trigger"]
    return f"{_parse_duration('trigger', values, table, reader) or 0} milliseconds"


def _parse_path(path: str, table: tuple[str, ...], reader: _Reader) -> str | None:
    if not path:
        return None
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise reader.error(
            table, "path", f'"{path}" is not a path such as "/messages" (letters, digits, . _ ~ -)'
        )
    first = path.split("/")[1]
    if first in RESERVED_SEGMENTS:
        raise reader.error(table, "path", f'"{path}" is not allowed: /{first} is reserved')
    return path
