"""What all tests share: one real broker a worker, topics that are theirs alone, and the order."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from hypothesis import settings

from local.broker import Broker, quiet_admin
from local.topics import Topic, create_topics

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


# Files that take longest, by hand: they begin first, and the unit tests last, so that no worker is
# left alone with a long one at the end.
FIRST = (
    "tests/e2e/test_demo.py",
    "tests/spark/test_supervise.py",
    "tests/system/test_queries.py",
    "tests/system/test_membership.py",
    "tests/system/test_broker_outage.py",
    "tests/spark/test_run.py",
    "tests/system/test_crash.py",
    "tests/streams/test_streams.py",
    "tests/local/test_broker.py",
    "tests/system/test_standbys.py",
    "tests/system/test_openapi.py",
    "tests/system/test_topic_changes.py",
    "tests/faults/test_scenarios.py",
)
# They share a Spark session, which warms up for half a minute of CPU time: one worker runs them.
ONE_SESSION = (
    "tests/spark/test_supervise.py",
    "tests/spark/test_streams.py",
    "tests/spark/test_views.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files; that of tests in a file stays."""
    rank = {name: number for number, name in enumerate(FIRST)}

    def place(item: pytest.Item) -> tuple[int, bool]:
        is_unit_test = item.nodeid.startswith("tests/backend/unit/")
        return rank.get(_work_unit(item.nodeid), len(FIRST)), is_unit_test

    items.sort(key=place)


def _work_unit(nodeid: str) -> str:
    """What one worker runs from its begin to its end: a file, or those of the Spark session."""
    file = nodeid.partition("::")[0]
    return ONE_SESSION[0] if file in ONE_SESSION else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, in the order above: xdist's own is by the number of tests in a file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InOrder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _work_unit(nodeid)

    config.option.loadscopereorder = False
    return InOrder(config, log)
