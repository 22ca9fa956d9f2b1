"""Requests to the brokers by confluent-kafka's AdminClient, with answers instead of futures.

Each request raises KafkaException if the brokers refuse it, and TimeoutError if there is no answer
after `timeout_s` plus GRACE_S. No request creates a topic, as `list_topics` of one topic may.
`model.kafka.clients` says which thread destroys a client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from confluent_kafka.cimpl import NewTopic

from model.kafka.obstacles import Obstacle, find_obstacle

GRACE_S = 1.0
"""The time after a request's timeout within which the client must report the timeout."""
EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Name = TypeVar("_Name")
_Result = TypeVar("_Result")


def results(futures: Mapping[_Name, Future[_Result]], timeout_s: float) -> dict[_Name, _Result]:
    """The results of a request, by the keys of `futures`. Raises the first error.

    A future refers to its error, the error to the frames that it has passed, and a frame to its
    variables. If one of these variables were the future, only the garbage collector, which rarely
    runs, would free the objects of these frames. One of them may be a client with four threads.
    """
    deadline = time.monotonic() + timeout_s + GRACE_S
    by_name: dict[_Name, _Result] = {}
    future: Future[_Result] | None = None
    try:
        for name, future in futures.items():
            by_name[name] = future.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise TimeoutError("the broker does not answer") from None
    finally:
        del future, futures
    return by_name


def describe(
    admin: AdminClient, topics: Iterable[str], timeout_s: float
) -> dict[str, TopicDescription]:
    """Ids and partitions by topic. A missing topic is an error: UNKNOWN_TOPIC_OR_PART."""
    collection = TopicCollection(list(topics))
    return results(admin.describe_topics(collection, request_timeout=timeout_s), timeout_s)


def configs(
    admin: AdminClient, topics: Iterable[str], timeout_s: float
) -> dict[str, dict[str, str]]:
    """The settings of each topic, with Kafka's names."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    descriptions = results(admin.describe_configs(resources, request_timeout=timeout_s), timeout_s)
    return {
        resource.name: {name: entry.value for name, entry in entries.items()}
        for resource, entries in descriptions.items()
    }


def offsets(
    admin: AdminClient,
    partitions: Mapping[str, Iterable[int]],
    spec: OffsetSpec,
    timeout_s: float,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[str, dict[int, int]]:
    """Offsets by topic and partition: EARLIEST, or LATEST, which is the last stable offset unless
    `isolation` is READ_UNCOMMITTED. Raises TimeoutError also for a partition without an offset."""
    requested = {
        TopicPartition(topic, number): spec
        for topic, numbers in partitions.items()
        for number in numbers
    }
    futures = admin.list_offsets(requested, isolation_level=isolation, request_timeout=timeout_s)
    by_topic: dict[str, dict[int, int]] = {topic: {} for topic in partitions}
    for partition, result in results(futures, timeout_s).items():
        if result.offset < 0:
            raise TimeoutError(f"no offset of {partition.topic}-{partition.partition}")
        by_topic[partition.topic][partition.partition] = result.offset
    return by_topic


def create_topic(
    admin: AdminClient,
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    timeout_s: float,
    *,
    replication: int = -1,
    optional: Mapping[str, str] | None = None,
) -> bool:
    """Create a topic. Returns False if it exists. `replication`: -1 for the broker's default.
    `optional`: more settings, without which it is created if the broker does not know them."""
    new = NewTopic(topic, partitions, replication, config={**(optional or {}), **config})
    try:
        results(admin.create_topics([new], operation_timeout=timeout_s), timeout_s)
    except KafkaException as error:
        if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if not optional or code_of(error) != KafkaError.INVALID_CONFIG:
            raise
        return create_topic(admin, topic, partitions, config, timeout_s, replication=replication)
    return True


def code_of(error: KafkaException) -> int:
    return int(error.args[0].code())


def reason_of(error: Exception) -> str:
    """The reason of an error, as text. It may quote a secret of the client's settings."""
    return str(error.args[0].str()) if isinstance(error, KafkaException) else str(error)


def cause_of(
    error: KafkaException | TimeoutError, reported: Iterable[KafkaError]
) -> KafkaException | TimeoutError:
    """The cause of a failed request: the failure of SASL or TLS that `error_cb` has reported, if
    there is one; otherwise `error`."""
    refused = next(filter(is_refusal, reported), None)
    return error if refused is None else KafkaException(refused)


@dataclass(frozen=True)
class Failure:
    """Why the brokers could not be asked. `why`: what librdkafka says, without secrets.
    `is_refusal`: whether SASL or TLS failed. `obstacle`: None if it is not known."""

    why: str
    is_refusal: bool
    obstacle: Obstacle | None


def failure_of(
    error: KafkaException | TimeoutError,
    errors: Collection[KafkaError],
    servers: str,
    settings: Mapping[str, str],
    source: str,
    hide: Callable[[str], str],
) -> Failure:
    """Why a request has failed; connects to the brokers once more to find out (`find_obstacle`).
    `errors`: those that `error_cb` has reported; `hide(text)`: the text without secrets."""
    reported = list(errors)  # librdkafka's threads add to it
    cause = cause_of(error, reported)
    why = hide(reason_of(cause))
    refused = isinstance(cause, KafkaException) and is_refusal(cause.args[0])
    texts = [kafka_error.str() for kafka_error in reported]
    obstacle = find_obstacle(servers, settings, source, why if refused else "", texts)
    return Failure(why, refused, obstacle)


def is_refusal(error: KafkaError) -> bool:
    """Whether a connection failed because of SASL or TLS. In TLS 1.3, the broker refuses a client's
    certificate after the handshake: librdkafka calls this a failure of the transport."""
    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or "SSL" in error.str()
