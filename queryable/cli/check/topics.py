"""Checks whether views fit their topics, from configuration and sampled records. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.classes import import_class
from model.formats.codec import Codec
from model.formats.frames import HEADERS, ID_IN_HEADER, schema_id_of
from model.partitioner import puts_anywhere
from model.problems import ConfigurationError
from model.times import duration_text
from model.toml_lines import view_table
from model.views import ANY_PARTITION, CHANGELOG, View
from queryable.cli.check.findings import Finding, ok, warning, wrong
from queryable.cli.check.formats import Misfit, format_finding
from queryable.cli.check.rows import check_rows
from queryable.cli.inspection.deleted_records import broker_retention
from queryable.cli.inspection.inference import Confidence
from queryable.cli.inspection.partitioners import count_matches, infer_partitioner
from queryable.cli.inspection.samples import SampledRecord


def check_retention(view: View, config: Mapping[str, str]) -> Finding:
    """Whether the topic keeps records as long as the view, so that the view can be rebuilt."""
    subject = f"view {view.name}"
    policy = config.get("cleanup.policy", "delete")
    retention = broker_retention(config)
    if retention is None:
        return ok(subject, f"topic {view.topic} has cleanup.policy {policy} and keeps each key")
    text = f"topic {view.topic} ({policy}) deletes records after {duration_text(retention)}"
    if view.retention is None:
        return warning(
            subject,
            f"{text}, but the view does not: after a rebuild the view has fewer entries",
            f"set retention in {view_table(view.name)} to that of the store, which is in the "
            "application's code, not in the topic"
            if view.topic.endswith(CHANGELOG)
            else f'set retention = "{duration_text(retention)}" in {view_table(view.name)}, or the '
            "topic's cleanup.policy=compact",
        )
    if view.retention > retention:
        return warning(
            subject,
            f"{text}, the view after {duration_text(view.retention)}: after a rebuild the view has "
            "fewer entries",
            f"set the topic's retention.ms to {view.retention} or more",
        )
    return ok(subject, f"{text}, the view after {duration_text(view.retention)}")


def check_classes(view: View) -> Iterator[Finding]:
    """Whether the classes that views.toml names can be used here: nothing if they can."""
    try:
        view.codecs()
        if view.is_custom:
            with view.naming("store"):
                import_class(view.store)
    except ConfigurationError as error:
        yield wrong(
            f"view {view.name}", str(error), "backends import the class, and so does this command"
        )


def check_records(
    view: View, partitions: int, sample: Sequence[SampledRecord]
) -> Iterator[Finding]:
    """Checks the keys, formats and partitions of the records."""
    subject = f"view {view.name}"
    try:
        view.codecs()
    except ConfigurationError:
        return  # check_classes says so
    if not sample:
        yield ok(subject, f"topic {view.topic} has no records yet: formats cannot be checked")
        return
    keyed = [record for record in sample if record.key is not None]
    if without_key := len(sample) - len(keyed):
        yield wrong(
            subject,
            f"{without_key} of {len(sample)} records of topic {view.topic} have no key: they "
            "become dead letters",
            "let the producers set a key, or derive a keyed topic (docs/spark.md)",
        )
    if not keyed:
        return
    bare_keys = []
    misfits = []
    for record in keyed:
        assert record.key is not None
        try:
            if not (view.key_fields and view.key_codec.needs_schemas):
                view.layout.stored_key(record.key, record.timestamp)
            key = view.layout.bare_key(record.key)
            _validate(view.key_codec, key)
        except ValueError as e:
            misfits.append(Misfit(record.key, str(e)))
        else:
            bare_keys.append((record.partition, key))
    yield format_finding(view, "key", misfits, [record.key or b"" for record in keyed])
    values = [record.value for record in keyed if record.value is not None]
    if values:
        misfits = [misfit for record in keyed if (misfit := _misfit(view, record)) is not None]
        yield format_finding(view, "value", misfits, values)
    yield from check_rows(view, sample)
    yield check_partitioner(view, partitions, bare_keys)


def _validate(codec: Codec, raw: bytes) -> None:
    """Raises ValueError with the reason. Schemas of a registry are not fetched here."""
    if codec.needs_schemas:
        schema_id_of(raw)
    else:
        codec.check(raw)


def _misfit(view: View, record: SampledRecord) -> Misfit | None:
    """The value and why it is not in the view's format; None if it is, or if there is none."""
    if record.value is None:
        return None
    try:
        _validate(view.record_codec, record.value)
    except ValueError as error:
        has_header = not HEADERS.isdisjoint(record.headers)
        return Misfit(record.value, f"{error}. {ID_IN_HEADER}" if has_header else str(error))
    try:
        if view.row_reader is not None and not view.record_codec.needs_schemas:
            view.row_reader(record.value)
    except ValueError as error:
        return Misfit(record.value, str(error), is_row=True)
    return None


