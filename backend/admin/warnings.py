"""What operators should know of an instance and of its views, apart from what is unreachable."""

from __future__ import annotations

from typing import Any

from backend.instance.context import QueryContext
from backend.instance.settings import Settings
from backend.security.configuration import open_to_others
from model.machine.clock import boot_time
from model.pipelines.status import FAILED, PAUSED, STOPPED
from model.views import CHANGELOG

_LONG_TRANSACTION = 10.0  # s


def instance_warnings(settings: Settings) -> list[dict[str, str]]:
    """Problems of the instance that was asked, for operators."""
    if not settings.is_open_to_others:
        return []
    return [{"code": "open-to-others", "text": open_to_others(settings)}]


def view_warnings(
    context: QueryContext, name: str, placement: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """Problems of a view, for operators; each is `{"code", "text"}`."""
    warnings = []

    def warn(code: str, text: str) -> None:
        warnings.append({"code": code, "text": text})

    placed = context.group.topology.views.get(name)
    count = placed.partitions if placed else 0
    declared = context.views.get(name)
    topic = placed.description["topic"] if placed else context.views[name].topic
    if context.group.known and not count:
        warn(
            "topic-missing",
            f"Topic {topic} does not exist, instances may not describe it, or its partitions are "
            f"not assigned yet.",
        )
    if context.group.known and (
        declared is None or (placed is not None and declared.hash != placed.hash)
    ):
        warn(
            "definition-differs",
            f"The definition of this view on {context.settings.instance_id} differs from the group "
            f"leader's: give all instances the same views.toml.",
        )
    mispartitioned = sum(p.get("mis_partitioned") or 0 for p in placement)
    if mispartitioned or (placed is not None and placed.mispartitioned):
        producers = "" if topic.endswith(CHANGELOG) else " or of the topic's producers"
        warn(
            "mis-partitioned",
            f"{_records(mispartitioned) if mispartitioned else 'Some records are'} in another "
            f"partition than the view's partitioner computes: reads of a key ask all partitions. "
            f"Correct the partitioner of the view{producers}.",
        )
    metadata = context.metadata_poller.get(topic)
    counts = {
        *(placed.partition_counts if placed else ()),
        metadata.partitions if metadata else 0,
        count,
    } - {0}
    if count and len(counts) > 1:
        warn(
            "repartitioned",
            f"The topic's number of partitions has changed "
            f"({' and '.join(map(str, sorted(counts)))}): keys whose partition has changed are "
            f"read from several partitions, until the view is rebuilt.",
        )
    held = max((p.get("open_transaction") or 0 for p in placement), default=0) / 1000
    if held >= _LONG_TRANSACTION:
        warn("open-transaction", _open_transaction(f"topic {topic}", held))
    pipeline = context.pipelines.get(name)
    if pipeline is not None:
        status = pipeline.status(boot_time())
        if (status.open_transaction or 0) >= _LONG_TRANSACTION:
            source = f"a source of the pipeline {pipeline.group}"
            warn("open-transaction", _open_transaction(source, status.open_transaction or 0))
        if status.state == PAUSED:
            warn(
                "pipeline-paused",
                f"The pipeline of topic {topic} (consumer group {pipeline.group}) is paused. To "
                f"continue: queryable pipeline {name} resume",
            )
        if status.state in (FAILED, STOPPED):
            why = f": {status.error}" if status.error else ""
            behind = "" if status.lag is None else f", {status.lag:,} records behind its sources"
            warn(
                f"pipeline-{status.state}",
                f"The pipeline of topic {topic} (consumer group {pipeline.group}) has "
                f"{status.state}{behind}{why}.",
            )
    dead, values, keys = (
        sum(p.get(name) or 0 for p in placement)
        for name in ("dead_letters", "unreadable_values", "unreadable_keys")
    )
    if dead:
        kinds = [f"{values:,} have an unreadable value"] if values else []
        kinds += [f"{keys:,} have an unreadable key"] if keys else []
        warn(
            "dead-letters",
            f"{_records(dead)} not in the view's formats"
            f"{': ' if kinds else ''}{', '.join(kinds)}. See topic {topic}.dead-letter.",
        )
    return warnings


def _open_transaction(source: str, seconds: float) -> str:
    return (
        f"A transaction of {source} has been open for {seconds:.0f} s or longer. Records after its "
        "beginning cannot be read until its producer, or the producer's transaction timeout, ends "
        "it. To find it: kafka-transactions.sh find-hanging"
    )


def _records(number: int) -> str:
    return "1 record is" if number == 1 else f"{number:,} records are"
