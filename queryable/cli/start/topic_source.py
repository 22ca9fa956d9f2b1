"""The table [sources.TOPIC] of a topic whose values have a registry's schema, and its file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.derive.schema_files import SUBJECT, SchemaFile
from model.formats.format import Origin
from model.formats.frames import FRAME, schema_id_of
from model.formats.registry import FORMATS
from model.formats.schema_registry import RegisteredSchema, SchemaSourceUnavailable
from model.formats.schemas import CONFLUENT, SchemaNotFound
from model.toml_lines import table_name
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.exit_codes import NoRegistry
from queryable.cli.inspection.formats import infer_format
from queryable.cli.inspection.key_fields import infer_key_fields
from queryable.cli.inspection.rows import infer_rows
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.schema_sources import FetchedSchemas, SchemaRegistry
from queryable.cli.inspection.source_schemas import Fields, fields_of
from queryable.client.protocol.errors import BadUse

_DOCS = "docs/spark/derived-views.md"
_KEYS = ("string", "int", "long")
"""The types of a field that can be the key of a view."""


class SourceEntry(NamedTuple):
    """`toml`: the table, and a view as a comment. `file`: the name of the file with the schema."""

    toml: str
    file: str
    content: bytes


def source_entry(
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    schemas: Schemas,
) -> SourceEntry:
    """Raises BadUse and NoRegistry."""
    values = [record.value for record in records if record.value is not None]
    if not values:
        raise BadUse(
            f"{topic} has no values to look at. Write {table_name('sources', topic)} with "
            f'format = "avro", "protobuf" or "json" ({_DOCS}#the-file-from-a-registry).'
        )
    value = schemas.resolved(topic, "value", infer_format(values, is_key=False), values)
    format_ = FORMATS[value.value or ""]
    if value.schema != CONFLUENT or not format_.declares_fields:
        raise BadUse(
            f"The values of {topic} are {value.value} without the id of a schema, so no registry "
            f"has their fields. Write {table_name('sources', topic)} with fields ({_DOCS}#sources)."
        )
    registry = schemas.registry()
    framed = [raw for raw in values if _schema_id(raw) is not None]
    origin, newest = _newest(topic, framed, registry)
    rows = infer_rows(schemas.documents(value, values))
    key_fields = _key_fields(topic, records, schemas)
    is_table = rows is not None or "compact" in config.get("cleanup.policy", "")
    message = _message(framed, schemas.source) if "message" in format_.fields else ""
    unwrap = rows is not None and rows.field == "unwrap"
    subject = origin.subject
    file = f"{topic}{format_.file_suffix}"
    schema = SchemaFile(topic, format_.name, file, subject, message, unwrap)
    try:
        content = newest.format.schema_file(newest.text, newest.references, origin)
        fields = fields_of(schema, content)
    except ValueError as error:
        raise BadUse(f"The newest schema of {subject} cannot be used: {error}.") from None
    lines = [
        f"# {partitions} partitions, cleanup.policy {config.get('cleanup.policy', 'unknown')}, "
        f"{len(records)} records sampled",
        f"# {file} has its {len(fields)} fields: version {origin.version} of {subject}",
        table_name("sources", topic),
        f"format = {json.dumps(format_.name)}",
        *([f"message = {json.dumps(message)}"] if message else []),
        *([] if subject == f"{topic}-value" else [f"{SUBJECT} = {json.dumps(subject)}"]),
        f"value_schema = {json.dumps(CONFLUENT)}",
        *(['kind = "table"  # the newest record of a key counts'] if is_table else []),
        *([] if rows is None else [f"{rows.field} = {rows.toml}  # {rows.reason}"]),
        *([f"key_fields = {json.dumps(key_fields)}  # keys are objects"] if key_fields else []),
        f"# a view, as an example ({_DOCS}):",
        *(f"# {line}" for line in _example(topic, fields, is_table)),
    ]
    return SourceEntry("\n".join(lines) + "\n", file, content)


def _example(topic: str, fields: Fields, is_table: bool) -> list[str]:
    """The lines of a view: the rows of a table, or the number of records with a value."""
    name = next((name for name, type_ in fields.items() if type_ in _KEYS), None)
    if is_table or name is None:
        key, rest = ("record_key", []) if is_table else ("record_offset", [])
        title = f"{topic}-rows"
    else:
        key, rest = name, ["count = true"]
        title = f"{topic}-by-{name.replace('.', '-')}"
    lines = [table_name("views", title, "derive"), f"from = {json.dumps(topic)}"]
    return [*lines, f"key = {json.dumps(key)}", *rest]


def _schema_id(raw: bytes) -> int | None:
    try:
        return schema_id_of(raw)
    except ValueError:
        return None


def _newest(
    topic: str, values: Sequence[bytes], registry: SchemaRegistry
) -> tuple[Origin, RegisteredSchema]:
    """The newest version of the subject of the topic's values: the one of the topic's name, or else
    the one that has the schema of the newest value. Raises BadUse and NoRegistry."""
    try:
        try:
            return registry.newest(f"{topic}-value")
        except SchemaNotFound:
            subjects = registry.subjects(schema_id_of(values[-1]))
            subjects = [name for name in subjects if name.startswith(topic)] or subjects
            if len(subjects) != 1:
                known = ", ".join(subjects) or "none"
                raise BadUse(
                    f"The registry has no subject {topic}-value, and the schema of the newest "
                    f"value is in several: {known}. Write {table_name('sources', topic)} with one "
                    f'of them: {SUBJECT} = "…" ({_DOCS}#the-file-from-a-registry).'
                ) from None
            return registry.newest(subjects[0])
    except SchemaSourceUnavailable as error:
        raise NoRegistry(f"The schema of {topic}: {error}.") from None
    except ValueError as error:
        raise BadUse(f"The schema of {topic}: {error}.") from None


def _key_fields(topic: str, records: Sequence[SampledRecord], schemas: Schemas) -> tuple[str, ...]:
    """The fields of keys that are documents; none if keys are text, or cannot be read."""
    keys = [record.key for record in records if record.key is not None]
    try:
        key = schemas.resolved(topic, "key", infer_format(keys, is_key=True), keys)
    except BadUse:
        return ()
    return infer_key_fields(schemas.documents(key, keys))


def _message(values: Sequence[bytes], source: FetchedSchemas | None) -> str:
    """The message type of most values. Raises BadUse."""
    from model.formats.protobuf.schema import ProtobufFile

    assert source is not None
    names: Counter[str] = Counter()
    for raw in values:
        try:
            schema = source.fetch(schema_id_of(raw))
            assert isinstance(schema, ProtobufFile)
            names[schema.located(raw[FRAME:])[0]] += 1
        except ValueError:
            continue  # `Schemas` has found some that fit
    [(name, _)] = names.most_common(1) or [("", 0)]
    return name
