"""Tests of the metadata fetcher with a fake broker; tests/system has tests with a real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from backend.ingest.metadata import fetcher as module
from backend.ingest.metadata.fetcher import MetadataFetcher
from backend.kafka.clients import Librdkafka
from model.machine.clock import boot_time
from tests.unit.backend.ingest.metadata.admins import DescribingAdmin, SilentAdmin


def fetcher_with(admin: Any, timeout: float = 1.0) -> MetadataFetcher:
    """A fetcher that asks `admin` instead of a broker."""
    return MetadataFetcher({}, timeout, Librdkafka(lambda settings: admin))


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
    fetcher = fetcher_with(SilentAdmin(error))
    assert fetcher.fetch({"orders": {0}}) is has_answered


@pytest.mark.parametrize(
    ("watched", "needed"), [({1, 3}, {1, 3}), ({4, 7}, {4}), (None, set(range(5)))]
)
def test_offsets_are_fetched_for_partitions_of_this_instance(
    watched: set[int] | None, needed: set[int]
) -> None:
    """Regression: each of 2,000 instances asked for all 20,000 partitions each second."""
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    assert fetcher.fetch({"orders": watched})
    assert admin.asked == [needed] * 3, "starts, ends and high watermarks"
    found = fetcher.latest["orders"]
    assert (found.partitions, set(found.starts)) == (5, needed)
    assert found.ends == {number: number for number in needed}
    assert 0 <= boot_time() - found.fetched_boot_time < 60


def test_partitions_without_a_leader_do_not_hide_the_others() -> None:
    """Regression: nothing was known of a topic while one of its partitions had no leader."""
    fetcher = fetcher_with(DescribingAdmin({1, 2}))
    assert fetcher.fetch({"orders": None})
    found = fetcher.latest["orders"]
    assert (found.partitions, found.ends) == (5, {0: 0, 3: 3, 4: 4})
    assert found.starts.keys() == found.ends.keys()
    assert not found.has_all_offsets


class SlowlyDescribing(DescribingAdmin):
    """Descriptions take a while. Fails a request for offsets before they are there: see `fetch`."""

    describing: Future[Any] | None = None

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        [(topic, described)] = super().describe_topics(topics).items()
        self.describing = later = Future()
        threading.Timer(0.02, lambda: later.set_result(described.result())).start()
        return {topic: later}

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        if self.describing is not None:
            assert self.describing.done()
        return super().list_offsets(requests)

    def __exit__(self, *_: object) -> None:
        pass


def test_a_new_client_knows_the_leaders_before_offsets_are_requested() -> None:
    """Regression: the process ended (SIGSEGV in librdkafka) when a client had been replaced."""
    admin = SlowlyDescribing()
    fetcher = fetcher_with(admin)
    for _ in range(2):
        assert fetcher.fetch({"orders": None})
        assert fetcher.latest["orders"].has_all_offsets
        fetcher.reconnect()


def test_offsets_of_partitions_without_a_leader_are_not_requested() -> None:
    """As before. While a partition has none, descriptions come first."""
    admin = SlowlyDescribing({1, 2}, is_known=True)
    fetcher = fetcher_with(admin)
    for _ in range(2):
        assert fetcher.fetch({"orders": None})
        assert fetcher.latest["orders"].ends == {0: 0, 3: 3, 4: 4}
        assert not fetcher.latest["orders"].has_all_offsets
    assert admin.asked == [{0, 3, 4}] * 6


def test_an_invalid_offset_is_none() -> None:
    """As a log end, it would look like truncation."""
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    admin.results[2] = OFFSET_INVALID
    assert fetcher.fetch({"orders": {1, 2, 3}})
    assert fetcher.latest["orders"].ends == {1: 1, 3: 3}


class Recreating(DescribingAdmin):
    """The topic is created again after the first answers with offsets."""

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        answers = super().list_offsets(requests)
        if len(self.asked) == 6:
            self.results = {number: 10 + number for number in range(5)}
        return answers


def test_the_offsets_of_a_topic_that_is_created_again_are_its_own() -> None:
    """They are requested together with the description, by what is known of the topic."""
    admin = Recreating()
    fetcher = fetcher_with(admin)
    assert fetcher.fetch({"orders": {1, 3}})
    assert fetcher.latest["orders"].ends == {1: 1, 3: 3}
    admin.topic_id = "topic-2"
    assert fetcher.fetch({"orders": {1, 3}})
    found = fetcher.latest["orders"]
    assert (found.topic_id, found.starts, found.ends) == ("topic-2", {1: 11, 3: 13}, {1: 11, 3: 13})
    assert len(admin.asked) == 9
    assert fetcher.fetch({"orders": {1, 3}})
    assert len(admin.asked) == 12, "they are not requested twice if nothing has changed"


def test_log_starts_that_are_known_need_not_be_fetched() -> None:
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    assert fetcher.fetch({"orders": {1, 3}}, with_known_starts=False)
    assert admin.asked == [{1, 3}] * 3, "they are not known yet"
    admin.results = {number: 10 + number for number in range(5)}
    assert fetcher.fetch({"orders": {1, 3, 4}}, with_known_starts=False)
    found = fetcher.latest["orders"]
    assert (found.starts, found.ends) == ({1: 1, 3: 3, 4: 14}, {1: 11, 3: 13, 4: 14})
    assert admin.asked[3:] == [{4}, {1, 3, 4}, {1, 3, 4}]
    assert fetcher.fetch({"orders": {1, 3, 4}})
    assert fetcher.latest["orders"].starts == {1: 11, 3: 13, 4: 14}


def test_a_log_that_ends_before_its_known_start_was_truncated() -> None:
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    assert fetcher.fetch({"orders": {1, 3}})
    admin.results[3] = 2
    assert fetcher.fetch({"orders": {1, 3}}, with_known_starts=False)
    assert fetcher.latest["orders"].ends == {1: 1, 3: 2}
    assert fetcher.latest["orders"].starts == {1: 1, 3: 2}


def test_known_log_starts_of_a_topic_that_is_created_again_do_not_count() -> None:
    admin = Recreating()
    fetcher = fetcher_with(admin)
    assert fetcher.fetch({"orders": {1, 3}})
    admin.topic_id, admin.results = "topic-2", dict.fromkeys(range(5), 5)
    assert fetcher.fetch({"orders": {1, 3}}, with_known_starts=False)
    assert fetcher.latest["orders"].starts == {1: 5, 3: 5}


def test_the_offsets_of_a_deleted_topic_are_not_awaited() -> None:
    """They are never answered, and its description is refused at once."""
    admin = Deleting()
    fetcher = fetcher_with(admin, timeout=60.0)
    assert fetcher.fetch({admin.deleted: {2}})
    admin.is_deleted = True
    began = time.monotonic()
    assert fetcher.fetch({admin.deleted: {2}})
    assert time.monotonic() - began < 30


def test_added_partitions_have_offsets_at_once() -> None:
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    admin.partitions = 3
    assert fetcher.fetch({"orders": {1, 4}})
    assert fetcher.latest["orders"].ends == {1: 1}
    admin.partitions = 5
    assert fetcher.fetch({"orders": {1, 4}})
    assert fetcher.latest["orders"].ends == {1: 1, 4: 4}


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


def test_a_deleted_topic_hides_the_others_for_one_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    admin = Deleting()
    fetcher = fetcher_with(admin, timeout=0.05)
    watched = {"orders": {1}, admin.deleted: {2}}
    assert fetcher.fetch(watched)
    admin.is_deleted, admin.results[1] = True, 7
    assert fetcher.fetch(watched)
    assert fetcher.latest["orders"].ends == {1: 1}
    assert fetcher.fetch(watched)
    assert fetcher.latest["orders"].ends == {1: 7}


class Trimming(DescribingAdmin):
    """Records are deleted between the answers, up to a log end that is newer."""

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        self.results[3] = 9 if len(self.asked) == 0 else 8
        return super().list_offsets(requests)


def test_a_log_does_not_start_after_its_end() -> None:
    fetcher = fetcher_with(Trimming())
    assert fetcher.fetch({"orders": {1, 3}})
    assert fetcher.latest["orders"].ends == {1: 1}
    assert fetcher.fetch({"orders": {1, 3}})
    assert fetcher.latest["orders"].ends == {1: 1, 3: 8}


def test_a_topic_whose_configuration_is_refused_does_not_hide_the_others() -> None:
    """Regression: no view of the instance was opened."""
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    admin.refused = {"a"}
    assert fetcher.fetch({"a": {1}, "orders": {1}})
    assert fetcher.latest.keys() == {"orders"}


def test_a_change_of_the_configuration_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    fetcher.fetch({"orders": {1}})
    admin.configs = {"cleanup.policy": "compact,delete", "delete.retention.ms": "1000"}
    fetcher.fetch({"orders": {1}})
    assert fetcher.latest["orders"].delete_retention is None, "it is not read each time"
    monkeypatch.setattr(module, "_CONFIG_EVERY", 0.0)
    fetcher.fetch({"orders": {1}})
    assert fetcher.latest["orders"].delete_retention == 1000
    admin.refused = {"orders"}
    fetcher.fetch({"orders": {1}})
    assert fetcher.latest["orders"].delete_retention == 1000


def test_without_any_offset_the_previous_metadata_stay() -> None:
    admin = DescribingAdmin()
    fetcher = fetcher_with(admin)
    fetcher.fetch({"orders": {1, 3}})
    before = fetcher.latest["orders"]
    admin.results = DescribingAdmin({1, 3}).results
    fetcher.fetch({"orders": {1, 3}})
    assert fetcher.latest["orders"] is before
