"""Requests of administration, with an admin client that has its answers."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from model.kafka import admin as module
from model.kafka.admin import (
    LATEST,
    cause_of,
    code_of,
    configs,
    create_topic,
    offsets,
    reason_of,
    results,
)

LIMIT = {"message.timestamp.after.max.ms": "3600000"}


def done(result: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def failure(code: int, why: str | None = None) -> KafkaException:
    return KafkaException(KafkaError(code, why))


class Admin:
    """Refuses to create topics with these settings, or with this error. `asked`: the settings of
    each attempt. `offset`: of each partition."""

    def __init__(self, unknown: str = "", error: int | None = None, offset: int = 7) -> None:
        self.unknown, self.error, self.offset = unknown, error, offset
        self.asked: list[dict[str, str]] = []

    def create_topics(self, topics: Any, **_: Any) -> dict[str, Future[None]]:
        [topic] = topics
        self.asked.append(topic.config)
        if self.unknown in topic.config:
            return {topic.topic: done(failure(KafkaError.INVALID_CONFIG))}
        return {topic.topic: done(None if self.error is None else failure(self.error))}

    def list_offsets(self, wanted: Any, **_: Any) -> dict[Any, Future[Any]]:
        return {each: done(SimpleNamespace(offset=self.offset + each.partition)) for each in wanted}


def create(admin: Admin) -> bool:
    return create_topic(cast(Any, admin), "t", 1, {"a": "b"}, 1, optional=LIMIT)


def test_a_topic_is_created_if_it_does_not_exist() -> None:
    new = Admin()
    assert create(new)
    assert new.asked == [LIMIT | {"a": "b"}]
    assert not create(Admin(error=KafkaError.TOPIC_ALREADY_EXISTS))


def test_an_old_broker_gets_a_topic_without_the_settings_that_it_does_not_know() -> None:
    old = Admin(unknown=next(iter(LIMIT)))
    assert create(old)
    assert old.asked == [LIMIT | {"a": "b"}, {"a": "b"}]


@pytest.mark.parametrize(
    ("admin", "code", "attempts"),
    [
        (Admin(unknown="a"), KafkaError.INVALID_CONFIG, 2),
        (
            Admin(error=KafkaError.TOPIC_AUTHORIZATION_FAILED),
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            1,
        ),
    ],
)
def test_another_refusal_is_an_error(admin: Admin, code: int, attempts: int) -> None:
    with pytest.raises(KafkaException) as raised:
        create(admin)
    assert code_of(raised.value) == code
    assert len(admin.asked) == attempts


def test_offsets_are_by_topic_and_partition() -> None:
    found = offsets(cast(Any, Admin()), {"a": range(2), "b": [3]}, LATEST, 1)
    assert found == {"a": {0: 7, 1: 8}, "b": {3: 10}}


def test_a_partition_without_an_offset_is_an_error() -> None:
    with pytest.raises(TimeoutError, match="no offset of a-0"):
        offsets(cast(Any, Admin(offset=-1)), {"a": range(2)}, LATEST, 1)


def test_no_topic_has_no_settings() -> None:
    assert configs(cast(Any, None), [], 1) == {}


def test_all_results_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    assert results({"a": done(1), "b": done(2)}, 0) == {"a": 1, "b": 2}
    with pytest.raises(TimeoutError) as raised:
        results({"a": done(1), "b": Future[int]()}, 0.01)
    assert reason_of(raised.value) == "the broker does not answer"


def test_an_error_does_not_keep_the_client() -> None:
    """Regression: it was kept until the garbage collector ran, with its threads."""

    class Client:
        pass

    def ask(client: Client) -> None:
        with pytest.raises(KafkaException):
            results({"a": done(failure(KafkaError._TIMED_OUT))}, 1)

    gc.collect()
    gc.disable()
    try:
        client = Client()
        ask(client)
        is_kept = weakref.ref(client)
        del client
        assert is_kept() is None
    finally:
        gc.enable()


def test_a_refusal_of_a_connection_is_the_cause() -> None:
    error = failure(KafkaError._TIMED_OUT)
    down = KafkaError(KafkaError._TRANSPORT, "Connection refused")
    assert cause_of(error, [down]) is error
    for refused in (
        KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error"),
        KafkaError(KafkaError._TRANSPORT, "SSL alert"),
    ):
        assert reason_of(cause_of(error, [down, refused])) == refused.str()
        assert reason_of(cause_of(TimeoutError("no answer"), [refused])) == refused.str()
