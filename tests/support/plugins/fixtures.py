"""Fixtures for all tests: a broker for each xdist worker, topics, writers and deployments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.brokers import PasswordBroker
from tests.support.deployment import Deployment
from tests.support.secure_kafka.broker import SecureBroker
from tests.support.topics import Writer

SASL_USERS = {"queryable": "secret"}


class MakeTopic(Protocol):
    """`make_topic(partitions=3, cleanup_policy="compact")` creates a topic and returns its name."""

    def __call__(self, partitions: int = 1, name: str | None = None, **config: object) -> str: ...


class Deploy(Protocol):
    """`deploy(views)` creates a deployment without backends, on the shared broker or another."""

    def __call__(self, views: str, broker: Broker | None = None, **settings: str) -> Deployment: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PasswordBroker]:
    """A broker on a free port. Tests that stop, kill or pause a broker start their own."""
    data = tmp_path_factory.mktemp("broker")
    # By default a broker deletes records older than a week, every five minutes. Those of many tests
    # are of 2013.
    properties = {"log.cleaner.backoff.ms": "500", "log.retention.ms": "-1"}
    with PasswordBroker(data, SASL_USERS, properties=properties) as running:
        yield running


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker whose clients authenticate with any mechanism."""
    with SecureBroker(tmp_path_factory.mktemp("secure-broker")) as running:
        yield running


@pytest.fixture(scope="session")
def make_topic(broker: Broker) -> MakeTopic:
    """Creates topics with unique names; the configuration has Kafka's names, with `_` for `.`."""
    admin = quiet_admin(broker.bootstrap_servers)

    def make(partitions: int = 1, name: str | None = None, **config: object) -> str:
        chosen = name or f"test-{uuid.uuid4().hex[:12]}"
        configured = {key.replace("_", "."): str(value) for key, value in config.items()}
        create_topics(admin, [Topic(chosen, partitions, configured)])
        return chosen

    return make


@pytest.fixture(scope="session")
def writer(broker: Broker) -> Writer:
    return Writer(broker.bootstrap_servers)


@pytest.fixture
def deploy(tmp_path: Path, broker: Broker) -> Iterator[Deploy]:
    """Creates deployments that stop with the test."""
    with ExitStack() as stack:
        yield _deploy_in(tmp_path, broker, stack)


@pytest.fixture(scope="module")
def module_deploy(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Deploy]:
    """Creates deployments that the tests of a module share."""
    with ExitStack() as stack:
        yield _deploy_in(tmp_path_factory.mktemp("shared"), broker, stack)


def _deploy_in(folder: Path, shared: Broker, stack: ExitStack) -> Callable[..., Deployment]:
    count = 0

    def deploy(views: str, broker: Broker | None = None, **settings: str) -> Deployment:
        nonlocal count
        count += 1
        servers = settings.pop("bootstrap_servers", (broker or shared).bootstrap_servers)
        return stack.enter_context(
            Deployment(folder / f"deployment-{count}", servers, views, **settings)
        )

    return deploy
