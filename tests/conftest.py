"""What all tests share: one real broker a worker, and topics that are theirs alone."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from typing import Protocol

import pytest
from hypothesis import settings

from local.broker import Broker, quiet_admin
from local.topics import Topic, create_topics

pytest_plugins = ["tests.scheduling", "tests.watchdog"]

# how long an example takes says something about the machine alone
settings.register_profile("project", deadline=None)
settings.load_profile("project")

# Dozens of backends are started: each would compile every module of the product anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


SASL_USERS = {"queryable": "secret"}


class MakeTopic(Protocol):
    """``make_topic(partitions=3, cleanup_policy="compact")`` creates a topic, returns its name."""

    def __call__(self, partitions: int = 1, name: str | None = None, **config: object) -> str: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker on a free port. Tests that stop, kill or pause one make their own."""
    data = tmp_path_factory.mktemp("broker")
    properties = {"log.cleaner.backoff.ms": "100"}
    with Broker(data, properties=properties, sasl_users=SASL_USERS) as running:
        yield running


@pytest.fixture(scope="session")
def make_topic(broker: Broker) -> MakeTopic:
    """Creates topics with names nobody else uses; config in Kafka's names, ``_`` for ``.``."""
    admin = quiet_admin(broker.bootstrap_servers)

    def make(partitions: int = 1, name: str | None = None, **config: object) -> str:
        chosen = name or f"test-{uuid.uuid4().hex[:12]}"
        configured = {key.replace("_", "."): str(value) for key, value in config.items()}
        create_topics(admin, [Topic(chosen, partitions, configured)])
        return chosen

    return make
