"""What all tests share: one real broker for the whole run, and topics that are theirs alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Protocol

import pytest
from hypothesis import settings

from local.broker import Broker, quiet_admin
from local.topics import Topic, create_topics

# how long an example takes says something about the machine alone
settings.register_profile("project", deadline=None)
settings.load_profile("project")


class MakeTopic(Protocol):
    """``make_topic(partitions=3, cleanup_policy="compact")`` creates a topic, returns its name."""

    def __call__(self, partitions: int = 1, name: str | None = None, **config: object) -> str: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker on a free port. Tests that stop, kill or pause one make their own."""
    data = tmp_path_factory.mktemp("broker")
    with Broker(data, properties={"log.cleaner.backoff.ms": "100"}) as running:
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


# Files that take longest, by hand: they begin first, so that no worker is left alone with one at
# the end. Those with a Spark of their own stand apart from one another.
_FIRST = (
    "tests/e2e/test_demo.py",
    "tests/system/test_queries.py",
    "tests/spark/test_supervise.py",
    "tests/system/test_membership.py",
    "tests/spark/test_streams.py",
    "tests/system/test_standbys.py",
    "tests/streams/test_streams.py",
    "tests/spark/test_views.py",
    "tests/local/test_broker.py",
    "tests/spark/test_run.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files; that of tests in a file stays."""
    rank = {name: number for number, name in enumerate(_FIRST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(_FIRST)))
