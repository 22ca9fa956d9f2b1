"""Tests of the metadata poller, with a fake broker."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from backend.ingest.lifecycle import missed_tombstones
from backend.ingest.metadata import poller as poller_module
from backend.ingest.metadata.fetcher import MetadataFetcher
from backend.ingest.metadata.poller import MetadataPoller, poll_interval
from backend.kafka.clients import Librdkafka
from local.waiting import wait_until
from tests.unit.backend.ingest.metadata.admins import DescribingAdmin, SilentAdmin


def poller_with(admin: Any, interval: float = 3600.0) -> MetadataPoller:
    fetcher = MetadataFetcher({}, 1.0, Librdkafka(lambda settings: admin))
    return MetadataPoller(fetcher, interval, 1.0)


def test_a_client_that_gets_no_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: after an outage, one waited for the controller for minutes."""
    made: list[Any] = []

    def make(settings: Mapping[str, Any]) -> Any:
        assert settings["client.id"] == "queryable-metadata-poller"
        made.append(SilentAdmin())
        return made[-1]

    monkeypatch.setattr(poller_module, "_NEW_CLIENT_AFTER", 0.1)
    poller = MetadataPoller(MetadataFetcher({}, 1.0, Librdkafka(make)), 0.01, 1.0)
    poller.start()
    try:
        poller.watch({"orders": {0}})
        wait_until(lambda: len(made) >= 3, 10, "new clients", 0.01)
    finally:
        poller.stop()
    assert not poller.alive
    assert [each.closed for each in made] == [True] * (len(made) - 1) + [False]


def test_a_short_retention_shortens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: stores of a topic that is always written were rebuilt again and again."""
    monkeypatch.setattr(missed_tombstones, "_TOLERATED", 0.04)
    admin = DescribingAdmin()
    admin.configs = {"cleanup.policy": "compact", "delete.retention.ms": "10"}
    poller = poller_with(admin)
    poller.start()
    try:
        poller.watch({"orders": {1}})
        wait_until(lambda: len(admin.asked) >= 8, 10, "four polls", 0.01)
    finally:
        poller.stop()


@pytest.mark.parametrize(
    ("policy", "retention", "seconds"),
    [("compact", "1000", 15), ("compact", "120000", 30), ("compact", "86400000", 3600),
     ("delete", "1000", 3600)],
)  # fmt: skip
def test_the_interval_with_a_retention(policy: str, retention: str, seconds: float) -> None:
    admin: Any = DescribingAdmin()
    admin.configs = {"cleanup.policy": policy, "delete.retention.ms": retention}
    fetcher = MetadataFetcher({}, 1.0, Librdkafka(lambda settings: admin))
    fetcher.fetch({"orders": {1}})
    assert poll_interval(3600.0, fetcher.latest.values()) == seconds


@pytest.mark.slow
def test_a_topic_that_is_not_watched_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it was taken for the current metadata: the leader placed partitions of a topic
    that was created again by what was known of the old one."""
    monkeypatch.setattr(poller_module, "_FORGET_AFTER", 0.2)
    poller = poller_with(DescribingAdmin())
    poller.start()
    try:
        for watched in ({"orders": {1}, "users": {1}}, {"orders": {1}}, {}, {"users": set[int]()}):
            poller.watch(watched)
            wait_until(lambda watched=watched: poller.latest.keys() == watched.keys(), 10, "a poll")
    finally:
        poller.stop()


def test_log_starts_are_fetched_seldom_or_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller_module, "_STARTS_EVERY", 3600.0)
    admin = DescribingAdmin()
    poller = poller_with(admin, 0.01)
    polls: list[int] = []
    poller.on_poll = lambda: polls.append(len(admin.asked))
    poller.watch({"orders": {1}})
    poller.start()
    try:
        wait_until(lambda: len(polls) >= 4, 10, "polls", 0.005)
        assert [after - before for before, after in pairwise([0, *polls])][:4] == [3, 2, 2, 2]
        seen = len(polls)
        poller.refresh()
        wait_until(lambda: len(polls) >= seen + 3, 10, "polls", 0.005)
        steps = [after - before for before, after in pairwise(polls[seen - 1 :])]
        assert 3 in steps[:2], "one poll may have been in progress"
        monkeypatch.setattr(poller_module, "_STARTS_EVERY", 0.0)
        seen = len(polls)
        wait_until(lambda: len(polls) >= seen + 3, 10, "polls", 0.005)
        assert polls[-1] - polls[-2] == 3
    finally:
        poller.stop()
