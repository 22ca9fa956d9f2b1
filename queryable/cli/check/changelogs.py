"""Checks views whose topic is a changelog. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from model.kinds.registry import kind_of
from model.toml_lines import view_table
from model.views import CHANGELOG, NEWEST, View
from queryable.cli.check.findings import Finding, warning, wrong
from queryable.cli.inspection.deleted_records import broker_retention, find_deleted_records
from queryable.cli.inspection.duplicate_keys import find_duplicate_keys
from queryable.cli.inspection.inference import Confidence
from queryable.cli.inspection.internal_stores import internal_store
from queryable.cli.inspection.samples import TopicSample
from queryable.cli.inspection.stores import infer_store


def check_changelog(
    view: View, config: Mapping[str, str], sample: TopicSample
) -> Iterator[Finding]:
    """Finds an internal store, a wrong kind of store, and keys in several partitions."""
    if not view.topic.endswith(CHANGELOG) or view.is_custom:
        return
    subject = f"view {view.name}"
    if kind := internal_store(view.topic, sample.records):
        yield wrong(
            subject,
            f"topic {view.topic} has {kind}",
            "serve another store of the application (docs/kafka-streams.md)",
        )
        return
    keyed = [record for record in sample.records if record.key is not None]
    store = infer_store(config, keyed)
    is_certain = bool(keyed) and store.confidence is Confidence.CERTAIN
    # a kind that extends the changelog's kind reads the same records
    if is_certain and not isinstance(view.kind, type(kind_of(store.value or ""))):
        yield wrong(
            subject,
            f"topic {view.topic} is the changelog of a {store.value} store: {store.reason}",
            f'set store = "{store.value}" in {view_table(view.name)}',
        )
    duplicates = find_duplicate_keys(view.store, keyed)
    if duplicates is not None and view.same_key is None:
        yield warning(
            subject,
            f"{duplicates}: each may be the result of one task, so reads return 503 ambiguous-key",
            f"read with partials=all; or, if such keys have moved, set same_key = "
            f'"{NEWEST}" in {view_table(view.name)}',
        )


def check_deleted_records(
    view: View, config: Mapping[str, str], sample: TopicSample, now: int
) -> Iterator[Finding]:
    """Whether the broker deletes what the store keeps. `now`: ms since 1970."""
    is_changelog = view.topic.endswith(CHANGELOG)
    if view.is_custom or (view.retention is None and not is_changelog):
        return
    if broker_retention(config) is None and view.store != "versioned":
        return
    deleted = find_deleted_records(config, sample, view.retention, now)
    if deleted is None:
        return
    finding = wrong if deleted.empty and is_changelog else warning
    yield finding(
        f"view {view.name}",
        deleted.text,
        f"give topic {view.topic} a retention.ms that includes the oldest event (-1: no limit); "
        "deleted records return only when they are written again",
    )
