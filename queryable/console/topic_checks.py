"""Whether a view and its topic fit: from the topic's settings and some of its records, without
I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.formats.avro.codecs import CONFLUENT
from model.formats.codecs import Codec
from model.views import ANY_PARTITION, CHANGELOG, View
from queryable.console.findings import Finding, ok, warning, wrong
from queryable.console.forgotten import kept_for
from queryable.console.guessed_partitioner import fitting, partitioner_of
from queryable.console.guesses import Sampled, Sure
from queryable.console.guessing import duration


def cleanup(view: View, config: Mapping[str, str]) -> Finding:
    """Whether what the view keeps is in the topic when it has to be read again."""
    about = f"view {view.name}"
    policy = config.get("cleanup.policy", "delete")
    kept = kept_for(config)
    if kept is None:
        return ok(about, f"topic {view.topic} has cleanup.policy {policy}, and keeps each key")
    says = f"topic {view.topic} ({policy}) forgets records after {duration(kept)}"
    if view.retention is None:
        return warning(
            about,
            f"{says}, and the view never: rebuilt, it has less than before",
            f"set retention in [views.{view.name}] to that of the store, as the application's code "
            "says it: the topic does not"
            if view.topic.endswith(CHANGELOG)
            else f'set retention = "{duration(kept)}" in [views.{view.name}], or the topic\'s '
            "cleanup.policy=compact",
        )
    if view.retention > kept:
        return warning(
            about,
            f"{says}, and the view after {duration(view.retention)}: rebuilt, it has less",
            f"set the topic's retention.ms to {view.retention} or more",
        )
    return ok(about, f"{says}, the view after {duration(view.retention)}")


def records(view: View, partitions: int, sampled: Sequence[Sampled]) -> Iterator[Finding]:
    """Their keys, formats and places."""
    about = f"view {view.name}"
    if not sampled:
        yield ok(about, f"topic {view.topic} has no record yet: formats are not known")
        return
    keyed = [record for record in sampled if record.key is not None]
    if missing := len(sampled) - len(keyed):
        yield wrong(
            about,
            f"{missing} of {len(sampled)} records of topic {view.topic} have no key: dead letters",
            "let the producers set a key; a topic without keys has to be derived first "
            "(docs/spark.md)",
        )
    if not keyed:
        return
    bare = []
    unfit = 0
    for record in keyed:
        assert record.key is not None
        try:
            view.layout.stored_key(record.key, record.timestamp)
            key = view.layout.bare_key(record.key)
            _check(view.key_codec, view.key_schema, key)
        except ValueError:
            unfit += 1
        else:
            bare.append((record.partition, key))
    yield _fit(view, "key", view.key, unfit, len(keyed))
    values = [record.value for record in keyed if record.value is not None]
    unfit = sum(not _fits(view, value) for value in values)
    if values:
        yield _fit(view, "value", view.value, unfit, len(values))
    yield placed(view, partitions, bare)


def _check(codec: Codec, schema: str | None, raw: bytes) -> None:
    # what a registry has to tell is not asked for here
    if schema != CONFLUENT:
        codec.check(raw)


def _fits(view: View, value: bytes) -> bool:
    try:
        _check(view.value_codec, view.value_schema, value)
    except ValueError:
        return False
    return True


def _fit(view: View, what: str, format_: str, unfit: int, of: int) -> Finding:
    about = f"view {view.name}"
    if not unfit:
        return ok(about, f"{of} {what}s that were looked at are {format_}")
    return wrong(
        about,
        f'{unfit} of {of} {what}s of topic {view.topic} do not fit {what} = "{format_}"'
        f"{' in a ' + view.store + ' store' if what == 'key' else ''}: dead letters",
        f"set {what}{' and store' if what == 'key' else ''} in [views.{view.name}] to what the "
        "producers write",
    )


def placed(view: View, partitions: int, keys: Sequence[tuple[int, bytes]]) -> Finding:
    """Whether the (partition, bare key) are where the view's partitioner puts them."""
    about = f"view {view.name}"
    if partitions <= 1 or not keys:
        return ok(about, f"partitioner {view.partitioner}: nothing to compare")
    different = sorted(set(keys))
    guessed = partitioner_of(different, partitions)
    if view.partitioner == ANY_PARTITION:
        if guessed.value == ANY_PARTITION or guessed.sure is not Sure.SURE:
            return ok(about, "partitioner none: all partitions are asked")
        return warning(
            about,
            f"each read asks all {partitions} partitions, and {guessed.why}",
            f'set partitioner = "{guessed.value}" in [views.{view.name}], if all producers '
            f"{'of the input ' * view.topic.endswith(CHANGELOG)}have it",
        )
    right = fitting(different, partitions)[view.partitioner]
    if right == len(different):
        return ok(about, f"{right} keys are where {view.partitioner} puts them")
    if guessed.value == view.partitioner:
        return wrong(
            about,
            f"the empty key is not where {view.partitioner} puts it: librdkafka's default puts it "
            "anywhere",
            f'set partitioner = "none" in [views.{view.name}]'
            if view.topic.endswith(CHANGELOG)
            else "let the producers not use it, or set "
            f'partitioner = "none" in [views.{view.name}]',
        )
    do = f'set partitioner = "{guessed.value}" in [views.{view.name}]'
    if view.topic.endswith(CHANGELOG):
        # nobody but the application writes it: a record is where its task is
        do += ": a changelog's records are where the application's input has put them"
    else:
        do += f", or let the producers use {view.partitioner}"
    return wrong(
        about,
        f"{len(different) - right} of {len(different)} keys are not where {view.partitioner} puts "
        f"them; {guessed.why}",
        do,
    )


def shared(views: Sequence[View]) -> Iterator[Finding]:
    """Whether views of one topic agree on what only the topic's producers decide."""
    by_topic: dict[str, list[View]] = {}
    for view in views:
        by_topic.setdefault(view.topic, []).append(view)
    for topic, of in by_topic.items():
        named = {view.partitioner for view in of if view.partitioner != ANY_PARTITION}
        if len(named) > 1:
            said = ", ".join(f"{view.name} {view.partitioner}" for view in of)
            yield wrong(
                f"topic {topic}",
                f"its views name different partitioners: {said}",
                "give them the one of the topic's producers",
            )
