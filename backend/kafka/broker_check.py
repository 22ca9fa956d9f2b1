"""Waits for the broker at the start, and says why there is no connection to it."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from backend.instance.settings import Settings
from backend.kafka.clients import KafkaClients
from model.kafka.admin import cause_of, is_refusal, reason_of
from model.kafka.clients import closing
from model.problems import ConfigurationError


def wait_for_broker(
    kafka: KafkaClients, settings: Settings, timeout: float, stopping: threading.Event
) -> None:
    """Wait for the broker, at most `timeout` s. Returns within 2 s after `stopping` is set.

    Raises ConfigurationError if the broker does not answer.
    """
    errors: list[KafkaError] = []  # connection errors, from librdkafka's threads
    client: dict[str, Any] = {**kafka.librdkafka, "log_level": 0, "error_cb": errors.append}
    deadline = time.monotonic() + timeout
    with closing(AdminClient(client)) as admin:
        while not stopping.is_set():
            try:
                admin.list_topics(timeout=2.0)
                return
            except KafkaException as e:
                admin.poll(0)  # calls error_cb
                if time.monotonic() > deadline:
                    cause = cause_of(e, errors)
                    # not the original error, because it may quote a secret
                    why = kafka.hide(reason_of(cause))
                    raise ConfigurationError(
                        _message(settings, why, is_refusal(cause.args[0]))
                    ) from None


def _message(settings: Settings, why: str, is_refused: bool) -> str:
    servers, views = settings.bootstrap_servers, settings.views
    if is_refused:
        return (
            f"no connection to the broker at {servers} could be authenticated ({why}). Correct the "
            f"settings of SASL and TLS in [kafka] of {views}."
        )
    return (
        f"no broker answers at {servers} ({why}). Start Kafka there, or set "
        f"QUERYABLE_BOOTSTRAP_SERVERS. Connection settings (SASL, TLS) belong in [kafka] of "
        f"{views}."
    )