def check_partitioner(
    view: View, partitions: int, bare_keys: Sequence[tuple[int, bytes]]
) -> Finding:
    """Whether each (partition, bare key) is in the partition of the view's partitioner."""
    subject = f"view {view.name}"
    if partitions <= 1 or not bare_keys:
        return ok(subject, f"partitioner {view.partitioner}: nothing to check")
    distinct = sorted(
        (partition, key)
        for partition, key in set(bare_keys)
        if not puts_anywhere(view.partitioner, key)
    )
    if not distinct:
        return ok(subject, f"partitioner {view.partitioner}: the sample has only the empty key")
    inferred = infer_partitioner(distinct, partitions)
    is_changelog = view.topic.endswith(CHANGELOG)
    if view.partitioner == ANY_PARTITION:
        is_certain = inferred.confidence is Confidence.CERTAIN
        if inferred.value == ANY_PARTITION or not is_certain or view.key_fields:
            return ok(subject, "partitioner none: reads ask all partitions")
        return warning(
            subject,
            f"each read asks all {partitions} partitions, but {inferred.reason}",
            f'set partitioner = "{inferred.value}" in {view_table(view.name)}, if all producers '
            f"{'of the input ' if is_changelog else ''}use it",
        )
    matches = count_matches(distinct, partitions)[view.partitioner]
    if matches == len(distinct):
        return ok(subject, f"{matches} keys are in the partition of {view.partitioner}")
    if inferred.value == view.partitioner:
        return _mispartitioned_empty_key(view)
    action = f'set partitioner = "{inferred.value}" in {view_table(view.name)}'
    if is_changelog:
        # only the application writes it: a record is in the partition of its task
        action += ": a changelog has the partitions of the application's input"
    else:
        action += f", or let the producers use {view.partitioner}"
    return wrong(
        subject,
        f"{len(distinct) - matches} of {len(distinct)} keys are not in the partition of "
        f"{view.partitioner}; {inferred.reason}",
        action,
    )


def _mispartitioned_empty_key(view: View) -> Finding:
    set_none = f'set partitioner = "none" in {view_table(view.name)}'
    return wrong(
        f"view {view.name}",
        f"the empty key is not in the partition of {view.partitioner}: librdkafka's default "
        "partitioner puts it into any partition",
        set_none
        if view.topic.endswith(CHANGELOG)
        else f"do not produce records with the empty key, or {set_none}",
    )


def check_shared_topics(views: Sequence[View]) -> Iterator[Finding]:
    """Whether all views of a topic have the same partitioner: that of the topic's producers."""
    by_topic: dict[str, list[View]] = {}
    for view in views:
        by_topic.setdefault(view.topic, []).append(view)
    for topic, sharing in by_topic.items():
        partitioners = {v.partitioner for v in sharing if v.partitioner != ANY_PARTITION}
        if len(partitioners) > 1:
            listed = ", ".join(f"{view.name} {view.partitioner}" for view in sharing)
            yield wrong(
                f"topic {topic}",
                f"its views have different partitioners: {listed}",
                "set the partitioner of the topic's producers in all of them",
            )
