"""Fakes for objects that need a broker: records, constant metadata, idle threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backend.ingest.metadata.topic_metadata import TopicMetadata
from model.problems import NotFound


class FakeWatcher:
    """Returns the metadata that a test puts into `latest`."""

    alive = True

    def __init__(self) -> None:
        self.latest: dict[str, TopicMetadata] = {}

    def get(self, topic: str) -> TopicMetadata | None:
        return self.latest.get(topic)


class FakeIngestor:
    alive = True
    failure = None
    rebuilds = 0
    progress_at = float("inf")

    def __init__(self) -> None:
        self.not_open: dict[tuple[str, int], str] = {}

    def opening(self) -> dict[tuple[str, int], str]:
        return self.not_open


class FakeUnusedGroups:
    """A broker without groups."""

    def all(self) -> list[str]:
        return []

    def delete(self, group: str) -> None:
        raise NotFound("group-not-found", f"There is no consumer group {group}.")


class FakeDeadLetterReader:
    """A broker without dead letters."""

    def newest(self, topic: str, limit: int) -> dict[str, Any]:
        return {"topic": f"{topic}.dead-letter", "stored": 0, "items": []}


class FakeSnapshotFetcher:
    def under_way(self) -> dict[tuple[str, int], Any]:
        return {}


class FakeMember:
    alive = True
    rebalance_seconds = 0.0


@dataclass(frozen=True)
class Rec:
    """A record with the interface of confluent_kafka's Message. Times are in ms."""

    at: int
    k: bytes | None
    v: bytes | None
    time: int = 7

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time

    def leader_epoch(self) -> int | None:
        return None

    def headers(self) -> None:
        return None


class FakeFetcher:
    """Keeps the position that it is assigned."""

    reads_from: int | None = None

    def assign(self, source: Any, position: int, leader_epoch: int) -> None:
        self.reads_from = position

    def unassign(self, source: Any) -> None:
        self.reads_from = None
