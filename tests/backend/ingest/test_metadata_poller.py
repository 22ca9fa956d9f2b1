"""Tests of the metadata poller with a fake broker; tests/system has tests with a real one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from backend.ingest import metadata_poller
from backend.ingest.lifecycle import missed_tombstones
from backend.ingest.lifecycle.missed_tombstones import boot_time
from backend.ingest.metadata_poller import MetadataPoller
from local.waiting import wait_until


class Admin:
    """An admin client with these results by partition."""

    def __init__(self, results: dict[int, int | KafkaException]) -> None:
        self.results = results

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        futures = {}
        for partition in requests:
            future: Future[Any] = Future()
            result = self.results[partition.partition]
            if isinstance(result, KafkaException):
                future.set_exception(result)
            else:
                future.set_result(SimpleNamespace(offset=result))
            futures[partition] = future
        return futures


class SilentAdmin:
    """An admin client that fails with this error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        future.set_exception(self._error or KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"orders": future}


@pytest.mark.parametrize(
    ("error", "has_answered"),
    [
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), False),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), False),
        (TimeoutError(), False),
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), True),
    ],
)
def test_a_refusal_is_an_answer(error: Exception, has_answered: bool) -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = SilentAdmin(error)  # type: ignore[assignment]
    assert poller.poll({"orders": {0}}) is has_answered


def test_a_client_that_gets_no_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: after an outage, one waited for the controller for minutes."""
    made: list[SilentAdmin] = []

    def make(settings: Mapping[str, Any]) -> SilentAdmin:
        assert settings["client.id"] == "queryable-metadata-poller"
        made.append(SilentAdmin())
        return made[-1]

    monkeypatch.setattr(metadata_poller, "AdminClient", make)
    monkeypatch.setattr(metadata_poller, "_NEW_CLIENT_AFTER", 0.1)
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 0.01, 1.0)
    poller.start()
    try:
        poller.watch({"orders": {0}})
        wait_until(lambda: len(made) >= 3, 10, "new clients", 0.01)
    finally:
        poller.stop()
    assert not poller.alive


class DescribingAdmin(Admin):
    """A topic with five partitions, of which each has as many records as its number says. Keeps
    for which partitions it was asked. Those in `without_leader` have no offsets."""

    def __init__(self, without_leader: Collection[int] = ()) -> None:
        no_leader = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        super().__init__(
            {number: no_leader if number in without_leader else number for number in range(5)}
        )
        self.topic_id, self.partitions = "topic-1", 5
        self.asked: list[set[int]] = []
        self.configs = {"cleanup.policy": "delete"}
        self.refused: set[str] = set()  # topics whose configuration may not be read

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(
            SimpleNamespace(topic_id=self.topic_id, partitions=[None] * self.partitions)
        )
        return dict.fromkeys(topics.topic_names, future)

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        self.asked.append({partition.partition for partition in requests})
        return super().list_offsets(requests)

    def describe_configs(self, resources: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        if resources[0].name in self.refused:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            future.set_exception(KafkaException(error))
        else:
            configs = self.configs.items()
            future.set_result({name: SimpleNamespace(value=value) for name, value in configs})
        return {resources[0]: future}


@pytest.mark.parametrize(
    ("watched", "needed"), [({1, 3}, {1, 3}), ({4, 7}, {4}), (None, set(range(5)))]
)
def test_offsets_are_fetched_for_partitions_of_this_instance(
    watched: set[int] | None, needed: set[int]
) -> None:
    """Regression: each of 2,000 instances asked for all 20,000 partitions each second."""
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = admin = DescribingAdmin()  # type: ignore[assignment]
    assert poller.poll({"orders": watched})
    assert admin.asked == [needed, needed]
    found = poller.latest["orders"]
    assert (found.partitions, set(found.starts)) == (5, needed)
    assert found.ends == {number: number for number in needed}
    assert 0 <= boot_time() - found.fetched_boot_time < 60


def test_partitions_without_a_leader_do_not_hide_the_others() -> None:
    """Regression: nothing was known of a topic while one of its partitions had no leader."""
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = DescribingAdmin({1, 2})  # type: ignore[assignment]
    assert poller.poll({"orders": None})
    found = poller.latest["orders"]
    assert (found.partitions, found.ends) == (5, {0: 0, 3: 3, 4: 4})
    assert found.starts.keys() == found.ends.keys()
    assert not found.has_all_offsets


def test_an_invalid_offset_is_none() -> None:
    """As a log end, it would look like truncation."""
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = admin = DescribingAdmin()  # type: ignore[assignment]
    admin.results[2] = OFFSET_INVALID
    assert poller.poll({"orders": {1, 2, 3}})
    assert poller.latest["orders"].ends == {1: 1, 3: 3}


class Recreating(DescribingAdmin):
    """The topic is created again after the first two answers of a poll with offsets."""

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        answers = super().list_offsets(requests)
        if len(self.asked) == 4:
            self.results = {number: 10 + number for number in range(5)}
        return answers


def test_the_offsets_of_a_topic_that_is_created_again_are_its_own() -> None:
    """They are requested together with the description, by what is known of the topic."""
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = admin = Recreating()  # type: ignore[assignment]
    assert poller.poll({"orders": {1, 3}})
    assert poller.latest["orders"].ends == {1: 1, 3: 3}
    admin.topic_id = "topic-2"
    assert poller.poll({"orders": {1, 3}})
    found = poller.latest["orders"]
    assert (found.topic_id, found.starts, found.ends) == ("topic-2", {1: 11, 3: 13}, {1: 11, 3: 13})
    assert len(admin.asked) == 6
    assert poller.poll({"orders": {1, 3}})
    assert len(admin.asked) == 8, "they are not requested twice if nothing has changed"


def test_added_partitions_have_offsets_at_once() -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = admin = DescribingAdmin()  # type: ignore[assignment]
    admin.partitions = 3
    assert poller.poll({"orders": {1, 4}})
    assert poller.latest["orders"].ends == {1: 1}
    admin.partitions = 5
    assert poller.poll({"orders": {1, 4}})
    assert poller.latest["orders"].ends == {1: 1, 4: 4}


class Deleting(DescribingAdmin):
    """After `is_deleted`, one topic does not exist any more, and requests that ask for its offsets
    get no answer."""

    deleted = "deleted"
    is_deleted = False

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        described = super().describe_topics(topics)
        if self.is_deleted:
            described[self.deleted] = Future()
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            described[self.deleted].set_exception(KafkaException(error))
        return described

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        answers = super().list_offsets(requests)
        if self.is_deleted and any(each.topic == self.deleted for each in requests):
            return {partition: Future() for partition in requests}
        return answers


def test_a_deleted_topic_hides_the_others_for_one_poll_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_poller, "_GRACE", 0.0)
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 0.05)
    poller._admin = admin = Deleting()  # type: ignore[assignment]
    watched = {"orders": {1}, admin.deleted: {2}}
    assert poller.poll(watched)
    admin.is_deleted, admin.results[1] = True, 7
    assert poller.poll(watched)
    assert poller.latest["orders"].ends == {1: 1}
    assert poller.poll(watched)
    assert poller.latest["orders"].ends == {1: 7}


class Trimming(DescribingAdmin):
    """Records are deleted between the answers, up to a log end that is newer."""

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        self.results[3] = 9 if len(self.asked) == 0 else 8
        return super().list_offsets(requests)


def test_a_log_does_not_start_after_its_end() -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = Trimming()  # type: ignore[assignment]
    assert poller.poll({"orders": {1, 3}})
    assert poller.latest["orders"].ends == {1: 1}
    assert poller.poll({"orders": {1, 3}})
    assert poller.latest["orders"].ends == {1: 1, 3: 8}


def test_a_topic_whose_configuration_is_refused_does_not_hide_the_others() -> None:
    """Regression: no view of the instance was opened."""
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = admin = DescribingAdmin()  # type: ignore[assignment]
    admin.refused = {"a"}
    assert poller.poll({"a": {1}, "orders": {1}})
    assert poller.latest.keys() == {"orders"}


def test_a_short_retention_shortens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: stores of a topic that is always written were rebuilt again and again."""
    monkeypatch.setattr(missed_tombstones, "_TOLERATED", 0.04)
    admin = DescribingAdmin()
    admin.configs = {"cleanup.policy": "compact", "delete.retention.ms": "10"}
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 3600.0, 1.0)
    poller._admin = admin  # type: ignore[assignment]
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
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 3600.0, 1.0)
    poller._admin = admin = DescribingAdmin()  # type: ignore[assignment]
    admin.configs = {"cleanup.policy": policy, "delete.retention.ms": retention}
    poller.poll({"orders": {1}})
    assert poller._seconds_to_next_poll() == seconds


