"""Writes an entry of views.toml for a changelog, from inferred fields and the user's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from model.toml_lines import view_table
from model.views import NEWEST, PARTIAL
from queryable.cli.adopt.prompts import NO_VALUE, Ask, schema_of
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.inspection.deleted_records import DeletedRecords
from queryable.cli.inspection.duplicate_keys import find_duplicate_keys
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.internal_stores import internal_store
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.stores import infer_store
from queryable.cli.inspection.view_fields import infer_view

_DEFAULTS = {"store": "key-value", "partitioner": "murmur2"}
_CONFIDENCE_TEXT = {Confidence.GUESS: "a guess", Confidence.LIKELY: "likely"}


def view_entry(
    store: str,
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    ask: Ask,
    schemas: Schemas,
    deleted: DeletedRecords | None = None,
) -> str:
    """TOML; only a comment if the changelog cannot be a view. Raises BadUse and NoRegistry."""
    if kind := internal_store(store, records):
        return f"# {topic}: not proposed, it has {kind}\n"
    if deleted is not None and deleted.is_topic_empty:
        return f"# {topic}: not proposed, {deleted.text}; the kind of store is unknown\n"
    fields = _inferred_fields(topic, partitions, config, records, ask, schemas)
    lines = [
        f"# {partitions} partitions, cleanup.policy {config.get('cleanup.policy', 'unknown')}, "
        f"{len(records)} records sampled",
        *([f"# wrong: {deleted.text}"] if deleted is not None else []),
        view_table(store),
        f"topic = {json.dumps(topic)}",
    ]
    for field, inferred in fields.items():
        lines.extend(field_lines(field, answered(topic, field, inferred, ask)))
    return "\n".join(lines) + "\n"


def _inferred_fields(
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    ask: Ask,
    schemas: Schemas,
) -> dict[str, Inference]:
    # the store decides which part of a record key is the key
    store = infer_store(config, [record for record in records if record.key is not None])
    if store.confidence is Confidence.GUESS and (answer := ask(topic, "store", store)):
        store = Inference(answer, Confidence.CERTAIN, "as answered")
    fields = infer_view(partitions, config, records, store, partial(schemas.resolved, topic))
    keyed = [record for record in records if record.key is not None]
    if duplicates := find_duplicate_keys(fields["store"].value or "", keyed):
        fields["same_key"] = Inference(
            PARTIAL,
            Confidence.LIKELY,
            f"{duplicates}: each task has its own result, and a read of such a key returns 503 "
            f'ambiguous-key; "{NEWEST}" if such keys have moved',
        )
    return fields


def answered(topic: str, field: str, inferred: Inference, ask: Ask) -> Inference:
    """The field as the user answers. It is unchanged if it is certain, or if no user is asked."""
    if inferred.confidence is Confidence.CERTAIN or field == "store":
        return inferred
    answer = ask(topic, field, inferred)
    if answer is None:
        return inferred
    value = None if answer == NO_VALUE else answer
    return Inference(value, Confidence.CERTAIN, schema=schema_of(value, inferred))


def field_lines(field: str, inferred: Inference) -> list[str]:
    """The TOML of a field. An uncertain value is marked with `TODO?`."""
    value, is_marked = inferred.value, inferred.confidence is not Confidence.CERTAIN
    if value is None:
        return [f"# TODO? {field}: {inferred.reason}"] if is_marked else []
    line = f"{field} = {json.dumps(value)}"
    more = [] if inferred.schema is None else [f"{field}_schema = {json.dumps(inferred.schema)}"]
    if is_marked:
        reason = f"{_CONFIDENCE_TEXT[inferred.confidence]}: {inferred.reason}"
        return [f"{line}  # TODO? {reason}", *more]
    return [] if _DEFAULTS.get(field) == value else [line, *more]
