"""The entry of views.toml for a topic, from its configuration and a sample of its records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from model.formats.frames import FRAME, HEADERS, ID_IN_HEADER
from model.formats.registry import KEY_CODECS
from model.formats.schemas import CONFLUENT
from model.problems import ConfigurationError
from model.toml_lines import view_table
from model.views import View
from model.views_file import parse_views
from queryable.cli.adopt.entries import field_lines
from queryable.cli.adopt.prompts import Ask
from queryable.cli.check.findings import OK, Finding
from queryable.cli.check.topics import check_records, check_retention
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.key_fields import infer_key_fields
from queryable.cli.inspection.rows import infer_rows
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.view_fields import infer_view
from queryable.cli.values import cell_text

_LATEST_VALUE = Inference("key-value", Confidence.CERTAIN, "the latest value of each key")
_ADD_PARTITIONS = "docs/changes-to-a-deployment.md#add-partitions-to-a-topic"
_MAX_SHOWN = 60
_ENOUGH = 20  # records, to tell a format


def topic_entry(
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    ask: Ask,
) -> str:
    """TOML. Fields that the sample does not show for certain are asked for, or marked."""
    fields = infer_view(partitions, config, records, _LATEST_VALUE)
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
    names = ["key", "value", "partitioner"]
    if key_fields := _key_fields(fields["key"], records):
        lines.append(f"key_fields = {json.dumps(key_fields)}  # keys are objects with these fields")
        names.remove("partitioner")  # each read asks all partitions
    for name in names:
        written = field_lines(topic, name, fields[name], ask)
        if not written:  # the default
            written = [f"{name} = {json.dumps(fields[name].value)}"]
        if "#" not in written[0] and fields[name].reason:
            written[0] += f"  # {fields[name].reason}"
        lines += written
    if any(line.startswith('value = "json"') for line in lines):
        values = [record.value for record in records if record.value is not None]
        is_framed = f'value_schema = "{CONFLUENT}"' in lines
        found = infer_rows([value[FRAME:] if is_framed else value for value in values])
        if found is not None:
            lines.append(f"{found.field} = {found.toml}  # {found.reason}")
    if any(not HEADERS.isdisjoint(record.headers) for record in records):
        lines.append(f"# {ID_IN_HEADER}.")
    return "\n".join(lines) + "\n"


def _key_fields(found: Inference, records: Sequence[SampledRecord]) -> tuple[str, ...]:
    codec = KEY_CODECS.get(found.value or "")
    if codec is None or not codec.is_document:
        return ()
    start = 0 if found.schema is None else FRAME
    return infer_key_fields([record.key[start:] for record in records if record.key is not None])


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
    entry: str, partitions: int, config: Mapping[str, str], records: Sequence[SampledRecord]
) -> Iterator[Finding]:
    """What `queryable check` would say about the entry, except what is ok."""
    try:
        [view] = parse_views(entry).views
    except ConfigurationError:
        return  # it names files or schemas, which the user has to add
    for finding in _checks(view, partitions, config, records):
        if finding.status != OK:
            yield finding


def _checks(
    view: View, partitions: int, config: Mapping[str, str], records: Sequence[SampledRecord]
) -> Iterator[Finding]:
    yield check_retention(view, config)
    yield from check_records(view, partitions, records)


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
