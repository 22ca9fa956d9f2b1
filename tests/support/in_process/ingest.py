"""Ingest without its thread and without a broker, composed like in the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from backend.ingest.applier import RecordApplier
from backend.ingest.consumer import SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.lifecycle.partitions import PartitionLifecycle
from backend.ingest.lifecycle.recovery import RecoveryPolicy
from backend.ingest.loop import IngestLoop
from backend.ingest.pushes.candidates import PushCandidates
from backend.ingest.pushes.push_fetcher import PushFetcher
from backend.ingest.read_priority import ReadPriority
from backend.ingest.store_partitions import PartitionRegistry
from backend.ingest.writer import PartitionWriter
from model.views import View
from tests.support.in_process.fakes import FakeFetcher, FakeWatcher
from tests.support.in_process.logs import NoSnapshots


@dataclass
class Ingest:
    """The parts of ingest, which share one registry."""

    lifecycle: PartitionLifecycle
    applier: RecordApplier
    assignments: SourceAssignments
    loop: IngestLoop


def ingest_of(
    views: Sequence[View],
    folder: Any,
    registry: PartitionRegistry,
    metadata_poller: Any,
    consumer: Any,
    dead_letters: Any = None,
    snapshots: Any = None,
    acceptable_recovery_lag: int = 0,
    cleanup_delay: float = 0.0,
    fetcher: PushFetcher | None = None,
    release_free_memory: Callable[[], None] = lambda: None,
    reads_served: Callable[[], int] = lambda: 0,
) -> Ingest:
    """`consumer` and the others may be fakes."""
    dead_letters = DeadLetters({}, 0) if dead_letters is None else dead_letters
    assignments = SourceAssignments(registry)
    assignments.consumer = consumer
    writer = PartitionWriter(lambda: None)
    policy = RecoveryPolicy(acceptable_recovery_lag, cleanup_delay)
    pushes = None
    if fetcher is not None:
        pushes = PushCandidates(fetcher, folder, registry, assignments, policy.clock_tolerance)
    lifecycle = PartitionLifecycle(
        views,
        folder,
        registry,
        metadata_poller,
        NoSnapshots() if snapshots is None else snapshots,
        dead_letters,
        assignments,
        writer,
        policy,
        pushes,
    )
    read_priority = ReadPriority(reads_served)
    applier = RecordApplier(
        registry,
        lifecycle,
        metadata_poller,
        dead_letters,
        assignments,
        writer,
        read_priority,
        policy.clock_tolerance,
        release_free_memory,
    )
    settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    loop = IngestLoop(
        registry, lifecycle, applier, assignments, dead_letters, settings, read_priority, 5.0
    )
    return Ingest(lifecycle, applier, assignments, loop)


def ingest_without_broker(
    of: View,
    folder: Any,
    registry: PartitionRegistry,
    release_free_memory: Callable[[], None] = lambda: None,
) -> Ingest:
    """Ingest of one view. Its topic has no metadata."""
    poller = FakeWatcher()
    cast(Any, poller).refresh = lambda: None
    return ingest_of(
        (of,),
        folder,
        registry,
        poller,
        FakeFetcher(),
        release_free_memory=release_free_memory,
    )
