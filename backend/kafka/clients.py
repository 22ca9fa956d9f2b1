"""The settings of an instance's two Kafka clients, and how clients of librdkafka are opened. Only
this module reads the secrets of the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from backend.kafka.tokens import FunctionTokens, TokenProvider
from model.kafka.clients import close
from model.kafka.config import (
    for_kafka_python,
    for_librdkafka,
    hide,
    oidc_client,
    token_function_of,
)
from model.kafka.config_providers import resolve

# answers while brokers start, or a leader is elected
_PASSING = (
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REQUEST_TIMED_OUT, KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION, KafkaError.NOT_CONTROLLER, KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
)  # fmt: skip


@dataclass(frozen=True)
class KafkaClients:
    """The settings of the clients. `table`: the table `[kafka]` with its references. The other
    fields have the values of the references."""

    table: Mapping[str, str]
    librdkafka: dict[str, Any] = field(repr=False)
    kafka_python: dict[str, Any] = field(repr=False)
    _resolved: Mapping[str, str] = field(repr=False)

    def hide(self, message: str) -> str:
        """A client's error message without secrets."""
        return hide(message, self.table, self._resolved)


@dataclass(frozen=True)
class Librdkafka:
    """The constructors of librdkafka's clients. `model.kafka.clients` says who destroys the
    clients. A test has other constructors, whose clients need no broker."""

    admin: Callable[[dict[str, Any]], AdminClient] = AdminClient
    consumer: Callable[[dict[str, Any]], Consumer] = Consumer
    producer: Callable[[dict[str, Any]], Producer] = Producer


LIBRDKAFKA = Librdkafka()


def kafka_clients(table: Mapping[str, str], servers: str) -> KafkaClients:
    """The settings of the clients. `servers`: host:port,…. Raises ConfigurationError for a missing
    value, and for a setting that one of the clients does not support."""
    resolved = resolve(table, open, os.environ)
    kafka_python = {**for_kafka_python(resolved), "bootstrap_servers": servers.split(",")}
    oidc = oidc_client(resolved)
    if oidc is not None:
        kafka_python["sasl_oauth_token_provider"] = TokenProvider(oidc)
    elif (function := token_function_of(resolved)) is not None:
        kafka_python["sasl_oauth_token_provider"] = FunctionTokens(function)
    librdkafka = {**for_librdkafka(resolved), "bootstrap.servers": servers}
    return KafkaClients(table, librdkafka, kafka_python, resolved)


def discard(producer: Producer) -> None:
    """Close a producer that has failed. Only the thread that has made it may call this. The
    callbacks of the records that it still has are called."""
    producer.purge()
    with suppress(KafkaException):  # the fatal error again
        close(producer)


def is_final(error: KafkaError) -> bool:
    """Whether the broker has answered a request, and would give the same answer again."""
    return error.code() >= 0 and error.code() not in _PASSING


def is_fatal(error: KafkaError) -> bool:
    """Whether an idempotent producer can no longer be used, for example because the brokers have
    lost its last records."""
    return error.fatal() or error.code() == KafkaError._FATAL
