"""The entry of views.toml for a topic, from its configuration and a sample of its records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from model.formats.frames import HEADERS, ID_IN_HEADER
from model.formats.registry import FORMATS
from model.problems import ConfigurationError
from model.toml_lines import view_table
from model.views import View
from model.views_file import parse_views
from queryable.cli.adopt.entries import answered, field_lines
from queryable.cli.adopt.prompts import Ask
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.check.findings import OK, Finding, wrong
from queryable.cli.check.schemas import check_schemas
from queryable.cli.check.topics import check_records, check_retention
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.key_fields import infer_key_fields
from queryable.cli.inspection.rows import infer_rows
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.view_fields import infer_view
from queryable.cli.values import cell_text

_LATEST_VALUE = Inference("key-value", Confidence.CERTAIN, "the latest value of each key")
_ADD_PARTITIONS = "docs/changes-to-a-deployment.md#add-partitions-to-a-topic"
_ANY_SCHEMAS = '[schemas]\nfolder = "schemas"\n'  # a view is parsed alike with each source
_FRAMED_KEYS = "docs/reference/formats.md#avro-keys"
_MAX_SHOWN = 60
_ENOUGH = 20  # records, to tell a format


def topic_entry(
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    ask: Ask,
    schemas: Schemas,
) -> str:
    """TOML. Fields that the sample does not show for certain are asked for, or marked. Raises
    BadUse and NoRegistry."""
    with_schemas = partial(schemas.resolved, topic)
    fields = infer_view(partitions, config, records, _LATEST_VALUE, with_schemas)
    if len(records) >= _ENOUGH and _are_numbers_as_text(records):
        fields["key"] = replace(fields["key"], confidence=Confidence.CERTAIN)
    lines = [
        f"# {partitions} partitions, cleanup.policy {config.get('cleanup.policy', 'unknown')}, "
        f"{len(records)} records sampled",
        f"# before you add partitions: {_ADD_PARTITIONS}",
        view_table(topic),
        f"topic = {json.dumps(topic)}",
    ]
    if _is_valid([*lines, f'path = "/{topic}"', 'key = "string"', 'value = "string"']):
        lines.append(f'path = "/{topic}"')
    key = answered(topic, "key", fields["key"], ask)
    lines += _lines("key", key, fields["key"])
    keys = schemas.documents(key, [record.key for record in records if record.key is not None])
    key_fields = infer_key_fields(keys)
    if key_fields:
        lines.append(f"key_fields = {json.dumps(key_fields)}  # keys are objects with these fields")
    elif key.schema is not None:
        lines.append(f"# keys with a schema id are read by their bytes: {_FRAMED_KEYS}")
    value = answered(topic, "value", fields["value"], ask)
    lines += _lines("value", value, fields["value"])
    if not key_fields:  # otherwise each read asks all partitions
        partitioner = answered(topic, "partitioner", fields["partitioner"], ask)
        lines += _lines("partitioner", partitioner, fields["partitioner"])
    if value.value is not None and FORMATS[value.value].has_nulls:
        values = [record.value for record in records if record.value is not None]
        rows = infer_rows(schemas.documents(value, values))
        if rows is not None:
            lines.append(f"{rows.field} = {rows.toml}  # {rows.reason}")
    if any(not HEADERS.isdisjoint(record.headers) for record in records):
        lines.append(f"# {ID_IN_HEADER}.")
    return "\n".join(lines) + "\n"


def _lines(name: str, chosen: Inference, inferred: Inference) -> list[str]:
    """The TOML of a field, with the reason why it was inferred."""
    lines = field_lines(name, chosen)
    if not lines:  # the default
        lines = [f"{name} = {json.dumps(chosen.value)}"]
    if "#" not in lines[0] and inferred.reason:
        lines[0] += f"  # {inferred.reason}"
    return lines


def _are_numbers_as_text(records: Sequence[SampledRecord]) -> bool:
    """Whether the keys are decimal numbers: as `string` and as `json` they have the same URLs."""
    keys = {record.key for record in records if record.key is not None}
    return bool(keys) and all(re.fullmatch(rb"-?[0-9]{1,40}", key) for key in keys)


def _is_valid(lines: list[str]) -> bool:
    """A topic's name may be one of this product's own paths, such as `views`."""
    try:
        parse_views("\n".join(lines))
    except ConfigurationError:
        return False
    return True


def kafka_table(settings: Mapping[str, str]) -> str:
    """TOML of the connection settings; empty if there are none."""
    if not settings:
        return ""
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join(["[kafka]", *lines, "", ""])


def findings(
    entry: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    schemas: Schemas,
) -> Iterator[Finding]:
    """What `queryable check` would say about the entry, except what is ok."""
    try:
        [view] = parse_views(_ANY_SCHEMAS + entry).views
    except ConfigurationError as error:
        yield wrong("the entry", str(error), "correct it (docs/reference/views.md)")
        return
    for finding in _checks(view, partitions, config, records, schemas):
        if finding.status != OK:
            yield finding


def _checks(
    view: View,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    schemas: Schemas,
) -> Iterator[Finding]:
    yield check_retention(view, config)
    yield from check_records(view, partitions, records)
    yield from check_schemas(view, records, schemas.source)


def record_text(record: SampledRecord) -> str:
    """Key and value of a record on one line, as far as they are text."""
    return f"{_shown(record.key)} ► {_shown(record.value)}"


def _shown(data: bytes | None) -> str:
    if data is None:
        return "none"
    try:
        text = cell_text(data.decode())
    except UnicodeDecodeError:
        text = data.hex(" ")
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
