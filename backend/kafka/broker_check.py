"""Waits for the broker at the start, and says why there is no connection to it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from backend.instance.settings import Settings
from backend.kafka.clients import KafkaClients
from model.kafka.admin import failure_of
from model.kafka.clients import closing
from model.kafka.obstacles import Obstacle, find_advertised_obstacle
from model.problems import ConfigurationError

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT = 2.0  # s
_KEPT_ERRORS = 64


def wait_for_broker(
    kafka: KafkaClients,
    settings: Settings,
    timeout: float,
    stopping: threading.Event,
    on_obstacle: Callable[[str], None],
) -> None:
    """Wait for the broker, at most `timeout` s and one more try. Returns within some seconds after
    `stopping` is set.

    Each new reason is logged, and `on_obstacle` gets a summary of it, without addresses. Raises
    ConfigurationError if the broker does not answer.
    """
    errors: deque[KafkaError] = deque(maxlen=_KEPT_ERRORS)  # from librdkafka's threads
    client: dict[str, Any] = {**kafka.librdkafka, "log_level": 0, "error_cb": errors.append}
    deadline = time.monotonic() + timeout
    said = None
    with closing(AdminClient(client)) as admin:
        while not stopping.is_set():
            failure = _try(admin, errors, kafka, settings)
            if failure is None:
                return
            message, obstacle = failure
            if obstacle is not None and obstacle.step != said:
                said = obstacle.step
                log.warning("waiting for Kafka, up to %.0f s: %s", timeout, message)
                on_obstacle(obstacle.summary)
            if time.monotonic() > deadline:
                raise ConfigurationError(message)
            stopping.wait(0.2)  # a port that refuses is known immediately


def _try(
    admin: AdminClient, errors: Collection[KafkaError], kafka: KafkaClients, settings: Settings
) -> tuple[str, Obstacle | None] | None:
    """Why the broker cannot be asked, and what to do, in sentences, with the obstacle if it is
    known. None if the broker can be asked."""
    servers, source = settings.bootstrap_servers, f"[kafka] of {settings.views}"
    known = {name: str(value) for name, value in kafka.librdkafka.items()}
    try:
        metadata = admin.list_topics(timeout=_REQUEST_TIMEOUT)
    except KafkaException as e:
        admin.poll(0)  # calls error_cb
        # not the original error, because it may quote a secret
        failure = failure_of(e, errors, servers, known, source, kafka.hide)
        obstacle = failure.obstacle
        if obstacle is None:
            return _message(servers, source, failure.why, failure.is_refusal), None
    else:
        advertised = [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
        obstacle = find_advertised_obstacle(servers, advertised, known, source)
        if obstacle is None:
            return None
    return f"no connection to the broker at {servers}: {obstacle.text}", obstacle


def _message(servers: str, source: str, why: str, is_refused: bool) -> str:
    if is_refused:
        return (
            f"no connection to the broker at {servers} could be authenticated ({why}). Correct the "
            f"settings of SASL and TLS in {source}."
        )
    return (
        f"no broker answers at {servers} ({why}). Start Kafka there, or set "
        f"QUERYABLE_BOOTSTRAP_SERVERS. Connection settings (SASL, TLS) belong in {source}."
    )