def test_a_change_of_the_configuration_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = admin = DescribingAdmin()  # type: ignore[assignment]
    poller.poll({"orders": {1}})
    admin.configs = {"cleanup.policy": "compact,delete", "delete.retention.ms": "1000"}
    poller.poll({"orders": {1}})
    assert poller.latest["orders"].delete_retention is None, "it is not read at each poll"
    monkeypatch.setattr(metadata_poller, "_CONFIG_EVERY", 0.0)
    poller.poll({"orders": {1}})
    assert poller.latest["orders"].delete_retention == 1000
    admin.refused = {"orders"}
    poller.poll({"orders": {1}})
    assert poller.latest["orders"].delete_retention == 1000


def test_without_any_offset_the_previous_metadata_stay() -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = DescribingAdmin()  # type: ignore[assignment]
    poller.poll({"orders": {1, 3}})
    before = poller.latest["orders"]
    poller._admin = DescribingAdmin({1, 3})  # type: ignore[assignment]
    poller.poll({"orders": {1, 3}})
    assert poller.latest["orders"] is before


def test_a_topic_that_is_not_watched_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it was taken for the current metadata: the leader placed partitions of a topic
    that was created again by what was known of the old one."""
    monkeypatch.setattr(metadata_poller, "_FORGET_AFTER", 0.2)
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 3600.0, 1.0)
    poller._admin = DescribingAdmin()  # type: ignore[assignment]
    poller.start()
    try:
        for watched in ({"orders": {1}, "users": {1}}, {"orders": {1}}, {}, {"users": set[int]()}):
            poller.watch(watched)
            wait_until(lambda watched=watched: poller.latest.keys() == watched.keys(), 10, "a poll")
    finally:
        poller.stop()
