"""Proposals for all changelogs of an application."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from queryable.cli.adopt.entries import view_entry
from queryable.cli.adopt.prompts import Ask
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.exit_codes import print_stderr
from queryable.cli.inspection.broker import Broker
from queryable.cli.inspection.deleted_records import find_deleted_records

_SUFFIX = "-changelog"
_NO_CHANGELOG = """\
# Stores without a changelog are not listed: stores with withLoggingDisabled(), global tables, and
# with topology.optimization the tables of builder.table(…). The records of tables are in their
# input topics; declare views of those (docs/kafka-streams.md)."""


def proposals(
    broker: Broker,
    application_id: str,
    ask: Ask,
    schemas: Schemas,
    sample_size: int,
    seconds: float,
) -> Iterator[str]:
    """TOML, one entry per changelog, and the table [schemas] if an entry needs it. Raises NoBroker,
    NoRegistry and BadUse."""
    topics = broker.topics()
    prefix = f"{application_id}-"
    changelogs = sorted(
        name for name in topics if name.startswith(prefix) and name.endswith(_SUFFIX)
    )
    if not changelogs:
        _report_no_changelogs(application_id, [name for name in topics if name.endswith(_SUFFIX)])
        return
    configs = broker.configs(changelogs)
    for number, topic in enumerate(changelogs, 1):
        if sys.stderr.isatty():
            print_stderr(f"{number} of {len(changelogs)}: {topic}")
        store = topic[len(prefix) : -len(_SUFFIX)]
        sample = broker.sample(topic, topics[topic], sample_size, seconds)
        now = time.time_ns() // 1_000_000
        deleted = find_deleted_records(configs[topic], sample, None, now)
        yield view_entry(
            store, topic, topics[topic], configs[topic], sample.records, ask, schemas, deleted
        )
    if schemas.toml:
        yield schemas.toml
    yield _NO_CHANGELOG


def _report_no_changelogs(application_id: str, others: list[str]) -> None:
    names = ", ".join(sorted(others)[:10]) or "none"
    print_stderr(
        f"No topic is named {application_id}-<store>{_SUFFIX}. Changelogs of this broker: {names}. "
        "APPLICATION_ID must be the application's `application.id`."
    )
