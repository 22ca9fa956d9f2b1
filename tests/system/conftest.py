"""Deployments of real backends on the real broker, ended with the test whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from local.broker import Broker
from local.errors import tail
from tests.system.backends import Backends
from tests.system.model import Writer

# `deploy(views)` is a deployment of no backends yet on the shared broker
Deploy = Callable[..., Backends]

_LOG_LINES = 60


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the logs of its backends."""
    report = yield
    if report.failed:
        for deployment in _deployments(getattr(item, "funcargs", {}).values()):
            for backend in deployment.all:
                shown = tail(backend.log(whole=True), _LOG_LINES)
                report.sections.append((f"log of backend {backend.id}", shown))
    return report


def _deployments(values: Any) -> Iterator[Backends]:
    for value in values:
        if isinstance(value, Backends):
            yield value
        else:
            yield from getattr(value, "deployments", [])


class _Deployments:
    def __init__(self, tmp_path: Any, broker: Broker) -> None:
        self._tmp_path = tmp_path
        self._broker = broker
        self._stack = ExitStack()
        self.deployments: list[Backends] = []

    def __call__(self, views: str, broker: Broker | None = None, **settings: str) -> Backends:
        servers = settings.pop("bootstrap_servers", (broker or self._broker).bootstrap_servers)
        folder = self._tmp_path / f"deployment-{len(self.deployments)}"
        deployment = Backends(folder, servers, views, **settings)
        self.deployments.append(self._stack.enter_context(deployment))
        return deployment

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def deploy(tmp_path: Any, broker: Broker) -> Iterator[Deploy]:
    deployments = _Deployments(tmp_path, broker)
    try:
        yield deployments
    finally:
        deployments.close()


@pytest.fixture(scope="module")
def module_deploy(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Deploy]:
    """The same for backends that a module's tests share."""
    deployments = _Deployments(tmp_path_factory.mktemp("shared"), broker)
    try:
        yield deployments
    finally:
        deployments.close()


@pytest.fixture(scope="session")
def writer(broker: Broker) -> Writer:
    return Writer(broker.bootstrap_servers)
